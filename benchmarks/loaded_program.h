// A program of one delegate, loaded through ExecuTorch, with tensors for its first profiles.
#pragma once

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "delegate_blob.h"
#include "device.h"
#include "floor.h"

namespace executorch_tensorrt::benchmark {

/// Of Memory.
inline constexpr const char* kMemoryNames[] = {"device", "pinned", "pageable"};

/// One profile's inputs and outputs, in the profile's opt shapes.
class Tensors {
 public:
  Tensors(const DelegateBlob& blob, size_t profile, Memory kind, Device& device);

  std::vector<executorch::runtime::EValue> inputs;
  std::vector<std::pair<void*, size_t>> outputs;

 private:
  std::vector<std::vector<uint8_t>> memory_;
  std::vector<executorch::extension::TensorPtr> tensors_;
};

/// Gives a Module's method outputs of the caller's.
class BenchmarkModule : public executorch::extension::Module {
 public:
  using Module::Module;
  executorch::runtime::Method& method() { return *methods_.at("forward").method; }
};

/// A loaded program and the tensors that it is executed with, on `device`. `mode`: "graphs",
/// "enqueue" or "single".
struct Loaded {
  Loaded(const std::string& program, const DelegateBlob& blob, const std::string& mode,
         Memory memory, Device& device);

  void execute(size_t profile);

  BenchmarkModule module;
  std::vector<Tensors> profiles;  // of the first two, or of the one
};

}  // namespace executorch_tensorrt::benchmark
