// Whether what was read from a delegate blob is consistent.
#pragma once

#include <optional>

#include "delegate_blob.h"

namespace executorch_tensorrt {

/// Bytes of one element; 0 for a type that no binding has.
size_t element_size(executorch::aten::ScalarType dtype);

/// Bytes at these sizes; none if they do not fit in 64 bits. Negative sizes count as 1.
std::optional<uint64_t> checked_bytes(const Dims& dims, executorch::aten::ScalarType dtype);

/// Throws BlobRefused unless bindings, profiles and build options agree with each other.
/// backend/blob_checks.py makes the same checks.
void check_contents(const DelegateBlob& blob);

}  // namespace executorch_tensorrt
