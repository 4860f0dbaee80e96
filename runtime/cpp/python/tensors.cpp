#include "tensors.h"

#include <nanobind/stl/vector.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace executorch_tensorrt::python {

namespace nb = nanobind;

namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Tag;

struct DType {
  ScalarType scalar_type;
  const char* name;
  nb::dlpack::dtype dlpack;
};

constexpr uint8_t code(nb::dlpack::dtype_code value) { return static_cast<uint8_t>(value); }

constexpr DType kDTypes[] = {
    {ScalarType::Byte, "uint8", {code(nb::dlpack::dtype_code::UInt), 8, 1}},
    {ScalarType::Char, "int8", {code(nb::dlpack::dtype_code::Int), 8, 1}},
    {ScalarType::Short, "int16", {code(nb::dlpack::dtype_code::Int), 16, 1}},
    {ScalarType::Int, "int32", {code(nb::dlpack::dtype_code::Int), 32, 1}},
    {ScalarType::Long, "int64", {code(nb::dlpack::dtype_code::Int), 64, 1}},
    {ScalarType::Half, "float16", {code(nb::dlpack::dtype_code::Float), 16, 1}},
    {ScalarType::Float, "float32", {code(nb::dlpack::dtype_code::Float), 32, 1}},
    {ScalarType::Double, "float64", {code(nb::dlpack::dtype_code::Float), 64, 1}},
    {ScalarType::Bool, "bool", {code(nb::dlpack::dtype_code::Bool), 8, 1}},
    {ScalarType::BFloat16, "bfloat16", {code(nb::dlpack::dtype_code::Bfloat), 16, 1}},
};

std::string input_name(size_t index) { return "input " + std::to_string(index); }

[[noreturn]] void refuse(const std::string& what, nb::handle value, const char* wanted) {
  throw nb::type_error((what + " must be " + wanted + ", not " +
                        nb::cast<std::string>(value.type().attr("__name__")))
                           .c_str());
}

[[noreturn]] void refuse(size_t index, nb::handle value, const char* wanted) {
  refuse(input_name(index), value, wanted);
}

ScalarType scalar_type(const std::string& what, nb::dlpack::dtype given) {
  for (const DType& dtype : kDTypes) {
    if (dtype.dlpack == given) return dtype.scalar_type;
  }
  throw nb::type_error((what + " has a dtype that ExecuTorch does not know (DLPack code " +
                        std::to_string(given.code) + ", " + std::to_string(given.bits) + " bits)")
                           .c_str());
}

/// Which GPU a tensor must be on the delegate says, by the driver's word.
void check_device(size_t index, int type, int id, const LoadedMethod& method) {
  if (type == nb::device::cpu::value || type == nb::device::cuda_host::value) return;
  if (type != nb::device::cuda::value && type != nb::device::cuda_managed::value) {
    throw RuntimeFailure(Error::InvalidArgument,
                         input_name(index) + " is on a device of DLPack type " +
                             std::to_string(type) + "; the method takes host and CUDA memory");
  }
  if (!method.takes_device_tensors()) {
    throw RuntimeFailure(Error::InvalidArgument,
                         input_name(index) + " is on cuda:" + std::to_string(id) +
                             "; part of this method runs on the CPU: give it in host memory");
  }
}

const DType& dtype_of(ScalarType scalar_type) {
  for (const DType& dtype : kDTypes) {
    if (dtype.scalar_type == scalar_type) return dtype;
  }
  throw RuntimeFailure(Error::NotSupported, std::string("an output is ") +
                                                executorch::runtime::toString(scalar_type) +
                                                ", which DLPack does not know");
}

}  // namespace

const char* dtype_name(ScalarType scalar_type) { return dtype_of(scalar_type).name; }

GivenTensor::GivenTensor(nb::handle value, const std::string& what) {
  // Makes a row-major copy of what is laid out otherwise.
  if (!nb::try_cast(value, array_, /*convert=*/true)) {
    refuse(what, value, "a tensor (an object with __dlpack__ or a buffer)");
  }
  dtype_ = scalar_type(what, array_.dtype());
}

std::vector<int64_t> GivenTensor::shape() const {
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < array_.ndim(); ++d) sizes.push_back(static_cast<int64_t>(array_.shape(d)));
  return sizes;
}

CallInputs::CallInputs(nb::handle inputs, const LoadedMethod& method) : method_(method) {
  const auto meta = method.meta();
  size_t index = 0;
  for (const nb::handle value : inputs) {
    // One too many is refused where they are counted.
    const auto tag = index < meta.num_inputs() ? meta.input_tag(index)
                                               : executorch::runtime::Result<Tag>(Tag::Tensor);
    add(index, value, tag.ok() ? *tag : Tag::Tensor);
    ++index;
  }
}

void CallInputs::add(size_t index, nb::handle value, Tag wanted) {
  switch (wanted) {
    case Tag::Tensor:
      return add_tensor(index, value);
    case Tag::Int:
      if (!nb::isinstance<nb::int_>(value)) refuse(index, value, "an int");
      values_.emplace_back(nb::cast<int64_t>(value));
      return;
    case Tag::Double:
      if (!nb::isinstance<nb::float_>(value)) refuse(index, value, "a float");
      values_.emplace_back(nb::cast<double>(value));
      return;
    case Tag::Bool:
      if (!nb::isinstance<nb::bool_>(value)) refuse(index, value, "a bool");
      values_.emplace_back(nb::cast<bool>(value));
      return;
    case Tag::None:
      if (!value.is_none()) refuse(index, value, "None");
      values_.emplace_back();
      return;
    default:
      refuse(index, value, "of a kind that this binding does not pass on");
  }
}

void CallInputs::add_tensor(size_t index, nb::handle value) {
  GivenTensor array(value, input_name(index));
  check_device(index, array.device_type(), array.device_id(), method_);
  std::vector<SizesType> sizes;
  for (const int64_t size : array.shape()) {
    if (size > std::numeric_limits<SizesType>::max()) {
      throw RuntimeFailure(Error::InvalidArgument,
                           input_name(index) + " has size " + std::to_string(size) + " in dim " +
                               std::to_string(sizes.size()) + ", more than ExecuTorch can count");
    }
    sizes.push_back(static_cast<SizesType>(size));
  }
  // Inputs are only read; ExecuTorch's tensors have no way to say so.
  tensors_.push_back(executorch::extension::from_blob(const_cast<void*>(array.data()),
                                                      std::move(sizes), array.dtype()));
  arrays_.push_back(std::move(array));
  values_.emplace_back(*tensors_.back());
}

nb::object to_python(TensorOutput output) {
  if (output.memory == nullptr) {
    return nb::make_tuple(dtype_name(output.dtype), nb::tuple(nb::cast(output.shape)));
  }
  uint8_t* data = output.memory.release();
  nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<uint8_t*>(memory); });
  return nb::cast(nb::ndarray<nb::array_api>(data, output.shape.size(), output.shape.data(), owner,
                                             nullptr, dtype_of(output.dtype).dlpack));
}

nb::object to_python(Output output) {
  if (auto* tensor = std::get_if<TensorOutput>(&output)) return to_python(std::move(*tensor));
  if (const auto* number = std::get_if<int64_t>(&output)) return nb::int_(*number);
  if (const auto* number = std::get_if<double>(&output)) return nb::float_(*number);
  if (const auto* flag = std::get_if<bool>(&output)) return nb::bool_(*flag);
  return nb::none();
}

}  // namespace executorch_tensorrt::python
