// Whether an engine may run with the TensorRT and on the GPU that are here, before it is
// deserialized. Knows neither CUDA nor TensorRT.
#pragma once

#include <executorch/runtime/core/error.h>

#include <string>

#include "delegate_blob.h"

namespace executorch_tensorrt {

/// DelegateInvalidCompatibility, naming the version that built the engine and the one found, if
/// TensorRT would not run it. `library` describes the one found, for the message.
[[nodiscard]] executorch::runtime::Error check_version(const DelegateBlob& blob,
                                                       const TensorRTVersion& found,
                                                       const std::string& library);

/// DelegateInvalidCompatibility if the engine is tied to GPUs of another compute capability.
/// `gpu` describes the one found, for the message.
[[nodiscard]] executorch::runtime::Error check_compute_capability(const DelegateBlob& blob,
                                                                  uint32_t major, uint32_t minor,
                                                                  const std::string& gpu);

/// DelegateInvalidCompatibility if the environment's NVIDIA_TF32_OVERRIDE (nullptr: not set) is not
/// what it was when a TensorRT-RTX engine was built: TensorRT-RTX then makes no context of it, and
/// does not say why.
[[nodiscard]] executorch::runtime::Error check_tf32_override(const DelegateBlob& blob,
                                                             const char* found);

}  // namespace executorch_tensorrt
