// Whether a deserialized engine is the one that its blob describes.
#pragma once

#include <NvInferRuntime.h>
#include <executorch/runtime/core/error.h>

#include "delegate_blob.h"

namespace executorch_tensorrt {

/// DelegateInvalidCompatibility, naming the tensor, what the blob says of it and what the engine
/// says, unless the engine's tensors are the blob's bindings, states and guard (name, direction,
/// dtype, shape, where they lie, linear memory, which output lies at an input) and its optimization
/// profiles cover the blob's.
[[nodiscard]] executorch::runtime::Error check_bindings(const nvinfer1::ICudaEngine& engine,
                                                        const DelegateBlob& blob);

/// At most kMaxRank dims, as in TensorRT.
nvinfer1::Dims to_tensorrt(const Dims& dims);
/// Rank 0 for TensorRT's "invalid" (nbDims -1).
Dims from_tensorrt(const nvinfer1::Dims& dims);

}  // namespace executorch_tensorrt
