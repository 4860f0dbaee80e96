#include "last_error.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

namespace executorch_tensorrt {

namespace {

/// ExecuTorch cuts a log message off at 256 bytes; longer ones take several.
constexpr size_t kLogBytes = 240;

thread_local int unlogged_scopes = 0;

std::string& thread_message() {
  thread_local std::string message;
  return message;
}

void log(std::string_view message) {
  if (unlogged_scopes > 0) return;
  while (!message.empty()) {
    size_t size = std::min(message.size(), kLogBytes);
    if (size < message.size()) {
      const size_t space = message.substr(0, size).rfind(' ');
      if (space != std::string_view::npos) size = space + 1;
    }
    ET_LOG(Error, "%.*s", static_cast<int>(size), message.data());
    message.remove_prefix(size);
  }
}

}  // namespace

Error report(Error code, std::string message) noexcept {
  std::string& kept = thread_message();
  kept = std::move(message);  // takes its memory over: nothing here can fail
  log(kept);
  return code;
}

Error report(Error code, const char* message) noexcept {
  std::string& kept = thread_message();
  try {
    kept = message;
  } catch (const std::bad_alloc&) {
    kept = "out of memory";  // short enough to stand in the string itself
  }
  log(message);
  return code;
}

UnloggedErrors::UnloggedErrors() noexcept { ++unlogged_scopes; }

UnloggedErrors::~UnloggedErrors() { --unlogged_scopes; }

const char* last_error_message() noexcept { return thread_message().c_str(); }

void clear_last_error() noexcept { thread_message().clear(); }

}  // namespace executorch_tensorrt
