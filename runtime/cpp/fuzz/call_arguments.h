// The arguments of a call that fuzzing makes up, which fit or do not.
#pragma once

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/core/evalue.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "delegate_blob.h"

namespace executorch_tensorrt::fuzz {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

// Above them the harness, not the runtime, would run out of memory.
constexpr uint32_t kMostArguments = 64;
constexpr size_t kMostBytes = 1 << 20;

/// The arguments of one call, each in an allocation of its own size.
class Arguments {
 public:
  Arguments(const DelegateBlob& blob, FuzzedDataProvider& script)
      : values_(std::min(blob.num_arguments, kMostArguments)) {
    const Profile& profile =
        blob.profiles[script.ConsumeIntegralInRange<size_t>(0, blob.profiles.size() - 1)];
    first_ = script.ConsumeIntegralInRange(-2, 20);
    step_ = script.ConsumeIntegralInRange(0, 3) == 1 ? 0 : 1;
    const bool as_told = script.ConsumeIntegralInRange(0, 3) != 1;
    for (size_t i = 0; i < blob.bindings.size(); ++i) {
      const Binding& binding = blob.bindings[i];
      if (binding.argument >= values_.size()) continue;
      const Dims shape = binding.is_input ? choose(profile.inputs[i], script) : largest(binding);
      fits_ &= add(binding, as_told ? shape : perturbed(shape, script),
                   as_told ? binding.dtype : other_dtype(binding.dtype, script));
    }
    if (!as_told && script.ConsumeBool() && !values_.empty()) values_.pop_back();
    for (EValue& value : values_) pointers_.push_back(&value);
  }

  /// Whether the harness could make them.
  bool fits() const { return fits_; }
  const EValue& operator[](size_t argument) const { return values_[argument]; }
  executorch::runtime::Span<EValue*> span() { return {pointers_.data(), pointers_.size()}; }

 private:
  static Dims choose(const ShapeRange& range, FuzzedDataProvider& script) {
    const Dims* const shapes[] = {&range.min, &range.opt, &range.max};
    return *shapes[script.ConsumeIntegralInRange(0, 2)];
  }
  /// -1 stands for 16 here, which is the bound of the seeds' dynamic dims.
  static Dims largest(const Binding& binding) {
    Dims shape = binding.dims;
    for (uint32_t d = 0; d < shape.rank; ++d) {
      if (shape.size[d] < 0) shape.size[d] = 16;
    }
    return shape;
  }
  static Dims perturbed(Dims shape, FuzzedDataProvider& script) {
    if (script.ConsumeBool()) shape.rank = script.ConsumeIntegralInRange<uint32_t>(0, kMaxRank);
    if (shape.rank > 0) {
      shape.size[script.ConsumeIntegralInRange<uint32_t>(0, shape.rank - 1)] =
          script.ConsumeIntegralInRange<int64_t>(0, 40);
    }
    return shape;
  }
  static ScalarType other_dtype(ScalarType dtype, FuzzedDataProvider& script) {
    constexpr ScalarType kOthers[] = {ScalarType::Float, ScalarType::Long, ScalarType::Half};
    return script.ConsumeBool() ? kOthers[script.ConsumeIntegralInRange(0, 2)] : dtype;
  }

  bool add(const Binding& binding, const Dims& shape, ScalarType dtype) {
    std::vector<SizesType> sizes;
    size_t bytes = executorch::runtime::elementSize(dtype);
    for (uint32_t d = 0; d < shape.rank; ++d) {
      if (shape.size[d] > static_cast<int64_t>(kMostBytes)) return false;
      sizes.push_back(static_cast<SizesType>(shape.size[d]));
      if (__builtin_mul_overflow(bytes, static_cast<size_t>(shape.size[d]), &bytes)) return false;
    }
    if (bytes > kMostBytes) return false;
    memory_.emplace_back(bytes, uint8_t{1});
    if (dtype == ScalarType::Int) fill<int32_t>(memory_.back());
    if (dtype == ScalarType::Long) fill<int64_t>(memory_.back());
    tensors_.push_back(
        executorch::extension::from_blob(memory_.back().data(), std::move(sizes), dtype));
    values_[binding.argument] = EValue(*tensors_.back());
    return true;
  }

  /// Positions, as states are written at.
  template <typename Integer>
  void fill(std::vector<uint8_t>& memory) const {
    for (size_t i = 0; i < memory.size() / sizeof(Integer); ++i) {
      const auto value = static_cast<Integer>(first_ + step_ * static_cast<int>(i));
      std::memcpy(&memory[i * sizeof(Integer)], &value, sizeof(Integer));
    }
  }

  int first_ = 0, step_ = 1;
  std::vector<EValue> values_;
  std::vector<EValue*> pointers_;
  std::vector<std::vector<uint8_t>> memory_;
  std::vector<TensorPtr> tensors_;
  bool fits_ = true;
};

}  // namespace executorch_tensorrt::fuzz
