// What went wrong, in words.
#pragma once

#include <executorch_tensorrt/api.h>

namespace executorch_tensorrt {

/// The text of the last error that this library reported on the calling thread, "" if none.
///
/// ExecuTorch hands its callers an error code alone; the text names the input, the profiles and
/// their ranges, or the versions that do not match. The pointer stays valid until this library
/// reports another error on the same thread.
EXECUTORCH_TENSORRT_API const char* last_error_message() noexcept;

/// Forgets the calling thread's last error.
EXECUTORCH_TENSORRT_API void clear_last_error() noexcept;

}  // namespace executorch_tensorrt
