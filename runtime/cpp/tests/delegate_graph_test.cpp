// TensorRTDelegate with CUDA graphs, over the fake device and engine.
#include "captured_log.h"
#include "delegate_fixture.h"

namespace executorch_tensorrt::test {
namespace {

class DelegateGraphTest : public ::testing::Test {
 protected:
  void load(int max_cuda_graphs = 4, ProfileContexts contexts = ProfileContexts::kPerProfile) {
    auto made = make_delegate(device_, {contexts, {}, Automatic{}, max_cuda_graphs}, engine_);
    ASSERT_EQ(made.error(), Error::Ok);
    delegate_ = std::move(*made);
  }

  /// Executes on these tensors, and expects the right answer.
  void run(FakeTensor& x, FakeTensor& y) {
    x.fill(value_ += 1);
    y.fill(-1);
    ASSERT_EQ(execute(*delegate_, x, y), Error::Ok) << last_error_message();
    EXPECT_TRUE(y.holds(value_ + 1));
  }
  void run_on_host(int rows) {
    FakeTensor x(*device_, rows, false), y(*device_, rows, false);
    run(x, y);
  }

  DelegateStatistics statistics() const { return delegate_->record()->statistics(); }

  CapturedLog log_;
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::shared_ptr<FakeEngine> engine_ = std::make_shared<FakeEngine>(device_);
  std::unique_ptr<TensorRTDelegate> delegate_;
  float value_ = 0;
};

TEST_F(DelegateGraphTest, CapturesWhatRecursAndReplaysItFromTheThirdTimeOn) {
  load();
  FakeTensor x(*device_, 8, true), y(*device_, 8, true);
  for (int i = 0; i < 6; ++i) run(x, y);
  EXPECT_EQ(statistics().graph_misses, 2u);
  EXPECT_EQ(statistics().graph_captures, 1u);
  EXPECT_EQ(statistics().graph_replays, 4u);
}

TEST_F(DelegateGraphTest, AlternatingProfilesReplayAGraphEach) {
  load();
  FakeTensor a(*device_, 1, true), b(*device_, 8, true), y(*device_, 1, true), z(*device_, 8, true);
  for (int i = 0; i < 5; ++i) {
    run(a, y);
    run(b, z);
  }
  EXPECT_EQ(statistics().graph_captures, 2u);
  EXPECT_EQ(statistics().graph_replays, 6u);
}

TEST_F(DelegateGraphTest, HostTensorsHitWhateverTheirAddressAsTheirStagingStays) {
  load();
  std::vector<std::unique_ptr<FakeTensor>> kept;
  for (int i = 0; i < 5; ++i) {
    kept.push_back(std::make_unique<FakeTensor>(*device_, 8, false));
    kept.push_back(std::make_unique<FakeTensor>(*device_, 8, false));
    run(*kept[2 * i], *kept[2 * i + 1]);
  }
  EXPECT_EQ(statistics().graph_replays, 3u);
  EXPECT_EQ(statistics().bytes_staged, 5u * 2 * 8 * 4 * sizeof(float));
}

TEST_F(DelegateGraphTest, OtherAddressesAreAnotherGraph) {
  load();
  FakeTensor x(*device_, 8, true), y(*device_, 8, true), z(*device_, 8, true);
  for (int i = 0; i < 3; ++i) {
    run(x, y);
    run(x, z);
  }
  EXPECT_EQ(statistics().graph_captures, 2u);
  EXPECT_EQ(statistics().graph_replays, 2u);
}

TEST_F(DelegateGraphTest, EveryKindOfMemoryIsAnotherGraph) {
  constexpr Memory kKinds[] = {Memory::kPageable, Memory::kPageLocked, Memory::kDevice,
                               Memory::kUnalignedDevice};
  for (const Memory first : kKinds) {
    for (const Memory second : kKinds) {
      SCOPED_TRACE(std::to_string(static_cast<int>(first)) + " then " +
                   std::to_string(static_cast<int>(second)));
      load();
      FakeTensor x(*device_, 8, first), y(*device_, 8, first);
      FakeTensor u(*device_, 8, second), v(*device_, 8, second);
      for (int i = 0; i < 3; ++i) run(x, y);
      for (int i = 0; i < 3; ++i) run(u, v);
      run(x, v);
      run(u, y);
      run(x, y);
    }
  }
}

TEST_F(DelegateGraphTest, AsynchronousCallsStaySoWhereNoGraphIsAffected) {
  load();
  const Stream stream = device_->new_callers_stream();
  std::vector<std::unique_ptr<FakeTensor>> tensors;
  for (int i = 0; i < 24; ++i) {
    tensors.push_back(std::make_unique<FakeTensor>(*device_, 4 + i % 4 / 2, Memory::kDevice));
  }
  {
    const StreamGuard guard(stream);
    for (int i = 0; i < 24; i += 2) {  // fresh addresses, and now and then another shape
      ASSERT_EQ(execute(*delegate_, *tensors[i], *tensors[i + 1]), Error::Ok);
    }
    EXPECT_GE(device_->pending(stream), 12u);
  }
  EXPECT_EQ(statistics().host_synchronizations, 0u);
  device_->finish();
}

TEST_F(DelegateGraphTest, OtherShapesOfAProfileVoidItsGraphs) {
  load();
  FakeTensor x(*device_, 8, true), y(*device_, 8, true), other(*device_, 5, true),
      out(*device_, 5, true);
  for (int i = 0; i < 3; ++i) run(x, y);
  EXPECT_EQ(device_->live_graphs(), 1u);
  run(other, out);
  EXPECT_EQ(device_->live_graphs(), 0u);
  for (int i = 0; i < 3; ++i) run(x, y);
  EXPECT_EQ(statistics().graph_captures, 2u);
  EXPECT_EQ(statistics().graph_replays, 2u);
}

TEST_F(DelegateGraphTest, TheLeastRecentlyUsedGoes) {
  load(2);
  FakeTensor x(*device_, 8, true);
  FakeTensor a(*device_, 8, true), b(*device_, 8, true), c(*device_, 8, true);
  for (int i = 0; i < 3; ++i) run(x, a);
  for (int i = 0; i < 2; ++i) run(x, b);
  run(x, a);
  run(x, c);  // takes the place of b
  EXPECT_EQ(device_->live_graphs(), 1u);
  const auto before = statistics().graph_replays;
  run(x, a);
  EXPECT_EQ(statistics().graph_replays, before + 1);
  run(x, b);
  EXPECT_EQ(statistics().graph_replays, before + 1);
}

TEST_F(DelegateGraphTest, AGraphInFlightIsWaitedForBeforeItGoes) {
  load(1);
  FakeTensor x(*device_, 8, true), y(*device_, 8, true), z(*device_, 8, true);
  FakeTensor other(*device_, 5, true), out(*device_, 5, true);
  for (int i = 0; i < 3; ++i) run(x, y);
  const Stream stream = device_->new_callers_stream();
  {
    const StreamGuard guard(stream);
    ASSERT_EQ(execute(*delegate_, x, y), Error::Ok);
    ASSERT_EQ(statistics().graph_replays, 2u);
    ASSERT_EQ(execute(*delegate_, x, z), Error::Ok);  // evicts: the fake device checks
    ASSERT_EQ(execute(*delegate_, x, z), Error::Ok);
    ASSERT_EQ(execute(*delegate_, x, z), Error::Ok);
    ASSERT_EQ(execute(*delegate_, other, out), Error::Ok);  // voids
  }
  device_->finish();
}

TEST_F(DelegateGraphTest, ReplaysOnACallersStreamWithoutAWait) {
  load();
  FakeTensor x(*device_, 8, true), y(*device_, 8, true);
  for (int i = 0; i < 3; ++i) run(x, y);
  const auto syncs = statistics().host_synchronizations;
  const Stream stream = device_->new_callers_stream();
  x.fill(20);
  {
    const StreamGuard guard(stream);
    ASSERT_EQ(execute(*delegate_, x, y), Error::Ok);
  }
  EXPECT_FALSE(y.holds(21));
  ASSERT_EQ(device_->synchronize_stream(stream), Error::Ok);
  EXPECT_TRUE(y.holds(21));
  EXPECT_EQ(statistics().host_synchronizations, syncs);
  EXPECT_EQ(statistics().graph_replays, 2u);
}

TEST_F(DelegateGraphTest, AnEngineThatCannotBeCapturedRunsWithoutAndSaysSoOnce) {
  engine_->refuses_capture = true;
  load();
  for (int i = 0; i < 5; ++i) run_on_host(8);
  EXPECT_EQ(statistics().graph_captures, 0u);
  const std::string& text = CapturedLog::text();
  const auto said = text.find("runs without CUDA graphs");
  ASSERT_NE(said, std::string::npos);
  EXPECT_EQ(text.find("runs without CUDA graphs", said + 1), std::string::npos);
  EXPECT_STREQ(last_error_message(), "");
}

TEST_F(DelegateGraphTest, ASwitchedContextIsNotCaptured) {
  load(4, ProfileContexts::kSingle);
  for (int i = 0; i < 5; ++i) run_on_host(8);
  EXPECT_EQ(statistics().graph_captures + statistics().graph_misses, 0u);
}

TEST_F(DelegateGraphTest, IntoACaptureOfTheCallersItOnlyEnqueues) {
  load();
  FakeTensor x(*device_, 8, true), y(*device_, 8, true);
  run(x, y);
  const Stream stream = device_->new_callers_stream();
  {
    const StreamGuard guard(stream);
    ASSERT_EQ(execute(*delegate_, x, y), Error::Ok);  // in flight when the capture begins
    ASSERT_EQ(device_->begin_capture(stream), Error::Ok);
    y.fill(0);
    ASSERT_EQ(execute(*delegate_, x, y), Error::Ok);
    const size_t bytes = device_->device_bytes();
    for (const Memory memory : {Memory::kPageable, Memory::kPageLocked, Memory::kUnalignedDevice}) {
      FakeTensor other(*device_, 8, memory);
      EXPECT_EQ(execute(*delegate_, other, y), Error::InvalidArgument);
      EXPECT_NE(std::string(last_error_message()).find("being captured"), std::string::npos);
    }
    EXPECT_EQ(device_->device_bytes(), bytes);
  }
  const auto graph = device_->end_capture(stream);
  ASSERT_TRUE(graph.ok());
  device_->finish();
  for (const float value : {30.f, 40.f}) {
    x.fill(value);
    ASSERT_EQ(device_->launch_graph(*graph, stream), Error::Ok);
    device_->finish();
    EXPECT_TRUE(y.holds(value + 1));
  }
  device_->destroy_graph(*graph);
}

TEST_F(DelegateGraphTest, ACaptureOfTheCallersInNewShapesIsRefusedAndTouchesNothingInFlight) {
  load();
  FakeTensor x(*device_, 8, true), y(*device_, 8, true), other(*device_, 5, true);
  const Stream busy = device_->new_callers_stream(), captured = device_->new_callers_stream();
  {
    const StreamGuard guard(busy);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(execute(*delegate_, x, y), Error::Ok);
  }
  const size_t pending = device_->pending(busy);
  ASSERT_GT(pending, 0u);
  ASSERT_EQ(device_->begin_capture(captured), Error::Ok);
  {
    const StreamGuard guard(captured);
    FakeTensor host(*device_, 8, false);
    EXPECT_EQ(execute(*delegate_, host, y), Error::InvalidArgument);
    EXPECT_EQ(execute(*delegate_, other, y), Error::InvalidArgument);
  }
  EXPECT_EQ(device_->pending(busy), pending);
  const auto graph = device_->end_capture(captured);
  ASSERT_TRUE(graph.ok());
  device_->destroy_graph(*graph);
  device_->finish();
  run(x, y);
}

TEST_F(DelegateGraphTest, AFailingLaunchIsReportedAndTheNextExecutionIsRight) {
  load();
  FakeTensor x(*device_, 8, true), y(*device_, 8, true);
  for (int i = 0; i < 3; ++i) run(x, y);
  int calls = 0;
  {
    device_->faults.fail_call(1 << 30);
    run(x, y);
    calls = device_->faults.calls();
  }
  for (int k = 1; k <= calls; ++k) {
    SCOPED_TRACE("call " + std::to_string(k) + " of " + std::to_string(calls));
    for (int i = 0; i < 3; ++i) run(x, y);
    device_->faults.fail_call(k);
    EXPECT_EQ(execute(*delegate_, x, y), Faults::kFault);
    device_->faults.clear();
    EXPECT_EQ(device_->pending(), 0u);
    run(x, y);
  }
}

TEST_F(DelegateGraphTest, AFailureWhileCapturingCostsTheGraphAndNotTheAnswer) {
  for (int k = 1;; ++k) {
    SCOPED_TRACE("call " + std::to_string(k));
    load();
    FakeTensor x(*device_, 8, true), y(*device_, 8, true);
    run(x, y);
    device_->faults.fail_call(k);
    x.fill(50);
    const Error error = execute(*delegate_, x, y);
    const bool fired = device_->faults.fired();
    device_->faults.clear();
    if (!fired) break;
    if (error == Error::Ok) {
      EXPECT_TRUE(y.holds(51));
      EXPECT_EQ(statistics().graph_captures, 0u);
    } else {
      EXPECT_EQ(error, Faults::kFault);
    }
    EXPECT_EQ(device_->pending(), 0u);
    for (int i = 0; i < 4; ++i) run(x, y);
    delegate_.reset();
    EXPECT_EQ(device_->live_graphs(), 0u);
  }
}

TEST_F(DelegateGraphTest, AGraphThatCouldNotBeWaitedForStaysUntilTheDelegateGoes) {
  int broken = 0;
  for (int k = 1;; ++k) {
    SCOPED_TRACE("calls " + std::to_string(k) + " and the next");
    load();
    FakeTensor x(*device_, 8, true), y(*device_, 8, true);
    for (int i = 0; i < 3; ++i) run(x, y);
    device_->faults.fail_call(k, 2);
    (void)execute(*delegate_, x, y);  // the fake device sees a graph that is destroyed in flight
    const bool fired = device_->faults.fired();
    device_->faults.clear();
    if (!fired) break;
    broken += device_->pending() > 0;
    delegate_.reset();
    EXPECT_EQ(device_->live_graphs(), 0u);
  }
  EXPECT_GE(broken, 1);
}

}  // namespace
}  // namespace executorch_tensorrt::test
