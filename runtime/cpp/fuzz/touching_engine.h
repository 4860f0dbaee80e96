// An engine for whatever blob, on the host: it computes nothing, but reads all of its inputs and
// writes all of its outputs, so that a sanitizer sees memory that is too small. States in place and
// elsewhere, a guard, and failures, as it is told.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine.h"
#include "last_error.h"

namespace executorch_tensorrt::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s; the last error: %s\n", what, last_error_message());
  std::abort();
}

/// What the executions to come are to do.
struct Behaviour {
  enum class Failure { kNone, kBefore, kBehind };  // what was written
  Failure failure = Failure::kNone;
  uint8_t fill = 0;           // of the outputs and the states
  bool in_bounds = true;      // the guard
  int64_t dynamic_size = 16;  // of an output's dims that are dynamic
};

class TouchingContext final : public ExecutionContext {
 public:
  TouchingContext(const DelegateBlob& blob, std::shared_ptr<const Behaviour> behaviour)
      : blob_(blob), behaviour_(std::move(behaviour)), tensors_(blob.tensors()) {
    for (const Binding& tensor : tensors_) shapes_.push_back(tensor.dims);
    memory_.resize(tensors_.size());
  }

  Error set_optimization_profile(uint32_t profile, Stream) override {
    require(profile < blob_.profiles.size(), "a profile that is none");
    return Error::Ok;
  }
  Error set_activation_memory(void*, size_t) override { return Error::Ok; }
  Error set_input_shape(size_t binding, const Dims& shape) override {
    require(binding < blob_.num_inputs, "a shape of what is no input");
    shapes_[binding] = shape;
    return Error::Ok;
  }
  Result<Dims> output_shape(size_t binding) override {
    require(binding >= blob_.num_inputs && binding < blob_.bindings.size(), "it is no output");
    Dims& shape = shapes_[binding] = tensors_[binding].dims;
    std::replace(shape.size.begin(), shape.size.begin() + shape.rank, int64_t{-1},
                 behaviour_->dynamic_size);
    return Dims(shape);
  }
  Error set_tensor_address(size_t binding, void* address, size_t bytes) override {
    require(address != nullptr, "a tensor without an address");
    memory_.at(binding) = {static_cast<uint8_t*>(address), bytes};
    return Error::Ok;
  }
  Error enqueue(Stream) override {
    if (behaviour_->failure == Behaviour::Failure::kBefore) return fail();
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const size_t bytes = bytes_of(tensors_[i], shapes_[i]);
      require(bytes <= memory_[i].bytes, "a tensor with too little room");
      if (tensors_[i].is_input) {
        for (size_t b = 0; b < bytes; ++b) sum_ = sum_ + memory_[i].data[b];
      } else {
        std::memset(memory_[i].data, behaviour_->fill, bytes);
      }
    }
    for (size_t i = 0; i < blob_.states.size(); ++i) {
      const bool same = memory_[blob_.state_input(i)].data == memory_[blob_.state_output(i)].data;
      require(same == (blob_.states[i].mode == StateMode::kAlias), "a state in the wrong place");
    }
    if (!blob_.guard.empty()) *memory_[blob_.guard_output()].data = behaviour_->in_bounds;
    return behaviour_->failure == Behaviour::Failure::kBehind ? fail() : Error::Ok;
  }
  Error copy_output(size_t, void*, size_t, Stream) override {
    return report(Error::Internal, "outputs are bound before");
  }

 private:
  struct Memory {
    uint8_t* data = nullptr;
    size_t bytes = 0;
  };

  static Error fail() { return report(Error::Internal, "it was told to fail"); }

  const DelegateBlob blob_;
  const std::shared_ptr<const Behaviour> behaviour_;
  const std::vector<Binding> tensors_;
  std::vector<Dims> shapes_;
  std::vector<Memory> memory_;
  volatile uint8_t sum_ = 0;  // keeps the reads
};

class TouchingEngine final : public Engine {
 public:
  TouchingEngine(const DelegateBlob& blob, std::shared_ptr<const Behaviour> behaviour)
      : blob_(blob), behaviour_(std::move(behaviour)) {}

  size_t activation_bytes(uint32_t) const override { return 1; }
  bool knows_shapes_before_enqueue() const override { return true; }
  bool can_be_captured() const override { return true; }
  Result<std::unique_ptr<ExecutionContext>> create_execution_context() override {
    return std::unique_ptr<ExecutionContext>(std::make_unique<TouchingContext>(blob_, behaviour_));
  }

 private:
  const DelegateBlob blob_;
  const std::shared_ptr<const Behaviour> behaviour_;
};

}  // namespace executorch_tensorrt::fuzz
