// What an execution tells ExecuTorch's event tracer; tests/test_etdump.py reads real ETDumps.
#include <string>
#include <vector>

#include "delegate_fixture.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::aten::Tensor;
using executorch::runtime::AllocatorID;
using executorch::runtime::ArrayRef;
using executorch::runtime::ChainID;
using executorch::runtime::DebugHandle;
using executorch::runtime::DelegateDebugIntId;
using executorch::runtime::EventTracer;
using executorch::runtime::EventTracerEntry;
using executorch::runtime::EventTracerFilterBase;
using executorch::runtime::LoggedEValueType;

/// Remembers the delegate events that were logged.
class RecordingTracer final : public EventTracer {
 public:
  struct Event {
    std::string name, metadata;
    et_timestamp_t start, end;
  };
  std::vector<Event> events;

  void log_profiling_delegate(const char* name, DelegateDebugIntId, et_timestamp_t start,
                              et_timestamp_t end, const void* metadata, size_t size) override {
    events.push_back({name, {static_cast<const char*>(metadata), size}, start, end});
  }

  void create_event_block(const char*) override {}
  EventTracerEntry start_profiling(const char*, ChainID, DebugHandle) override { return {}; }
  EventTracerEntry start_profiling_delegate(const char*, DelegateDebugIntId) override { return {}; }
  void end_profiling_delegate(EventTracerEntry, const void*, size_t) override {}
  void end_profiling(EventTracerEntry) override {}
  void track_allocation(AllocatorID, size_t) override {}
  AllocatorID track_allocator(const char*) override { return 0; }
  Result<bool> log_evalue(const EValue&, LoggedEValueType) override { return false; }
  using Name = const char*;
  using Id = DelegateDebugIntId;
  Result<bool> log_intermediate_output_delegate(Name, Id, const Tensor&) override { return false; }
  Result<bool> log_intermediate_output_delegate(Name, Id, const ArrayRef<Tensor>) override {
    return false;
  }
  Result<bool> log_intermediate_output_delegate(Name, Id, const int&) override { return false; }
  Result<bool> log_intermediate_output_delegate(Name, Id, const bool&) override { return false; }
  Result<bool> log_intermediate_output_delegate(Name, Id, const double&) override { return false; }
  void set_delegation_intermediate_output_filter(EventTracerFilterBase*) override {}
};

class DelegateTraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = make_delegate(device_);
    ASSERT_EQ(made.error(), Error::Ok);
    delegate_ = std::move(*made);
  }

  Error traced(FakeTensor& x, FakeTensor& y) {
    EValue* args[] = {&x.value(), &y.value()};
    return delegate_->execute({args, 2}, &tracer_);
  }

  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::unique_ptr<TensorRTDelegate> delegate_;
  RecordingTracer tracer_;
};

TEST_F(DelegateTraceTest, AnExecutionIsOneEventUnderItsProfilesName) {
  FakeTensor one(*device_, 1, true), many(*device_, 8, true), y(*device_, 8, true);
  one.fill(1);
  many.fill(1);
  ASSERT_EQ(traced(one, y), Error::Ok);
  ASSERT_EQ(traced(many, y), Error::Ok);
  ASSERT_EQ(tracer_.events.size(), 2u);
  EXPECT_EQ(tracer_.events[0].name, "decode");
  EXPECT_EQ(tracer_.events[1].name, "prefill");
  for (const auto& event : tracer_.events) {
    EXPECT_EQ(event.metadata, "fake on " + device_->name());
    EXPECT_LE(event.start, event.end);
  }
  EXPECT_LE(tracer_.events[0].end, tracer_.events[1].start);
}

TEST_F(DelegateTraceTest, ATracedExecutionWaitsForItsOutputsAlsoOnACallersStream) {
  FakeTensor x(*device_, 8, true), y(*device_, 8, true);
  x.fill(5);
  y.fill(0);
  const StreamGuard guard(device_->new_callers_stream());
  ASSERT_EQ(execute(*delegate_, x, y), Error::Ok);
  EXPECT_TRUE(y.holds(0));  // only enqueued
  ASSERT_EQ(traced(x, y), Error::Ok);
  EXPECT_TRUE(y.holds(6));
}

TEST_F(DelegateTraceTest, AnExecutionThatFailsIsNoEvent) {
  FakeTensor x(*device_, 8, true), y(*device_, 8, true);
  x.fill(5);
  {
    const OptimizationProfileGuard pin("decode");
    EXPECT_EQ(traced(x, y), Error::InvalidArgument);
  }
  EXPECT_TRUE(tracer_.events.empty());
}

}  // namespace
}  // namespace executorch_tensorrt::test
