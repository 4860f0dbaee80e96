// An engine over FakeDevice with two profiles: y = x + bias, for x of float [n, 4].
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "engine.h"
#include "fake_device.h"

namespace executorch_tensorrt::test {

/// Both checks that what the delegate does to it is in order, and counts what is alive.
class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(std::shared_ptr<FakeDevice> device, float bias = 1)
      : device(std::move(device)), bias(bias) {}
  ~FakeEngine() override { EXPECT_EQ(live_contexts, 0) << "an engine went before its contexts"; }

  size_t activation_bytes(uint32_t engine_profile) const override {
    return engine_profile == 0 ? 64 : 4096;
  }
  bool knows_shapes_before_enqueue() const override { return true; }
  bool can_be_captured() const override { return true; }
  size_t max_shape_changes() const override { return max_changes; }
  Result<std::unique_ptr<ExecutionContext>> create_execution_context() override;

  const std::shared_ptr<FakeDevice> device;
  const float bias;
  std::atomic<int> live_contexts{0};
  std::atomic<int> created_contexts{0};
  std::atomic<int> profile_switches{0};
  std::atomic<int> shape_calls{0};
  std::atomic<bool> creates_contexts{true};
  std::atomic<size_t> max_changes{0};
  bool refuses_capture = false;
  bool serves_several_delegates = false;  // whose executions have no order among them
  // Every enqueue takes a number, and must run in that order: contexts share their activations.
  int enqueued = 0, ran = 0;
};

class FakeContext final : public ExecutionContext {
 public:
  explicit FakeContext(FakeEngine& engine) : engine_(engine) {
    ++engine_.live_contexts;
    ++engine_.created_contexts;
  }
  ~FakeContext() override {
    EXPECT_EQ(in_flight_.use_count(), 1) << "a context went with work in flight";
    --engine_.live_contexts;
  }

  Error set_optimization_profile(uint32_t profile, Stream stream) override {
    if (const Error error = next("set_optimization_profile"); error != Error::Ok) return error;
    ++engine_.profile_switches;
    profile_ = profile;
    shape_ = {};
    engine_.device->put(stream, {}, [running = running_profile_, profile, held = in_flight_] {
      *running = profile;
    });
    return Error::Ok;
  }
  Error set_activation_memory(void* memory, size_t bytes) override {
    if (const Error error = next("set_activation_memory"); error != Error::Ok) return error;
    EXPECT_GE(bytes, engine_.activation_bytes(profile_));
    activations_ = {memory, bytes};
    return Error::Ok;
  }
  Error set_input_shape(size_t binding, const Dims& shape) override {
    if (const Error error = next("set_input_shape"); error != Error::Ok) return error;
    EXPECT_EQ(binding, 0u);
    EXPECT_TRUE(profile_ == 0 ? shape.size[0] == 1 : shape.size[0] >= 2) << to_string(shape);
    ++engine_.shape_calls;
    shape_ = shape;
    return Error::Ok;
  }
  Result<Dims> output_shape(size_t binding) override {
    if (const Error error = next("output_shape"); error != Error::Ok) return error;
    EXPECT_EQ(binding, 1u);
    return shape_;
  }
  Error set_tensor_address(size_t binding, void* address, size_t bytes) override {
    if (const Error error = next("set_tensor_address"); error != Error::Ok) return error;
    EXPECT_EQ(shape_.rank, 2u) << "an address before the input's shape";
    EXPECT_GE(bytes, shape_.size[0] * shape_.size[1] * sizeof(float)) << "of binding " << binding;
    (binding == 0 ? input_ : output_) = static_cast<float*>(address);
    return Error::Ok;
  }
  Error enqueue(Stream stream) override {
    if (const Error error = next("enqueue"); error != Error::Ok) return error;
    EXPECT_EQ(shape_.rank, 2u) << "enqueue without the input's shape";
    const size_t count = shape_.size[0] * shape_.size[1];
    if (engine_.refuses_capture) {
      const auto capturing = engine_.device->is_capturing(stream);
      if (!capturing.ok()) return capturing.error();
      if (*capturing) return report(Faults::kFault, "not capturable");
    }
    const auto make = [this, count, x = input_, y = output_, profile = profile_, shape = shape_] {
      EXPECT_TRUE(shape_ == shape) << "a graph was launched whose context has other shapes";
      return [this, count, x, y, profile, shape, number = engine_.enqueued++, held = in_flight_] {
        EXPECT_EQ(*running_profile_, profile) << "the context was switched under an execution";
        const int before = engine_.ran++;
        EXPECT_TRUE(number == before || engine_.serves_several_delegates)
            << "executions ran out of order";
        for (size_t i = 0; i < count; ++i) y[i] = x[i] + engine_.bias;
      };
    };
    engine_.device->put_made(
        stream,
        {{input_, count * 4}, {output_, count * 4}, {activations_.data, activations_.bytes}}, make);
    return Error::Ok;
  }
  Error copy_output(size_t, void*, size_t, Stream) override {
    return report(Error::Internal, "outputs are bound before");
  }

 private:
  Error next(const char* call) { return engine_.device->faults.next(call); }

  FakeEngine& engine_;
  uint32_t profile_ = 0;
  std::shared_ptr<uint32_t> running_profile_ = std::make_shared<uint32_t>(0);
  const std::shared_ptr<int> in_flight_ = std::make_shared<int>();  // held by work that is
  Dims shape_;
  FakeDevice::Range activations_{};
  float* input_ = nullptr;
  float* output_ = nullptr;
};

inline Result<std::unique_ptr<ExecutionContext>> FakeEngine::create_execution_context() {
  const Error error = device->faults.next("create_execution_context");
  if (error != Error::Ok) return error;
  if (!creates_contexts) return report(Error::Internal, "no more contexts");
  return std::unique_ptr<ExecutionContext>(std::make_unique<FakeContext>(*this));
}

}  // namespace executorch_tensorrt::test
