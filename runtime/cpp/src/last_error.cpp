#include "last_error.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "thread_text.h"

namespace executorch_tensorrt {

namespace {

/// ExecuTorch cuts a log message off at 256 bytes; longer ones take several.
constexpr size_t kLogBytes = 240;

thread_local int unlogged_scopes = 0;

struct LastError;

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
  log(message);
  // Takes its memory over: nothing here can fail.
  if (std::string* kept = thread_text<LastError>()) *kept = std::move(message);
  return code;
}

Error report(Error code, const char* message) noexcept {
  log(message);
  std::string* kept = thread_text<LastError>();
  if (kept == nullptr) return code;
  try {
    *kept = message;
  } catch (const std::bad_alloc&) {
    *kept = "out of memory";  // short enough to stand in the string itself
  }
  return code;
}

UnloggedErrors::UnloggedErrors() noexcept { ++unlogged_scopes; }

UnloggedErrors::~UnloggedErrors() { --unlogged_scopes; }

const char* last_error_message() noexcept {
  const std::string* kept = thread_text<LastError>();
  return kept == nullptr ? "" : kept->c_str();
}

void clear_last_error() noexcept {
  if (std::string* kept = thread_text<LastError>()) kept->clear();
}

}  // namespace executorch_tensorrt
