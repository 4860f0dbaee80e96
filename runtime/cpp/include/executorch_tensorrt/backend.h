// The backend's registration with ExecuTorch.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch_tensorrt/api.h>

namespace executorch_tensorrt {

/// How the registration went, which the library does by itself when it is loaded: Ok, or what
/// ExecuTorch answered (another backend of the same name, or its table is full).
///
/// A program that calls this also keeps the linker from dropping the library, of which it may use
/// nothing else (-Wl,--as-needed).
EXECUTORCH_TENSORRT_API executorch::runtime::Error registration_status() noexcept;

}  // namespace executorch_tensorrt
