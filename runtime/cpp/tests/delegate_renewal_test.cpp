// Contexts that make place for new ones after many changes of shapes, and captures that keep to
// themselves.
#include <executorch/runtime/platform/runtime.h>

#include <chrono>
#include <future>
#include <mutex>
#include <shared_mutex>

#include "captured_log.h"
#include "delegate_fixture.h"
#include "enqueue_mutex.h"

namespace executorch_tensorrt::test {
namespace {

class DelegateRenewalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    executorch::runtime::runtime_init();
    options_.max_cuda_graphs = 2;
    engine_ = std::make_shared<FakeEngine>(device_);
    engine_->max_changes = 8;
  }

  std::unique_ptr<TensorRTDelegate> made() {
    auto delegate = make_delegate(device_, options_, engine_);
    EXPECT_TRUE(delegate.ok());
    return std::move(*delegate);
  }

  /// Each in another shape than the one before.
  void call(TensorRTDelegate& delegate, int calls) {
    for (int i = 0; i < calls; ++i) {
      rows_ = rows_ == 2 ? 8 : 2;
      FakeTensor x(*device_, rows_, true), y(*device_, 16, true);
      x.fill(static_cast<float>(i));
      ASSERT_EQ(execute(delegate, x, y), Error::Ok);
      EXPECT_TRUE(y.holds(static_cast<float>(i) + 1));
    }
  }

  const std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::shared_ptr<FakeEngine> engine_;
  Options options_;
  int rows_ = 2;
  CapturedLog log_;
};

TEST_F(DelegateRenewalTest, AContextMakesPlaceForANewOneAfterManyChangesOfShapes) {
  const auto delegate = made();
  ASSERT_EQ(engine_->created_contexts, 2);
  call(*delegate, 100);
  EXPECT_GE(engine_->created_contexts, 2 + 100 / 8);
  EXPECT_LE(engine_->live_contexts, 3);  // two, and what is to come
}

TEST_F(DelegateRenewalTest, ASingleContextMakesPlaceForOneOnItsProfile) {
  options_.contexts = ProfileContexts::kSingle;
  const auto delegate = made();
  for (int i = 0; i < 20; ++i) {
    call(*delegate, 3);
    FakeTensor x(*device_, 1, true), y(*device_, 16, true);
    x.fill(7);
    ASSERT_EQ(execute(*delegate, x, y), Error::Ok);
    EXPECT_TRUE(y.holds(8));
  }
  EXPECT_GT(engine_->created_contexts, 5);
}

TEST_F(DelegateRenewalTest, CallsInTheSameShapesOrOfAnEngineThatNeedsNoneKeepTheirContext) {
  auto delegate = made();
  FakeTensor x(*device_, 8, true), y(*device_, 16, true);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(execute(*delegate, x, y), Error::Ok);
  engine_->max_changes = 0;
  call(*delegate, 50);
  EXPECT_EQ(engine_->created_contexts, 2);
}

TEST_F(DelegateRenewalTest, WhatIsInFlightOnTheCallersStreamIsWaitedFor) {
  const auto delegate = made();
  const Stream stream = device_->new_callers_stream();
  const StreamGuard guard(stream);
  std::vector<std::unique_ptr<FakeTensor>> tensors;
  for (int i = 0; i < 60; ++i) {
    rows_ = rows_ == 2 ? 8 : 2;
    auto x = std::make_unique<FakeTensor>(*device_, rows_, true);
    auto y = std::make_unique<FakeTensor>(*device_, 16, true);
    x->fill(static_cast<float>(i));
    ASSERT_EQ(execute(*delegate, *x, *y), Error::Ok);
    tensors.push_back(std::move(x));
    tensors.push_back(std::move(y));
  }
  ASSERT_EQ(device_->synchronize_stream(stream), Error::Ok);
  for (int i = 0; i < 60; ++i)
    EXPECT_TRUE(tensors[2 * i + 1]->holds(static_cast<float>(i) + 1)) << i;
  EXPECT_GT(engine_->created_contexts, 2);
}

TEST_F(DelegateRenewalTest, WhereNoneCanBeMadeTheOldContextStaysAndTheLogSaysWhy) {
  const auto delegate = made();
  engine_->creates_contexts = false;
  call(*delegate, 30);
  EXPECT_EQ(engine_->created_contexts, 2);
  EXPECT_NE(CapturedLog::text().find("no more contexts"), std::string::npos);
  engine_->creates_contexts = true;
  call(*delegate, 30);
  EXPECT_GT(engine_->created_contexts, 2);
}

TEST_F(DelegateRenewalTest, AContextInAGraphOfTheCallersStays) {
  const auto delegate = made();
  call(*delegate, 1);
  const Stream stream = device_->new_callers_stream();
  FakeTensor x(*device_, rows_, true), y(*device_, 16, true);
  ASSERT_EQ(device_->begin_capture(stream), Error::Ok);
  {
    const StreamGuard guard(stream);
    ASSERT_EQ(execute(*delegate, x, y), Error::Ok);
  }
  const auto graph = device_->end_capture(stream);
  ASSERT_TRUE(graph.ok());
  call(*delegate, 60);
  EXPECT_EQ(engine_->created_contexts, 2);
  device_->destroy_graph(*graph);
}

TEST_F(DelegateRenewalTest, NothingIsCapturedWhileAnotherThreadEnqueues) {
  const auto delegate = made();
  FakeTensor x(*device_, 8, true), y(*device_, 16, true);
  {
    const std::shared_lock<std::shared_mutex> another(enqueue_mutex());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(execute(*delegate, x, y), Error::Ok);
    EXPECT_EQ(delegate->record()->statistics().graph_captures, 0u);
  }
  ASSERT_EQ(execute(*delegate, x, y), Error::Ok);
  EXPECT_EQ(delegate->record()->statistics().graph_captures, 1u);
  ASSERT_EQ(execute(*delegate, x, y), Error::Ok);
  EXPECT_EQ(delegate->record()->statistics().graph_replays, 1u);
}

TEST_F(DelegateRenewalTest, NothingIsEnqueuedWhileAnotherThreadCaptures) {
  const auto delegate = made();
  FakeTensor x(*device_, 8, true), y(*device_, 16, true);
  const int before = engine_->enqueued;
  std::unique_lock<std::shared_mutex> another(enqueue_mutex());
  auto call = std::async(std::launch::async, [&] { return execute(*delegate, x, y); });
  EXPECT_EQ(call.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  EXPECT_EQ(engine_->enqueued, before);
  another.unlock();
  EXPECT_EQ(call.get(), Error::Ok);
}

}  // namespace
}  // namespace executorch_tensorrt::test
