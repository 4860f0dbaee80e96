// Many threads, delegates and engines at once, for ThreadSanitizer above all.
#include <executorch/runtime/platform/runtime.h>

#include <atomic>
#include <thread>

#include "captured_log.h"
#include "delegate_fixture.h"
#include "engine_cache.h"

namespace executorch_tensorrt::test {
namespace {

constexpr int kThreads = 6;

void on_threads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

/// Executes with a pin, a stream and memory that `way` chooses, and checks the answer.
void call(FakeDevice& device, TensorRTDelegate& delegate, float bias, unsigned way) {
  const int rows = way % 2 == 0 ? 1 : 8;
  FakeTensor x(device, rows, way % 4 < 2), y(device, 16, way % 8 < 4);
  x.fill(static_cast<float>(way));
  const Stream stream = device.new_callers_stream();
  std::unique_ptr<OptimizationProfileGuard> pin;
  if (way % 3 == 0)
    pin = std::make_unique<OptimizationProfileGuard>(rows == 1 ? "decode" : "prefill");
  {
    std::unique_ptr<StreamGuard> guard;
    if (way % 5 == 0) guard = std::make_unique<StreamGuard>(stream);
    ASSERT_EQ(execute(delegate, x, y), Error::Ok);
  }
  ASSERT_EQ(device.synchronize_stream(stream), Error::Ok);
  EXPECT_TRUE(y.holds(static_cast<float>(way) + bias));
}

TEST(DelegateThreadsTest, CallsOfOneDelegateFromManyThreadsAreAllRightAndAllCounted) {
  const auto device = std::make_shared<FakeDevice>();
  Options options;
  options.max_cuda_graphs = 2;
  const auto delegate = make_delegate(device, options);
  ASSERT_TRUE(delegate.ok());
  constexpr int kCalls = 50;
  on_threads([&](int thread) {
    for (int i = 0; i < kCalls; ++i) call(*device, **delegate, 1, thread * 1000 + i);
  });
  const auto counts = (*delegate)->record()->statistics();
  EXPECT_EQ(counts.executions, static_cast<uint64_t>(kThreads * kCalls));
  EXPECT_EQ(counts.failures, 0u);
}

std::shared_ptr<FakeDevice> device_of_test;

Result<std::shared_ptr<Engine>> load_fake(const DelegateBlob& blob, Device&, const EngineOptions&) {
  auto engine = std::make_shared<FakeEngine>(device_of_test, blob.engine.data[0]);
  engine->serves_several_delegates = true;
  return std::shared_ptr<Engine>(std::move(engine));
}

TEST(DelegateThreadsTest, DelegatesComeAndGoWhileOthersOfTheirEnginesExecute) {
  device_of_test = std::make_shared<FakeDevice>();
  FakeDevice& device = *device_of_test;
  const std::string engines[] = {"\2 one", "\5 another"};
  on_threads([&](int thread) {
    for (unsigned i = 0; i < 20; ++i) {
      // Engines are shared by the threads, and go with the last delegate of theirs.
      DelegateBlob blob = fake_blob();
      const std::string& bytes = engines[(thread + i) % 2];
      blob.engine = {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
      const auto engine = shared_tensorrt_engine(blob, device, {}, load_fake);
      ASSERT_TRUE(engine.ok());
      const auto delegate =
          make_delegate(device_of_test, {}, std::static_pointer_cast<FakeEngine>(*engine));
      ASSERT_TRUE(delegate.ok());
      for (unsigned k = 0; k < 4; ++k) call(device, **delegate, bytes[0], thread + 7 * i + k);
    }
  });
  EXPECT_EQ(device.device_bytes() + device.host_bytes(), 0u);
  device_of_test.reset();
}

TEST(DelegateThreadsTest, FaultsThatStrikeWhicheverThreadLeaveTheOthersRight) {
  executorch::runtime::runtime_init();
  const CapturedLog log;
  const auto device = std::make_shared<FakeDevice>();
  std::vector<std::unique_ptr<TensorRTDelegate>> delegates;
  for (int i = 0; i < kThreads; ++i) {
    auto made = make_delegate(device);
    ASSERT_TRUE(made.ok());
    delegates.push_back(std::move(*made));
  }
  std::atomic<int> failed{0};
  std::atomic<bool> stop{false};
  std::thread injector([&] {
    for (int k = 1; !stop; k = k % 9 + 1) {
      device->faults.fail_call(k);
      std::this_thread::yield();
    }
    device->faults.clear();
  });
  on_threads([&](int thread) {
    // The injector may come late on a busy machine.
    for (int i = 0; i < 200 || (failed == 0 && i < 1000000); ++i) {
      const int rows = i % 2 == 0 ? 1 : 8;
      float in[64], out[64] = {};
      std::fill(std::begin(in), std::end(in), static_cast<float>(i));
      const auto x = executorch::extension::from_blob(in, {rows, 4}, ScalarType::Float);
      const auto y = executorch::extension::from_blob(out, {16, 4}, ScalarType::Float);
      EValue x_value(*x), y_value(*y);
      EValue* args[] = {&x_value, &y_value};
      clear_last_error();
      const Error error = delegates[thread]->execute({args, 2});
      if (error == Error::Ok) {
        EXPECT_TRUE(std::all_of(out, out + rows * 4, [i](float v) { return v == i + 1; }));
      } else {
        ++failed;
        EXPECT_NE(std::string(last_error_message()).find("injected fault"), std::string::npos);
      }
    }
  });
  stop = true;
  injector.join();
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace executorch_tensorrt::test
