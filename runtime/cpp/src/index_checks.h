// Whether the positions that a call writes its state at are within it.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/span.h>

#include "delegate_blob.h"

namespace executorch_tensorrt {

/// Checks the values of the check's input, which has its shape of `shapes` (one an input) and lies
/// in host memory. InvalidArgument, naming the input, the value, the state and the range.
[[nodiscard]] executorch::runtime::Error check_index_values(
    const DelegateBlob& blob, const IndexCheck& check, executorch::runtime::Span<const Dims> shapes,
    const void* values);

}  // namespace executorch_tensorrt
