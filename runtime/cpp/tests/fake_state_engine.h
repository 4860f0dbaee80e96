// An engine over FakeDevice that keeps state: x of float [n, 4] is written to rows pos.. of a
// cache, and y = x + count, where count is how many rows were written before.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "engine.h"
#include "fake_device.h"

namespace executorch_tensorrt::test {

inline constexpr int kCacheRows = 16;

/// Rows beyond the cache are dropped, as TensorRT's KV-cache layer does. `guarded`: ok is whether
/// none was. Without a FakeDevice it computes on the host at once, and allocates nothing.
class FakeStateEngine final : public Engine {
 public:
  FakeStateEngine(std::shared_ptr<FakeDevice> device, bool alias, bool guarded, bool alias_count)
      : device(std::move(device)), alias(alias), guarded(guarded), alias_count(alias_count) {}

  size_t activation_bytes(uint32_t) const override { return 64; }
  bool knows_shapes_before_enqueue() const override { return true; }
  bool can_be_captured() const override { return true; }
  Result<std::unique_ptr<ExecutionContext>> create_execution_context() override;

  const std::shared_ptr<FakeDevice> device;
  const bool alias, guarded, alias_count;
};

class FakeStateContext final : public ExecutionContext {
 public:
  // Positions among the engine's tensors.
  enum { kX, kPos, kY, kCacheIn, kCountIn, kCacheOut, kCountOut, kOk, kTensors };

  explicit FakeStateContext(FakeStateEngine& engine) : engine_(engine) {}

  Error set_optimization_profile(uint32_t, Stream) override {
    return next("set_optimization_profile");
  }
  Error set_activation_memory(void*, size_t) override { return next("set_activation_memory"); }
  Error set_input_shape(size_t binding, const Dims& shape) override {
    if (const Error error = next("set_input_shape"); error != Error::Ok) return error;
    EXPECT_LE(binding, size_t{kPos});
    if (binding == kX) shape_ = shape;
    return Error::Ok;
  }
  Result<Dims> output_shape(size_t binding) override {
    if (const Error error = next("output_shape"); error != Error::Ok) return error;
    EXPECT_EQ(binding, size_t{kY});
    return shape_;
  }
  Error set_tensor_address(size_t binding, void* address, size_t bytes) override {
    if (const Error error = next("set_tensor_address"); error != Error::Ok) return error;
    EXPECT_LT(binding, size_t{kTensors});
    EXPECT_EQ(bytes, bytes_of_tensor(binding));
    if (engine_.device != nullptr) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % kTensorAlignment, 0u);
    }
    addresses_[binding] = address;
    return Error::Ok;
  }
  Error enqueue(Stream stream) override {
    if (const Error error = next("enqueue"); error != Error::Ok) return error;
    const auto a = addresses_;
    EXPECT_EQ(a[kCacheIn] == a[kCacheOut], engine_.alias);
    EXPECT_EQ(a[kCountIn] == a[kCountOut], engine_.alias_count);
    const auto rows = static_cast<int>(shape_.size[0]);
    if (engine_.device == nullptr) {
      compute(a, rows, engine_.guarded);
      return Error::Ok;
    }
    std::vector<FakeDevice::Range> touches;
    for (size_t i = 0; i < (engine_.guarded ? kTensors : kOk); ++i) {
      EXPECT_NE(a[i], nullptr) << "tensor " << i << " has no address";
      touches.push_back({a[i], bytes_of_tensor(i)});
    }
    engine_.device->put(stream, std::move(touches),
                        [a, rows, guarded = engine_.guarded] { compute(a, rows, guarded); });
    return Error::Ok;
  }
  Error copy_output(size_t, void*, size_t, Stream) override {
    return report(Error::Internal, "outputs are bound before");
  }

 private:
  using Addresses = std::array<void*, kTensors>;

  static void compute(const Addresses& a, int rows, bool guarded) {
    const auto* x = static_cast<const float*>(a[kX]);
    const float count = *static_cast<const float*>(a[kCountIn]);
    const int64_t pos = *static_cast<const int64_t*>(a[kPos]);
    auto* cache = static_cast<float*>(a[kCacheOut]);
    if (a[kCacheIn] != a[kCacheOut]) std::memcpy(cache, a[kCacheIn], kCacheRows * 16);
    for (int i = 0; i < rows * 4; ++i) static_cast<float*>(a[kY])[i] = x[i] + count;
    for (int r = 0; r < rows; ++r) {
      if (pos + r < 0 || pos + r >= kCacheRows) continue;
      std::memcpy(cache + (pos + r) * 4, x + r * 4, 16);
    }
    *static_cast<float*>(a[kCountOut]) = count + static_cast<float>(rows);
    if (guarded) *static_cast<uint8_t*>(a[kOk]) = pos >= 0 && pos + rows <= kCacheRows;
  }

  size_t bytes_of_tensor(size_t tensor) const {
    switch (tensor) {
      case kX:
      case kY:
        return static_cast<size_t>(shape_.size[0]) * 16;
      case kPos:
        return 8;
      case kCacheIn:
      case kCacheOut:
        return kCacheRows * 16;
      case kOk:
        return 1;
      default:
        return 4;
    }
  }

  Error next(const char* call) {
    return engine_.device == nullptr ? Error::Ok : engine_.device->faults.next(call);
  }

  FakeStateEngine& engine_;
  Dims shape_;
  Addresses addresses_{};
};

inline Result<std::unique_ptr<ExecutionContext>> FakeStateEngine::create_execution_context() {
  if (device != nullptr) {
    const Error error = device->faults.next("create_execution_context");
    if (error != Error::Ok) return error;
  }
  return std::unique_ptr<ExecutionContext>(std::make_unique<FakeStateContext>(*this));
}

}  // namespace executorch_tensorrt::test
