// TensorRTDelegate::execute over the fake device and engine, where nothing fails.
#include <thread>

#include "delegate_fixture.h"

namespace executorch_tensorrt::test {
namespace {

class DelegateTest : public ::testing::Test {
 protected:
  TensorRTDelegate& delegate(const Options& options = {}) {
    auto made = make_delegate(device_, options, engine_);
    EXPECT_EQ(made.error(), Error::Ok);
    delegate_ = std::move(*made);
    return *delegate_;
  }

  /// Runs `rows` rows in host memory and returns whether the answer is right.
  bool right(TensorRTDelegate& delegate, int rows, float value = 3) {
    FakeTensor x(*device_, rows, false), y(*device_, 1, false);
    x.fill(value);
    const Error error = execute(delegate, x, y);
    return error == Error::Ok && y.rows() == rows && y.holds(value + 1);
  }

  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::shared_ptr<FakeEngine> engine_ = std::make_shared<FakeEngine>(device_);
  std::unique_ptr<TensorRTDelegate> delegate_;
};

TEST_F(DelegateTest, SelectsTheProfileByShapeAndAnswersRight) {
  auto& delegate = this->delegate();
  EXPECT_TRUE(right(delegate, 1));
  EXPECT_EQ(last_profile(delegate), "decode");
  EXPECT_TRUE(right(delegate, 16));
  EXPECT_EQ(last_profile(delegate), "prefill");
  EXPECT_TRUE(right(delegate, 1));
  EXPECT_EQ(delegate.record()->statistics().profile_changes, 2u);
}

TEST_F(DelegateTest, AContextPerProfileIsSwitchedAtLoadAlone) {
  auto& delegate = this->delegate();
  const int at_load = engine_->profile_switches;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(right(delegate, i % 2 == 0 ? 1 : 8));
  EXPECT_EQ(engine_->created_contexts, 2);
  EXPECT_EQ(engine_->profile_switches, at_load);
}

TEST_F(DelegateTest, ASingleContextIsSwitchedWhereTheProfileChanges) {
  auto& delegate = this->delegate({ProfileContexts::kSingle});
  const int at_load = engine_->profile_switches;
  for (const int rows : {1, 1, 8, 8, 1}) EXPECT_TRUE(right(delegate, rows));
  EXPECT_EQ(engine_->created_contexts, 1);
  EXPECT_EQ(engine_->profile_switches, at_load + 2);
}

TEST_F(DelegateTest, ContextsShareOneActivationBufferOfTheLargestProfile) {
  delegate();
  EXPECT_LT(device_->device_bytes(), 4096u + 64u);
  EXPECT_GE(device_->device_bytes(), 4096u);
}

TEST_F(DelegateTest, AShapeSeenBeforeIsNotSetAgain) {
  auto& delegate = this->delegate();
  const int at_load = engine_->shape_calls;
  for (const int rows : {1, 8, 1, 8, 8}) EXPECT_TRUE(right(delegate, rows));
  EXPECT_EQ(engine_->shape_calls, at_load + 2);
  EXPECT_TRUE(right(delegate, 5));
  EXPECT_TRUE(right(delegate, 8));
  EXPECT_EQ(engine_->shape_calls, at_load + 4);
}

TEST_F(DelegateTest, DeviceTensorsAreBoundAsTheyAre) {
  auto& delegate = this->delegate();
  FakeTensor x(*device_, 8, true), y(*device_, 1, true);
  x.fill(5);
  ASSERT_EQ(execute(delegate, x, y), Error::Ok);
  EXPECT_TRUE(y.holds(6));  // without a caller's stream it is there when execute returns
  EXPECT_EQ(delegate.record()->statistics().bytes_staged, 0u);
}

TEST_F(DelegateTest, HostTensorsAreCountedAsStaged) {
  auto& delegate = this->delegate();
  EXPECT_TRUE(right(delegate, 8));
  EXPECT_EQ(delegate.record()->statistics().bytes_staged, 2u * 8 * 4 * sizeof(float));
}

TEST_F(DelegateTest, OnACallersStreamWithDeviceTensorsItReturnsBeforeTheWorkIsDone) {
  auto& delegate = this->delegate();
  FakeTensor x(*device_, 8, true), y(*device_, 8, true);
  x.fill(5);
  y.fill(0);
  const Stream stream = device_->new_callers_stream();
  {
    const StreamGuard guard(stream);
    ASSERT_EQ(execute(delegate, x, y), Error::Ok);
  }
  EXPECT_TRUE(y.holds(0));
  EXPECT_EQ(delegate.record()->statistics().host_synchronizations, 0u);
  ASSERT_EQ(device_->synchronize_stream(stream), Error::Ok);
  EXPECT_TRUE(y.holds(6));
}

TEST_F(DelegateTest, OnACallersStreamWithAHostTensorItReturnsWithTheOutputs) {
  auto& delegate = this->delegate();
  FakeTensor x(*device_, 8, true), y(*device_, 1, false);
  x.fill(5);
  const StreamGuard guard(device_->new_callers_stream());
  ASSERT_EQ(execute(delegate, x, y), Error::Ok);
  EXPECT_TRUE(y.holds(6));
}

TEST_F(DelegateTest, ACallOnAnotherStreamRunsAfterTheOneInFlight) {
  for (const auto contexts : {ProfileContexts::kPerProfile, ProfileContexts::kSingle}) {
    auto& delegate = this->delegate({contexts});
    FakeTensor a(*device_, 1, true), b(*device_, 8, true), c(*device_, 8, true);
    a.fill(1);
    b.fill(2);
    const Stream first = device_->new_callers_stream(), second = device_->new_callers_stream();
    {
      const StreamGuard guard(first);
      ASSERT_EQ(execute(delegate, a, a), Error::Ok);
    }
    {
      const StreamGuard guard(second);
      ASSERT_EQ(execute(delegate, b, c), Error::Ok);
    }
    // Waiting for the second alone must have run the first: the fake engine checks the order.
    ASSERT_EQ(device_->synchronize_stream(second), Error::Ok);
    EXPECT_TRUE(a.holds(2));
    EXPECT_TRUE(c.holds(3));
  }
}

TEST_F(DelegateTest, DestroyWaitsForWhatIsInFlight) {
  auto& delegate = this->delegate();
  FakeTensor x(*device_, 8, true), y(*device_, 8, true);
  x.fill(5);
  const Stream stream = device_->new_callers_stream();
  {
    const StreamGuard guard(stream);
    ASSERT_EQ(execute(delegate, x, y), Error::Ok);
  }
  delegate_.reset();
  EXPECT_EQ(device_->pending(stream), 0u);
  EXPECT_TRUE(y.holds(6));
}

TEST_F(DelegateTest, AnOutputWithoutMemoryGetsTheDelegatesOwn) {
  auto& delegate = this->delegate();
  FakeTensor x(*device_, 8, false);
  auto nowhere = executorch::extension::from_blob(nullptr, {16, 4}, ScalarType::Float);
  EValue y(*nowhere);
  EValue* args[] = {&x.value(), &y};
  for (const float value : {1.f, 2.f}) {
    x.fill(value);
    ASSERT_EQ(delegate.execute({args, 2}), Error::Ok);
    ASSERT_EQ(nowhere->numel(), 32);
    EXPECT_EQ(nowhere->const_data_ptr<float>()[31], value + 1);
  }
}

TEST_F(DelegateTest, AnInputWithoutMemoryIsRefusedByName) {
  for (const bool is_shape_tensor : {false, true}) {
    SCOPED_TRACE(is_shape_tensor);
    Options options;
    options.is_shape_tensor = is_shape_tensor;
    auto& delegate = this->delegate(options);
    FakeTensor y(*device_, 8, false);
    auto nowhere = executorch::extension::from_blob(nullptr, {8, 4}, ScalarType::Float);
    EValue x(*nowhere);
    EValue* args[] = {&x, &y.value()};
    EXPECT_EQ(delegate.execute({args, 2}), Error::InvalidArgument);
    EXPECT_STREQ(last_error_message(), "input 'x' has no memory");
    EXPECT_TRUE(right(delegate, 8));
  }
}

TEST_F(DelegateTest, AnEngineWhoseOutputIsMoreThanItsBlobForeseesIsNotLoaded) {
  Options options;
  options.output_bytes = 64;
  EXPECT_EQ(make_delegate(device_, options, engine_).error(), Error::Internal);
  EXPECT_STREQ(last_error_message(),
               "tensor 'y' is 8x4, more than the 64 bytes that the blob foresees");
}

TEST_F(DelegateTest, DeviceTensorsThatAreNotAlignedAreCopiedOnTheDevice) {
  auto& delegate = this->delegate();
  FakeTensor x(*device_, 8, Memory::kUnalignedDevice), y(*device_, 8, Memory::kUnalignedDevice);
  x.fill(3);
  const Stream stream = device_->new_callers_stream();
  {
    const StreamGuard guard(stream);
    ASSERT_EQ(execute(delegate, x, y), Error::Ok);
  }
  EXPECT_GT(device_->pending(stream), 0u);  // no host tensor: nothing was waited for
  ASSERT_EQ(device_->synchronize_stream(stream), Error::Ok);
  EXPECT_TRUE(y.holds(4));
  EXPECT_EQ(delegate.record()->statistics().bytes_staged, 0u);
}

TEST_F(DelegateTest, PageLockedTensorsAreCopiedFromAndToWhereTheyLie) {
  auto& delegate = this->delegate();
  FakeTensor x(*device_, 8, Memory::kPageLocked), y(*device_, 8, Memory::kPageLocked);
  x.fill(3);
  const size_t before = device_->host_bytes();
  ASSERT_EQ(execute(delegate, x, y), Error::Ok);
  EXPECT_TRUE(y.holds(4));
  EXPECT_EQ(device_->host_bytes(), before);  // no page-locked memory of the delegate's own
}

TEST_F(DelegateTest, ALargeOutputInPageableMemoryIsCopiedToDirectly) {
  constexpr int kRows = 1 << 17;  // of 16 bytes
  Options options;
  options.max_rows = kRows;
  const auto made = make_delegate(device_, options);
  ASSERT_TRUE(made.ok());
  std::vector<float> in(kRows * 4, 3), out(kRows * 4);
  const auto x = executorch::extension::from_blob(in.data(), {kRows, 4});
  const auto y = executorch::extension::from_blob(out.data(), {kRows, 4});
  EValue values[] = {EValue(*x), EValue(*y)};
  EValue* args[] = {&values[0], &values[1]};
  const size_t before = device_->host_bytes();
  ASSERT_EQ((*made)->execute({args, 2}), Error::Ok);
  EXPECT_EQ(std::count(out.begin(), out.end(), 4.f), kRows * 4);
  EXPECT_EQ(device_->host_bytes() - before, in.size() * sizeof(float));  // staging of the input
  EXPECT_EQ((*made)->record()->statistics().bytes_staged, 2 * in.size() * sizeof(float));

  device_->faults.fail_call(1 << 30);
  ASSERT_EQ((*made)->execute({args, 2}), Error::Ok);
  const int calls = device_->faults.calls();
  for (int k = 1; k <= calls; ++k) {
    device_->faults.fail_call(k);
    EXPECT_EQ((*made)->execute({args, 2}), Faults::kFault) << "call " << k;
    EXPECT_EQ(device_->pending(), 0u);
  }
}

TEST_F(DelegateTest, EveryProfileIsExecutedOnceAtLoad) {
  delegate();
  EXPECT_EQ(engine_->enqueued, 2);
  EXPECT_EQ(engine_->ran, 2);
  EXPECT_EQ(device_->pending(), 0u);
  EXPECT_EQ(delegate_->record()->statistics().executions, 0u);
}

TEST_F(DelegateTest, APinnedProfileIsUsedAndAPinThatDoesNotFitTouchesNothing) {
  auto& delegate = this->delegate();
  EXPECT_TRUE(right(delegate, 1));
  const int calls = device_->faults.calls();
  FakeTensor x(*device_, 1, false), y(*device_, 1, false);
  {
    const OptimizationProfileGuard pin("prefill");
    const int before = device_->faults.calls();
    EXPECT_EQ(execute(delegate, x, y), Error::InvalidArgument);
    EXPECT_EQ(device_->faults.calls(), before);
  }
  EXPECT_GE(device_->faults.calls(), calls);
  const OptimizationProfileGuard pin(1);
  EXPECT_TRUE(right(delegate, 8));
  EXPECT_EQ(last_profile(delegate), "prefill");
}

TEST_F(DelegateTest, TheDefaultProfileCountsWithoutAPinAndAutomaticLiftsIt) {
  auto& delegate = this->delegate({{}, {}, std::string("prefill")});
  FakeTensor x(*device_, 1, false), y(*device_, 1, false);
  EXPECT_EQ(execute(delegate, x, y), Error::InvalidArgument);
  const auto automatic = OptimizationProfileGuard::automatic();
  EXPECT_EQ(execute(delegate, x, y), Error::Ok);
}

TEST_F(DelegateTest, ADefaultProfileThatIsNotThereFailsAtLoad) {
  EXPECT_EQ(make_delegate(device_, {{}, {}, std::string("speculate")}).error(),
            Error::InvalidArgument);
  EXPECT_EQ(make_delegate(device_, {{}, {}, int64_t{2}}).error(), Error::InvalidArgument);
}

TEST_F(DelegateTest, DelegatesOfAMethodFollowOneActiveProfile) {
  auto active = std::make_shared<ActiveProfile>();
  auto first = make_delegate(device_, {}, nullptr, active);
  auto second = make_delegate(device_, {}, nullptr, active);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(right(**first, 8));
  EXPECT_EQ(active->get(), std::optional<size_t>(1));
  EXPECT_TRUE(right(**second, 1));
  EXPECT_EQ(active->get(), std::optional<size_t>(0));
}

TEST_F(DelegateTest, WrongArgumentsAreRefusedByName) {
  auto& delegate = this->delegate();
  FakeTensor x(*device_, 8, false), y(*device_, 8, false);
  EValue* too_few[] = {&x.value()};
  EXPECT_EQ(delegate.execute({too_few, 1}), Error::InvalidArgument);
  EXPECT_NE(std::string(last_error_message()).find("takes 2 arguments"), std::string::npos);

  auto ints = executorch::extension::full({8, 4}, 1, ScalarType::Int);
  EValue wrong(*ints), number(int64_t{3});
  EValue* wrong_dtype[] = {&wrong, &y.value()};
  EXPECT_EQ(delegate.execute({wrong_dtype, 2}), Error::InvalidArgument);
  EXPECT_STREQ(last_error_message(), "input 'x' must be Float, not Int");
  EValue* wrong_kind[] = {&number, &y.value()};
  EXPECT_EQ(delegate.execute({wrong_kind, 2}), Error::InvalidArgument);

  float data[32] = {};
  auto transposed = executorch::extension::from_blob(data, {8, 4}, {1, 8}, ScalarType::Float);
  EValue column_major(*transposed);
  EValue* wrong_layout[] = {&column_major, &y.value()};
  EXPECT_EQ(delegate.execute({wrong_layout, 2}), Error::InvalidArgument);
  EXPECT_NE(std::string(last_error_message()).find("row-major"), std::string::npos);
}

TEST_F(DelegateTest, ThreadsTakeTurnsOnOneDelegateAndRunSideBySideOnTwo) {
  auto& shared = this->delegate();
  auto own = make_delegate(device_);
  ASSERT_TRUE(own.ok());
  const auto work = [&](TensorRTDelegate& mine, float value) {
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(right(shared, 1 + i % 16, value));
      EXPECT_TRUE(right(mine, 1 + i % 3, value));
    }
  };
  std::thread other([&] { work(**own, 2); });
  work(**own, 7);
  other.join();
  EXPECT_EQ(shared.record()->statistics().executions, 100u);
}

TEST_F(DelegateTest, EnginesAreSharedAndOutliveTheLastDelegateOnly) {
  auto first = make_delegate(device_, {}, engine_);
  auto second = make_delegate(device_, {}, engine_);
  std::weak_ptr<FakeEngine> engine = engine_;
  engine_.reset();
  first->reset();
  ASSERT_FALSE(engine.expired());
  EXPECT_TRUE(right(**second, 8));
  second->reset();
  EXPECT_TRUE(engine.expired());
}

}  // namespace
}  // namespace executorch_tensorrt::test
