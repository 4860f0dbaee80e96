// Calls with PyTorch tensors on a GPU in shapes that were seen before, without Python code on the
// way: that takes longer than launching the graph.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "execution.h"
#include "loaded_program.h"

namespace executorch_tensorrt::python {

/// Of a method that takes device tensors and whose outputs' shapes follow from its inputs'.
class TorchCalls {
 public:
  /// `torch`: the module.
  TorchCalls(std::shared_ptr<LoadedMethod> method, nanobind::object torch);

  /// The outputs, new tensors, ready when PyTorch's current stream gets there; None, with nothing
  /// done, where the inputs are not all contiguous tensors on its GPU in shapes that were
  /// remembered, or the thread's calls are on a stream of the caller's.
  nanobind::object call(const nanobind::tuple& inputs, const std::optional<Profile>& profile);

  /// Remembers of a call that went well what its outputs were: a dtype's name and a shape each.
  void remember(const nanobind::tuple& inputs, const nanobind::list& outputs);

 private:
  struct KnownOutput {
    nanobind::object like;  // a tensor of its shape and dtype, of one element in memory
    size_t bytes;
    std::vector<executorch::aten::SizesType> sizes;
  };
  using Key = std::vector<int64_t>;  // of each input, the rank and the sizes

  /// None where an input is no contiguous tensor on the GPU of the method.
  std::optional<nanobind::list> capsules(const nanobind::tuple& inputs) const;

  const std::shared_ptr<LoadedMethod> method_;
  const int gpu_;
  const nanobind::object torch_, tensor_type_, to_dlpack_, empty_like_, current_stream_,
      contiguous_;
  std::map<Key, std::shared_ptr<const std::vector<KnownOutput>>> known_;
};

}  // namespace executorch_tensorrt::python
