#include "delegate_arguments.h"

#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <array>
#include <limits>
#include <string>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::EValue;
using executorch::runtime::Span;

std::string quoted(const Binding& binding) {
  return std::string(binding.is_input ? "input '" : "output '") + binding.name + "'";
}

Dims shape_of(const Tensor& tensor) {
  Dims shape;
  for (const auto size : tensor.sizes()) shape.size[shape.rank++] = size;
  return shape;
}

}  // namespace

DelegateArguments::DelegateArguments(const DelegateBlob& blob)
    : blob_(blob), tensors_(blob.bindings.size(), nullptr), input_shapes_(blob.num_inputs) {}

Error DelegateArguments::read(Span<EValue*> args) {
  if (args.size() != blob_.num_arguments) {
    return report(Error::InvalidArgument,
                  "the delegate takes " + std::to_string(blob_.num_arguments) +
                      " arguments, inputs and outputs together; it was given " +
                      std::to_string(args.size()));
  }
  for (size_t i = 0; i < blob_.bindings.size(); ++i) {
    const Error error = read_one(i, *args[blob_.bindings[i].argument]);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

Error DelegateArguments::read_one(size_t index, EValue& value) {
  const Binding& binding = blob_.bindings[index];
  if (!value.isTensor()) {
    return report(Error::InvalidArgument, quoted(binding) + " must be a tensor");
  }
  Tensor& tensor = value.toTensor();
  if (tensor.scalar_type() != binding.dtype) {
    return report(Error::InvalidArgument,
                  quoted(binding) + " must be " + executorch::runtime::toString(binding.dtype) +
                      ", not " + executorch::runtime::toString(tensor.scalar_type()));
  }
  if (static_cast<size_t>(tensor.dim()) > kMaxRank) {
    return report(Error::InvalidArgument,
                  quoted(binding) + " has rank " + std::to_string(tensor.dim()) +
                      "; TensorRT takes at most " + std::to_string(kMaxRank));
  }
  const auto order = tensor.dim_order();
  if (!executorch::runtime::is_contiguous_dim_order(order.data(), order.size())) {
    return report(Error::InvalidArgument,
                  quoted(binding) +
                      " is not laid out in row-major order (its dim order is not 0, 1, "
                      "2...); give a contiguous tensor");
  }
  tensors_[index] = &tensor;
  if (binding.is_input) input_shapes_[index] = shape_of(tensor);
  return Error::Ok;
}

Error DelegateArguments::resize_output(size_t index, const Dims& shape) {
  Tensor& tensor = *tensors_[index];
  std::array<SizesType, kMaxRank> sizes{};
  for (uint32_t d = 0; d < shape.rank; ++d) {
    if (shape.size[d] < 0 || shape.size[d] > std::numeric_limits<SizesType>::max()) {
      return report(Error::Internal, quoted(blob_.bindings[index]) + " is " + to_string(shape) +
                                         ", which ExecuTorch cannot count");
    }
    sizes[d] = static_cast<SizesType>(shape.size[d]);
  }
  const Error error = executorch::runtime::resize_tensor(
      tensor, executorch::aten::ArrayRef<SizesType>(sizes.data(), shape.rank));
  if (error == Error::Ok) return Error::Ok;
  return report(Error::InvalidArgument, quoted(blob_.bindings[index]) + " is " + to_string(shape) +
                                            ", for which the program has no room (it has " +
                                            to_string(shape_of(tensor)) + ")");
}

Error DelegateArguments::set_memory(size_t index, void* memory, size_t bytes) {
  const Error error =
      executorch::runtime::internal::set_tensor_data(*tensors_[index], memory, bytes);
  if (error == Error::Ok) return Error::Ok;
  return report(error, quoted(blob_.bindings[index]) + " has no memory and takes none");
}

}  // namespace executorch_tensorrt
