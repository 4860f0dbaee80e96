// Python values to ExecuTorch's and back, by DLPack.
#pragma once

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/core/evalue.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <vector>

#include "loaded_program.h"

namespace executorch_tensorrt::python {

/// A tensor of the caller's, read where it lies; row-major. TypeError, naming `what` it is, for an
/// object that is none or has a dtype that ExecuTorch does not know.
class GivenTensor {
 public:
  GivenTensor(nanobind::handle value, const std::string& what);

  const void* data() const { return array_.data(); }
  executorch::aten::ScalarType dtype() const { return dtype_; }
  std::vector<int64_t> shape() const;
  int device_type() const { return array_.device_type(); }
  int device_id() const { return array_.device_id(); }

 private:
  nanobind::ndarray<nanobind::ro, nanobind::c_contig> array_;
  executorch::aten::ScalarType dtype_;
};

/// The inputs of one call; keeps alive what their values point to.
class CallInputs {
 public:
  /// TypeError, naming the input, for what is no tensor where the method takes one, and the like;
  /// InvalidArgument for a tensor on a device that the method does not take.
  CallInputs(nanobind::handle inputs, const LoadedMethod& method);

  const std::vector<executorch::runtime::EValue>& values() const { return values_; }

 private:
  void add(size_t index, nanobind::handle value, executorch::runtime::Tag wanted);
  void add_tensor(size_t index, nanobind::handle value);

  const LoadedMethod& method_;
  std::vector<GivenTensor> arrays_;
  std::vector<executorch::extension::TensorPtr> tensors_;
  std::vector<executorch::runtime::EValue> values_;
};

/// A tensor becomes an object with __dlpack__ that owns its memory, or, where it lies in memory
/// that the caller gave, its dtype's name and its shape; a number, itself.
nanobind::object to_python(Output output);
nanobind::object to_python(TensorOutput output);

/// "float32", as NumPy and PyTorch call it.
const char* dtype_name(executorch::aten::ScalarType scalar_type);

}  // namespace executorch_tensorrt::python
