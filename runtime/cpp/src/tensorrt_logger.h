// TensorRT's log messages: they go to ExecuTorch's log, and its errors into our own messages.
#pragma once

#include <NvInferRuntime.h>
#include <executorch/runtime/core/error.h>

#include <string>

namespace executorch_tensorrt {

/// One for the process, which TensorRT keeps for as long as its library is loaded.
nvinfer1::ILogger& tensorrt_logger();

/// Forgets the errors that TensorRT logged on this thread; before a call whose errors matter.
void forget_tensorrt_errors() noexcept;
/// The errors that TensorRT logged on this thread since, "" if none.
std::string tensorrt_errors();

/// report(code, what), followed by the errors that TensorRT logged on this thread.
[[nodiscard]] executorch::runtime::Error report_tensorrt(executorch::runtime::Error code,
                                                         const std::string& what);

}  // namespace executorch_tensorrt
