// Which delegates share an engine.
#include "engine_cache.h"

#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_device.h"
#include "last_error_has.h"

namespace executorch_tensorrt::test {
namespace {

std::atomic<int> loads{0};
std::atomic<bool> fails{false};

/// Remembers where it was loaded.
class LoadedEngine final : public Engine {
 public:
  explicit LoadedEngine(std::string device) : device(std::move(device)) {}
  size_t activation_bytes(uint32_t) const override { return 0; }
  bool knows_shapes_before_enqueue() const override { return true; }
  bool can_be_captured() const override { return true; }
  Result<std::unique_ptr<ExecutionContext>> create_execution_context() override {
    return Error::NotSupported;
  }
  const std::string device;
};

Result<std::shared_ptr<Engine>> load(const DelegateBlob&, Device& device, const EngineOptions&) {
  ++loads;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for others to come meanwhile
  if (fails) return report(Error::MemoryAllocationFailed, "no memory for the engine");
  return std::shared_ptr<Engine>(std::make_shared<LoadedEngine>(device.name()));
}

class EngineCache : public ::testing::Test {
 protected:
  EngineCache() {
    executorch::runtime::runtime_init();
    loads = 0;
    fails = false;
    blob_.engine_id[0] = 42;
  }

  std::shared_ptr<Engine> get(Device& device, const EngineOptions& options = {}) {
    const auto engine = shared_tensorrt_engine(blob_, device, options, load);
    EXPECT_TRUE(engine.ok());
    return *engine;
  }

  DelegateBlob blob_;
  FakeDevice first_{0}, second_{1};
};

TEST_F(EngineCache, OneEngineServesAllWithItsIdOnEachDevice) {
  const auto on_first = get(first_), on_second = get(second_);
  EXPECT_NE(on_first, on_second);
  EXPECT_EQ(static_cast<LoadedEngine&>(*on_first).device, "cuda:0");
  EXPECT_EQ(static_cast<LoadedEngine&>(*on_second).device, "cuda:1");
  EXPECT_EQ(get(first_), on_first);
  EXPECT_EQ(get(second_), on_second);
  EXPECT_EQ(loads, 2);
}

TEST_F(EngineCache, AnotherIdOrOtherOptionsAreAnotherEngine) {
  const auto engine = get(first_);
  EngineOptions options;
  options.weight_streaming_budget = 1024;
  const auto streamed = get(first_, options);
  EXPECT_NE(streamed, engine);
  blob_.engine_id[31] = 1;
  EXPECT_NE(get(first_), engine);
  EXPECT_EQ(loads, 3);
}

TEST_F(EngineCache, ItGoesWithTheLastThatHoldsItOnThatDevice) {
  auto on_first = get(first_), on_second = get(second_);
  on_first.reset();
  EXPECT_EQ(get(second_), on_second);
  EXPECT_EQ(loads, 2);
  on_first = get(first_);
  EXPECT_EQ(loads, 3);
}

TEST_F(EngineCache, ThreadsThatAskAtOnceLoadItOnceOnEachDevice) {
  std::vector<std::shared_ptr<Engine>> engines(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < engines.size(); ++i) {
    threads.emplace_back([&, i] { engines[i] = get(i % 2 == 0 ? first_ : second_); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loads, 2);
  for (size_t i = 2; i < engines.size(); ++i) EXPECT_EQ(engines[i], engines[i % 2]);
}

TEST_F(EngineCache, AFailureIsReportedAndTheNextOneLoadsAgain) {
  fails = true;
  EXPECT_EQ(shared_tensorrt_engine(blob_, first_, {}, load).error(), Error::MemoryAllocationFailed);
  EXPECT_TRUE(last_error_has("no memory for the engine"));
  fails = false;
  EXPECT_NE(get(first_), nullptr);
}

}  // namespace
}  // namespace executorch_tensorrt::test
