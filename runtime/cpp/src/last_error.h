// Errors with words: the code goes to ExecuTorch, the text to its log and to the calling thread.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch_tensorrt/error.h>

#include <string>

namespace executorch_tensorrt {

using executorch::runtime::Error;

/// Logs `message`, keeps it as this thread's last error, and returns `code`.
[[nodiscard]] Error report(Error code, std::string message) noexcept;

/// The same for a text that is at hand; copying it may fail, reporting it does not.
[[nodiscard]] Error report(Error code, const char* message) noexcept;

/// While it lives, errors of this thread are kept but not logged: for an attempt whose failure is
/// handled.
class UnloggedErrors {
 public:
  UnloggedErrors() noexcept;
  ~UnloggedErrors();
  UnloggedErrors(const UnloggedErrors&) = delete;
  UnloggedErrors& operator=(const UnloggedErrors&) = delete;
};

}  // namespace executorch_tensorrt
