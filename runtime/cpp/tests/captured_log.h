// Keeps what ExecuTorch would log, out of the tests' output.
#pragma once

#include <executorch/runtime/platform/platform.h>

#include <atomic>
#include <mutex>
#include <string>

namespace executorch_tensorrt::test {

/// While it lives, log messages go to text(), each with a line end. One at a time in a process.
class CapturedLog {
 public:
  CapturedLog() {
    // ExecuTorch complains in the log whenever this is done again, so it is done once.
    static const bool registered = executorch::runtime::register_pal(forwarding());
    (void)registered;
    text().clear();
    capturing() = true;
  }
  ~CapturedLog() { capturing() = false; }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  static std::string& text() {
    static std::string text;
    return text;
  }

 private:
  static std::atomic<bool>& capturing() {
    static std::atomic<bool> capturing{false};
    return capturing;
  }

  static pal_emit_log_message_method& emit() {
    static pal_emit_log_message_method emit = nullptr;
    return emit;
  }

  /// The platform as it is, but for messages that are captured.
  static executorch::runtime::PalImpl forwarding() {
    executorch::runtime::PalImpl platform = *executorch::runtime::get_pal_impl();
    emit() = platform.emit_log_message;
    platform.emit_log_message = [](et_timestamp_t time, et_pal_log_level_t level, const char* file,
                                   const char* function, size_t line, const char* message,
                                   size_t length) {
      if (!capturing()) return emit()(time, level, file, function, line, message, length);
      static std::mutex mutex;
      const std::lock_guard<std::mutex> lock(mutex);
      text().append(message, length) += '\n';
    };
    return platform;
  }
};

}  // namespace executorch_tensorrt::test
