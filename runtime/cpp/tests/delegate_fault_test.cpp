// Every call at the seams, failing in turn.
#include "delegate_fixture.h"

namespace executorch_tensorrt::test {
namespace {

/// One way of executing; all combinations are tried.
struct Way {
  bool pinned, switches, on_device, async;
  ProfileContexts contexts;

  std::string name() const {
    return std::string(pinned ? "Pinned" : "Automatic") + (switches ? "Switching" : "Staying") +
           (on_device ? "Device" : "Host") + (async ? "CallersStream" : "OwnStream") +
           (contexts == ProfileContexts::kSingle ? "SingleContext" : "ContextPerProfile");
  }
};

std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (int bits = 0; bits < 32; ++bits) {
    ways.push_back({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0,
                    (bits & 16) != 0 ? ProfileContexts::kSingle : ProfileContexts::kPerProfile});
  }
  return ways;
}

class FaultTest : public ::testing::TestWithParam<Way> {
 protected:
  /// A delegate that has run once, so that the call to come switches the profile or does not.
  std::unique_ptr<TensorRTDelegate> warm_delegate() {
    auto made = make_delegate(device_, {GetParam().contexts});
    EXPECT_TRUE(made.ok());
    FakeTensor x(*device_, GetParam().switches ? 1 : 8, true), y(*device_, 8, true);
    x.fill(1);
    const StreamGuard guard(first_stream_);
    EXPECT_EQ(execute(**made, x, y), Error::Ok);
    device_->finish();  // the tensors go; the delegate still has a recorded execution
    return std::move(*made);
  }

  Error call(TensorRTDelegate& delegate, FakeTensor& x, FakeTensor& y) {
    std::unique_ptr<OptimizationProfileGuard> pin;
    if (GetParam().pinned) pin = std::make_unique<OptimizationProfileGuard>("prefill");
    std::unique_ptr<StreamGuard> stream;
    if (GetParam().async) stream = std::make_unique<StreamGuard>(second_stream_);
    return execute(delegate, x, y);
  }

  /// How many calls at the seams a good execution makes.
  int count_calls() {
    const auto delegate = warm_delegate();
    FakeTensor x(*device_, 8, GetParam().on_device), y(*device_, 8, GetParam().on_device);
    x.fill(4);
    device_->faults.fail_call(1 << 30);
    EXPECT_EQ(call(*delegate, x, y), Error::Ok);
    const int calls = device_->faults.calls();
    device_->faults.clear();
    device_->finish();
    EXPECT_TRUE(y.holds(5));
    return calls;
  }

  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  const Stream first_stream_ = device_->new_callers_stream();
  const Stream second_stream_ = device_->new_callers_stream();
};

TEST_P(FaultTest, AFailingCallIsReportedNothingStaysInFlightAndTheNextExecutionIsRight) {
  const int calls = count_calls();
  ASSERT_GE(calls, 4);
  for (int k = 1; k <= calls; ++k) {
    SCOPED_TRACE("call " + std::to_string(k) + " of " + std::to_string(calls));
    const auto delegate = warm_delegate();
    FakeTensor x(*device_, 8, GetParam().on_device), y(*device_, 8, GetParam().on_device);
    x.fill(4);
    device_->faults.fail_call(k);
    const Error error = call(*delegate, x, y);
    ASSERT_TRUE(device_->faults.fired());
    device_->faults.clear();
    EXPECT_EQ(error, Faults::kFault);
    EXPECT_NE(std::string(last_error_message()).find("injected fault"), std::string::npos);
    EXPECT_EQ(delegate->record()->statistics().failures, 1u);

    EXPECT_EQ(device_->pending(), 0u) << "work was left running behind an error";
    x.fill(6);
    EXPECT_EQ(call(*delegate, x, y), Error::Ok);
    device_->finish();
    EXPECT_TRUE(y.holds(7));
  }
}

TEST_P(FaultTest, AFaultThatTheDrainDoesNotClearIsAnsweredUntilTheDelegateGoesWhichWaits) {
  const int calls = count_calls();
  int drained = 0;
  for (int k = 1; k <= calls; ++k) {
    SCOPED_TRACE("calls " + std::to_string(k) + " and the next of " + std::to_string(calls));
    auto delegate = warm_delegate();
    FakeTensor x(*device_, 8, GetParam().on_device), y(*device_, 8, GetParam().on_device);
    x.fill(4);
    device_->faults.fail_call(k, 2);
    EXPECT_EQ(call(*delegate, x, y), Faults::kFault);
    const std::string text = last_error_message();
    device_->faults.clear();
    if (text.find("then waiting for what had been enqueued failed") == std::string::npos) {
      continue;  // it failed before anything was asynchronous
    }
    ++drained;
    EXPECT_EQ(call(*delegate, x, y), Faults::kFault);
    EXPECT_NE(std::string(last_error_message()).find("load the program again"), std::string::npos);
    delegate.reset();
    EXPECT_EQ(device_->pending(), 0u);
  }
  EXPECT_GE(drained, 4);
}

TEST_P(FaultTest, ADeviceThatIsLostIsReportedUntilTheDelegateGoes) {
  const int calls = count_calls();
  for (int k = 1; k <= calls; ++k) {
    SCOPED_TRACE("from call " + std::to_string(k) + " of " + std::to_string(calls));
    auto delegate = warm_delegate();
    FakeTensor x(*device_, 8, GetParam().on_device), y(*device_, 8, GetParam().on_device);
    x.fill(4);
    device_->faults.fail_call(k, Faults::kForGood);
    EXPECT_EQ(call(*delegate, x, y), Faults::kFault);
    EXPECT_EQ(call(*delegate, x, y), Faults::kFault);
    delegate.reset();
    device_->faults.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(EveryWay, FaultTest, ::testing::ValuesIn(all_ways()),
                         [](const auto& info) { return info.param.name(); });

TEST(LoadFaultTest, AFailingCallAtLoadIsReportedAndNothingLeaks) {
  for (const auto contexts : {ProfileContexts::kPerProfile, ProfileContexts::kSingle}) {
    const auto device = std::make_shared<FakeDevice>();
    device->faults.fail_call(1 << 30);
    ASSERT_TRUE(make_delegate(device, {contexts}).ok());
    const int calls = device->faults.calls();
    ASSERT_GE(calls, 6);
    for (int k = 1; k <= calls; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + " of " + std::to_string(calls));
      device->faults.fail_call(k);
      EXPECT_EQ(make_delegate(device, {contexts}).error(), Faults::kFault);
      EXPECT_EQ(device->device_bytes(), 0u);
      EXPECT_EQ(device->pending(), 0u);
    }
    device->faults.clear();
    EXPECT_TRUE(make_delegate(device, {contexts}).ok());
  }
}

TEST(LoadFaultTest, AFaultThatTheDrainDoesNotClearFreesNothingOfTheWarmUpInFlight) {
  for (const auto contexts : {ProfileContexts::kPerProfile, ProfileContexts::kSingle}) {
    const auto device = std::make_shared<FakeDevice>();  // which sees what is freed in flight
    device->faults.fail_call(1 << 30);
    ASSERT_TRUE(make_delegate(device, {contexts}).ok());
    const int calls = device->faults.calls();
    for (int k = 1; k <= calls; ++k) {
      SCOPED_TRACE("calls " + std::to_string(k) + " and the next of " + std::to_string(calls));
      device->faults.fail_call(k, 2);
      EXPECT_EQ(make_delegate(device, {contexts}).error(), Faults::kFault);
      EXPECT_EQ(device->device_bytes() + device->host_bytes(), 0u);
    }
  }
}

}  // namespace
}  // namespace executorch_tensorrt::test
