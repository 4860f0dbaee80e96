// What the delegate does on the host for each call, but for the engine: arguments, selection, pin,
// shapes, binding and bookkeeping, over the host device and an engine that does nothing.
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/platform/runtime.h>
#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/optimization_profile_guard.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "delegate.h"
#include "siphash.h"
#include "statistics.h"

namespace executorch_tensorrt::benchmark {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::EValue;

class NoContext final : public ExecutionContext {
 public:
  Error set_optimization_profile(uint32_t, Stream) override { return Error::Ok; }
  Error set_activation_memory(void*, size_t) override { return Error::Ok; }
  Error set_input_shape(size_t, const Dims& shape) override {
    shape_ = shape;
    return Error::Ok;
  }
  Result<Dims> output_shape(size_t) override { return shape_; }
  Error set_tensor_address(size_t, void*, size_t) override { return Error::Ok; }
  Error enqueue(Stream) override { return Error::Ok; }
  Error copy_output(size_t, void*, size_t, Stream) override { return Error::NotSupported; }

 private:
  Dims shape_;
};

class NoEngine final : public Engine {
 public:
  size_t activation_bytes(uint32_t) const override { return 0; }
  bool knows_shapes_before_enqueue() const override { return true; }
  bool can_be_captured() const override { return false; }
  Result<std::unique_ptr<ExecutionContext>> create_execution_context() override {
    return std::unique_ptr<ExecutionContext>(std::make_unique<NoContext>());
  }
};

Dims dims(int64_t rows) { return {2, {rows, 64}}; }

std::unique_ptr<TensorRTDelegate> make_delegate() {
  DelegateParts parts;
  parts.blob.num_arguments = 2;
  parts.blob.num_inputs = 1;
  parts.blob.bindings = {{"x", ScalarType::Float, true, false, 0, dims(-1), 128 * 64 * 4},
                         {"y", ScalarType::Float, false, false, 1, dims(-1), 128 * 64 * 4}};
  parts.blob.profiles = {{"decode", 0, {{dims(1), dims(1), dims(1)}}},
                         {"prefill", 1, {{dims(2), dims(64), dims(128)}}}};
  parts.device = host_device();
  parts.engine = std::make_shared<NoEngine>();
  parts.active = std::make_shared<ActiveProfile>();
  parts.record =
      std::make_shared<DelegateRecord>(parts.blob, "forward", "cpu", "none", /*whole_method=*/true);
  auto delegate = TensorRTDelegate::create(std::move(parts));
  if (!delegate.ok()) {
    std::fprintf(stderr, "%s\n", last_error_message());
    std::exit(1);
  }
  return std::move(*delegate);
}

/// What telling engines apart adds to a load: all their bytes are hashed.
void measure_hash() {
  const std::vector<uint8_t> engine(64 << 20, 7);
  const SipHashKey key{};
  Samples latencies;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const volatile uint8_t used = siphash128(key, engine.data(), engine.size())[0];
    (void)used;
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    latencies.add(took.count());
  }
  std::printf("%-40s %8.0f MB/s (median)\n", "hashing an engine at load",
              static_cast<double>(engine.size()) / latencies.median());
}

int run() {
  executorch::runtime::runtime_init();
  const auto delegate = make_delegate();
  const auto row = executorch::extension::zeros({1, 64});
  const auto rows = executorch::extension::zeros({128, 64});
  const auto row_out = executorch::extension::zeros({1, 64});
  const auto rows_out = executorch::extension::zeros({128, 64});
  EValue one(*row), many(*rows), one_out(*row_out), many_out(*rows_out);
  EValue* decode[] = {&one, &one_out};
  EValue* prefill[] = {&many, &many_out};
  const auto execute = [&](EValue** args) {
    if (delegate->execute({args, 2}) != Error::Ok) std::exit(1);
  };

  constexpr int kBatches = 200, kCalls = 1000;  // a call is too short to be timed alone
  const auto measure = [&](const char* name, const std::function<void(int)>& call) {
    Samples latencies;
    for (int batch = 0; batch < kBatches; ++batch) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) call(i);
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      latencies.add(took.count() / kCalls);
    }
    std::printf("%-40s %8.3f us a call (median), %8.3f us (p99)\n", name, latencies.median(),
                latencies.p99());
  };
  measure("one profile, by shape", [&](int) { execute(decode); });
  measure("alternating profiles, by shape", [&](int i) { execute(i % 2 ? prefill : decode); });
  measure("alternating profiles, pinned by name", [&](int i) {
    const OptimizationProfileGuard pin(i % 2 ? "prefill" : "decode");
    execute(i % 2 ? prefill : decode);
  });
  measure("alternating profiles, pinned by index", [&](int i) {
    const OptimizationProfileGuard pin(i % 2);
    execute(i % 2 ? prefill : decode);
  });
  measure_hash();
  return 0;
}

}  // namespace
}  // namespace executorch_tensorrt::benchmark

int main() { return executorch_tensorrt::benchmark::run(); }
