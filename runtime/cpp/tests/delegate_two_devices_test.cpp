// Delegates on two devices of one host, over the fake devices and engines.
#include <atomic>
#include <thread>

#include "captured_log.h"
#include "delegate_fixture.h"

namespace executorch_tensorrt::test {
namespace {

class TwoDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      devices_.push_back(std::make_shared<FakeDevice>(i));
      engines_.push_back(std::make_shared<FakeEngine>(devices_[i], /*bias=*/i + 1.0f));
      delegates_.push_back(load(i));
    }
  }

  std::unique_ptr<TensorRTDelegate> load(int i, int max_cuda_graphs = 4) {
    auto made = make_delegate(devices_[i], {{}, {}, Automatic{}, max_cuda_graphs}, engines_[i]);
    EXPECT_EQ(made.error(), Error::Ok) << last_error_message();
    return std::move(*made);
  }

  /// Calls the delegate on device `i` with tensors of its own, and expects the right answer.
  void run(int i, int rows, Memory memory) { run(*delegates_[i], i, rows, memory); }
  void run(TensorRTDelegate& delegate, int i, int rows, Memory memory) {
    FakeTensor x(*devices_[i], rows, memory), y(*devices_[i], rows, memory);
    for (float value = 3; value < 7; ++value) {  // so that a graph is captured and replayed
      x.fill(value);
      y.fill(-1);
      ASSERT_EQ(execute(delegate, x, y), Error::Ok) << last_error_message();
      EXPECT_TRUE(y.holds(value + i + 1)) << "on device " << i;
    }
  }
  void run_all(int i) {
    for (const auto memory : {Memory::kDevice, Memory::kPageable, Memory::kPageLocked}) {
      for (const int rows : {1, 8, 16}) run(i, rows, memory);
    }
  }

  const CapturedLog log_;
  std::vector<std::shared_ptr<FakeDevice>> devices_;
  std::vector<std::shared_ptr<FakeEngine>> engines_;
  std::vector<std::unique_ptr<TensorRTDelegate>> delegates_;
};

TEST_F(TwoDevices, TheSameBlobRunsOnBothFromTwoThreadsAtOnceAndIsRight) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([this, i] {
      for (int round = 0; round < 20; ++round) run_all(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(delegates_[i]->record()->device(), "cuda:" + std::to_string(i));
    EXPECT_EQ(delegates_[i]->record()->statistics().failures, 0u);
    // While the other one enqueued, nothing may have been captured. Alone, the second call is.
    const auto before = delegates_[i]->record()->statistics().graph_replays;
    run(i, 8, Memory::kDevice);
    EXPECT_GT(delegates_[i]->record()->statistics().graph_replays, before);
  }
}

TEST_F(TwoDevices, UnloadingOneWhileTheOtherRunsDoesNotTouchIt) {
  std::atomic<bool> done{false};
  std::thread running([&] {
    do {
      run_all(1);
    } while (!done);
  });
  for (int i = 0; i < 20; ++i) {
    delegates_[0] = load(0);  // the one before goes
    run(0, 8, Memory::kDevice);
  }
  delegates_[0].reset();
  const size_t left = devices_[0]->device_bytes();
  done = true;
  running.join();
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(delegates_[1]->record()->statistics().failures, 0u);
  run_all(1);
}

TEST_F(TwoDevices, AThreadTakesBothInTurns) {
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 2; ++i) run(i, round % 2 == 0 ? 1 : 8, Memory::kDevice);
  }
}

TEST_F(TwoDevices, ATensorOnTheOtherOneIsRefusedByNameWithBothAndTheNextCallIsRight) {
  for (int i = 0; i < 2; ++i) {
    const int other = 1 - i;
    FakeTensor mine(*devices_[i], 8, true), foreign(*devices_[other], 8, true);
    const std::string where = " is on cuda:" + std::to_string(other) +
                              "; this program was loaded on cuda:" + std::to_string(i);
    EXPECT_EQ(execute(*delegates_[i], foreign, mine), Error::InvalidArgument);
    EXPECT_EQ(last_error_message(), "tensor 'x'" + where);
    EXPECT_EQ(execute(*delegates_[i], mine, foreign), Error::InvalidArgument);
    EXPECT_EQ(last_error_message(), "tensor 'y'" + where);
    for (const auto& device : devices_) EXPECT_EQ(device->pending(), 0u);
    run_all(i);
  }
}

TEST_F(TwoDevices, PageLockedMemoryOfTheOtherOneIsHostMemoryLikeAnyOther) {
  FakeTensor x(*devices_[1], 8, Memory::kPageLocked), y(*devices_[1], 8, Memory::kPageLocked);
  x.fill(5);
  ASSERT_EQ(execute(*delegates_[0], x, y), Error::Ok) << last_error_message();
  EXPECT_TRUE(y.holds(6));
}

TEST_F(TwoDevices, AStreamOfTheOtherOneIsRefusedWithBothAndNothingIsPutOnIt) {
  const Stream foreign = devices_[1]->new_callers_stream();
  for (const Memory memory : {Memory::kDevice, Memory::kPageable}) {
    FakeTensor x(*devices_[0], 8, memory), y(*devices_[0], 8, memory);
    const int at_load = engines_[0]->enqueued;
    {
      const StreamGuard guard(foreign);
      EXPECT_EQ(execute(*delegates_[0], x, y), Error::InvalidArgument);
    }
    EXPECT_NE(std::string(last_error_message()).find("not be used on cuda:0: it belongs to cuda:1"),
              std::string::npos)
        << last_error_message();
    EXPECT_EQ(engines_[0]->enqueued, at_load);
    EXPECT_EQ(devices_[1]->pending(), 0u);
    run(0, 8, memory);
  }
}

TEST_F(TwoDevices, AFaultOfOneIsNotTheOthers) {
  FakeTensor x(*devices_[1], 8, false), y(*devices_[1], 8, false);
  x.fill(4);
  devices_[0]->faults.fail_call(1 << 30);  // counts
  for (int k = 1; k <= 8; ++k) {
    devices_[1]->faults.fail_call(k, Faults::kForGood);
    EXPECT_EQ(execute(*delegates_[1], x, y), Faults::kFault);
    EXPECT_EQ(devices_[0]->faults.calls(), 0);
    delegates_[1].reset();
    devices_[1]->faults.clear();
    delegates_[1] = load(1);
  }
  run_all(0);
  run_all(1);
}

}  // namespace
}  // namespace executorch_tensorrt::test
