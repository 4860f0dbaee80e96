#include "tensorrt_logger.h"

#include <executorch/runtime/platform/log.h>

#include "last_error.h"
#include "thread_text.h"

namespace executorch_tensorrt {

namespace {

using executorch::runtime::Error;

/// One cause often makes several layers of TensorRT complain; the first ones say the most.
constexpr size_t kMaxErrorBytes = 2000;

struct TensorRTErrors;

class Logger final : public nvinfer1::ILogger {
 public:
  void log(Severity severity, const char* message) noexcept override {
    switch (severity) {
      case Severity::kINTERNAL_ERROR:
      case Severity::kERROR:
        ET_LOG(Error, "TensorRT: %s", message);
        remember(message);
        break;
      case Severity::kWARNING:
        ET_LOG(Info, "TensorRT warns: %s", message);
        break;
      default:  // hundreds of lines a load
        ET_LOG(Debug, "TensorRT: %s", message);
    }
  }

 private:
  static void remember(const char* message) noexcept {
    try {
      std::string* errors = thread_text<TensorRTErrors>();
      if (errors == nullptr || errors->size() >= kMaxErrorBytes) return;
      *errors += (errors->empty() ? "" : "; ") + std::string(message);
    } catch (...) {  // out of memory: the log has the message
    }
  }
};

}  // namespace

nvinfer1::ILogger& tensorrt_logger() {
  static Logger& logger = *new Logger;  // never destroyed: TensorRT logs while the process exits
  return logger;
}

void forget_tensorrt_errors() noexcept {
  if (std::string* errors = thread_text<TensorRTErrors>()) errors->clear();
}

std::string tensorrt_errors() {
  const std::string* errors = thread_text<TensorRTErrors>();
  return errors == nullptr ? "" : *errors;
}

Error report_tensorrt(Error code, const std::string& what) {
  const std::string errors = tensorrt_errors();
  return report(code, errors.empty() ? what : what + ". TensorRT says: " + errors);
}

}  // namespace executorch_tensorrt
