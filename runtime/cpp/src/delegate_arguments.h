// The tensors of one delegate call, checked against the blob's bindings.
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/span.h>

#include <vector>

#include "delegate_blob.h"

namespace executorch_tensorrt {

/// Lives as long as its delegate, so that reading a call's arguments allocates nothing.
class DelegateArguments {
 public:
  explicit DelegateArguments(const DelegateBlob& blob);

  /// Takes the tensors of a call. InvalidArgument, naming the binding, what it is and what came,
  /// for a wrong count, kind of value, dtype, rank or memory layout.
  executorch::runtime::Error read(executorch::runtime::Span<executorch::runtime::EValue*> args);

  executorch::runtime::Span<const Dims> input_shapes() const {
    return {input_shapes_.data(), input_shapes_.size()};
  }
  /// The tensor of a binding; its memory and sizes are the caller's.
  const executorch::aten::Tensor& tensor(size_t binding) const { return *tensors_[binding]; }

  /// Gives an output its shape. InvalidArgument where the program planned less room for it.
  executorch::runtime::Error resize_output(size_t binding, const Dims& shape);
  /// Gives an output that has none memory; it must stay until the next call is over.
  executorch::runtime::Error set_memory(size_t binding, void* memory, size_t bytes);

 private:
  executorch::runtime::Error read_one(size_t binding, executorch::runtime::EValue& value);

  const DelegateBlob& blob_;
  std::vector<executorch::aten::Tensor*> tensors_;  // one a binding
  std::vector<Dims> input_shapes_;                  // one an input
};

}  // namespace executorch_tensorrt
