// A delegate over the fake device and engine, and calls of it.
#pragma once

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/optimization_profile_guard.h>
#include <executorch_tensorrt/stream_guard.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "delegate.h"
#include "fake_device.h"
#include "fake_engine.h"

namespace executorch_tensorrt::test {

using executorch::aten::ScalarType;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

inline Dims dims(std::initializer_list<int64_t> sizes) {
  Dims dims;
  for (const int64_t size : sizes) dims.size[dims.rank++] = size;
  return dims;
}

/// x [1 or 2..max_rows, 4] -> y of the same shape, profiles decode and prefill.
inline DelegateBlob fake_blob(int64_t max_rows = 16) {
  const uint64_t max_bytes = max_rows * 4 * sizeof(float);
  DelegateBlob blob;
  blob.num_arguments = 2;
  blob.num_inputs = 1;
  blob.bindings = {{"x", ScalarType::Float, true, false, 0, dims({-1, 4}), max_bytes},
                   {"y", ScalarType::Float, false, false, 1, dims({-1, 4}), max_bytes}};
  blob.profiles = {{"decode", 0, {{dims({1, 4}), dims({1, 4}), dims({1, 4})}}},
                   {"prefill", 1, {{dims({2, 4}), dims({8, 4}), dims({max_rows, 4})}}}};
  return blob;
}

enum class Memory { kPageable, kPageLocked, kDevice, kUnalignedDevice };

/// A tensor of float [rows, 4], 16 rows at most.
class FakeTensor {
 public:
  FakeTensor(FakeDevice& device, int rows, bool on_device)
      : FakeTensor(device, rows, on_device ? Memory::kDevice : Memory::kPageable) {}
  FakeTensor(FakeDevice& device, int rows, Memory memory) : device_(device), memory_(memory) {
    if (memory == Memory::kPageable) {
      block_ = std::malloc(kBytes);
    } else if (memory == Memory::kPageLocked) {
      block_ = *device.allocate_host(kBytes);
    } else {
      block_ = *device.allocate(kBytes + kOffset);
    }
    const size_t offset = memory == Memory::kUnalignedDevice ? kOffset : 0;
    data_ = reinterpret_cast<float*>(static_cast<char*>(block_) + offset);
    tensor_ = executorch::extension::from_blob(data_, {16, 4}, ScalarType::Float);
    EXPECT_EQ(executorch::extension::resize_tensor_ptr(tensor_, {rows, 4}), Error::Ok);
    value_ = EValue(*tensor_);
  }
  ~FakeTensor() {
    if (memory_ == Memory::kPageable) {
      std::free(block_);
    } else if (memory_ == Memory::kPageLocked) {
      device_.free_host(block_);
    } else {
      device_.free(block_);
    }
  }
  FakeTensor(const FakeTensor&) = delete;
  FakeTensor& operator=(const FakeTensor&) = delete;

  void fill(float value) {
    for (int i = 0; i < 64; ++i) data_[i] = value;
  }
  bool holds(float value) const {
    for (int i = 0; i < tensor_->numel(); ++i) {
      if (data_[i] != value) return false;
    }
    return true;
  }
  int rows() const { return static_cast<int>(tensor_->size(0)); }
  void set_rows(int rows) {
    EXPECT_EQ(executorch::extension::resize_tensor_ptr(tensor_, {rows, 4}), Error::Ok);
  }
  EValue& value() { return value_; }

 private:
  static constexpr size_t kBytes = 16 * 4 * sizeof(float);
  static constexpr size_t kOffset = 16;

  FakeDevice& device_;
  const Memory memory_;
  void* block_;
  float* data_;
  TensorPtr tensor_;
  EValue value_;
};

struct Options {
  ProfileContexts contexts = ProfileContexts::kPerProfile;
  SelectionPolicy selection = SelectionPolicy::kSticky;
  ProfileRequest default_profile = Automatic{};
  int max_cuda_graphs = 0;  // 0: without
  int64_t max_rows = 16;
  bool is_shape_tensor = false;  // x
  uint64_t output_bytes = 0;     // that the blob foresees; 0: as many as there are
};

inline Result<std::unique_ptr<TensorRTDelegate>> make_delegate(
    const std::shared_ptr<FakeDevice>& device, const Options& options = {},
    std::shared_ptr<FakeEngine> engine = nullptr,
    std::shared_ptr<ActiveProfile> active = std::make_shared<ActiveProfile>()) {
  DelegateParts parts;
  parts.blob = fake_blob(options.max_rows);
  parts.blob.bindings[0].is_shape_tensor = options.is_shape_tensor;
  if (options.output_bytes > 0) parts.blob.bindings[1].max_bytes = options.output_bytes;
  parts.options.profile_contexts = options.contexts;
  parts.options.profile_selection = options.selection;
  parts.options.default_profile = options.default_profile;
  parts.options.cuda_graphs = options.max_cuda_graphs > 0;
  parts.options.max_cuda_graphs = std::max(1, options.max_cuda_graphs);
  parts.device = device;
  parts.engine = engine == nullptr ? std::make_shared<FakeEngine>(device) : std::move(engine);
  parts.active = std::move(active);
  parts.record = std::make_shared<DelegateRecord>(parts.blob, "forward", device->name(), "fake",
                                                  /*whole_method=*/true);
  return TensorRTDelegate::create(std::move(parts));
}

inline Error execute(TensorRTDelegate& delegate, FakeTensor& x, FakeTensor& y) {
  EValue* args[] = {&x.value(), &y.value()};
  return delegate.execute({args, 2});
}

inline std::string last_profile(const TensorRTDelegate& delegate) {
  const auto last = delegate.record()->statistics().last_profile;
  return last ? delegate.record()->profiles()[*last].name : "";
}

}  // namespace executorch_tensorrt::test
