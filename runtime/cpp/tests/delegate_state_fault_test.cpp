// Every call at the seams, failing in turn, for a delegate with state: it is as it was before, or
// said to be lost.
#include "captured_log.h"
#include "last_error_has.h"
#include "state_fixture.h"

namespace executorch_tensorrt::test {
namespace {

struct Way {
  StateKind kind;
  bool on_device, async, graphs;

  std::string name() const {
    return kind.name() + (on_device ? "Device" : "Host") + (async ? "CallersStream" : "OwnStream") +
           (graphs ? "Graphs" : "");
  }
};

std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (const StateKind& kind : {StateKind{true, false, true}, StateKind{false, false, true},
                                StateKind{false, true, false}}) {
    for (int bits = 0; bits < 8; ++bits) {
      ways.push_back({kind, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
    }
  }
  return ways;
}

class StateFaultTest : public StateFixture, public ::testing::TestWithParam<Way> {
 protected:
  struct Tensors {
    Tensors(FakeDevice& device, bool on_device)
        : x(device, 2, on_device), y(device, 2, on_device), pos(device, on_device) {}
    FakeTensor x, y;
    FakePosition pos;
  };

  Error call(Tensors& tensors) {
    std::unique_ptr<StreamGuard> guard;
    if (GetParam().async) guard = std::make_unique<StreamGuard>(stream_);
    return execute(*delegate_, tensors.x, tensors.pos, tensors.y);
  }

  /// A delegate that has written rows 0 and 1 with 5, `calls` times: with two states of parity, the
  /// fifth call is the first that replays a graph.
  Expected warm(Tensors& tensors, int calls) {
    load(GetParam().kind, GetParam().graphs ? 8 : 0);
    Expected expected;
    tensors.x.fill(5);
    tensors.pos.set(0);
    for (int i = 0; i < calls; ++i) {
      EXPECT_EQ(call(tensors), Error::Ok);
      device_->finish();
      expected.write(0, 2, 5);
    }
    return expected;
  }

  void expect_usable_after_reset(Tensors& tensors) {
    ASSERT_EQ(own_->reset(), Error::Ok) << last_error_message();
    EXPECT_TRUE(holds(*own_, Expected()));
    ASSERT_EQ(call(tensors), Error::Ok) << last_error_message();
    device_->finish();
    Expected expected;
    expected.write(3, 2, 6);
    EXPECT_TRUE(holds(*own_, expected));
  }

  CapturedLog log_;
  const Stream stream_ = device_->new_callers_stream();
};

TEST_P(StateFaultTest, AFailingCallLeavesTheStateAsItWasOrSaysThatItIsLost) {
  int lost = 0, kept = 0;
  for (const int warm_calls : {1, 2, 4}) {
    for (int k = 1;; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + " after " + std::to_string(warm_calls));
      Tensors tensors(*device_, GetParam().on_device);
      Expected expected = warm(tensors, warm_calls);
      tensors.x.fill(6);
      tensors.pos.set(3);
      device_->faults.fail_call(k);
      const Error error = call(tensors);
      const bool fired = device_->faults.fired();
      device_->faults.clear();
      if (error == Error::Ok) {  // also where only the capture of a graph failed
        device_->finish();
        expected.write(3, 2, 6);
        EXPECT_TRUE(holds(*own_, expected));
        if (!fired) break;
        continue;
      }
      EXPECT_EQ(error, Faults::kFault);
      EXPECT_EQ(device_->pending(), 0u);
      std::array<float, kCacheRows * 4> cache{};
      const Error read = own_->read("cache", cache.data(), sizeof(cache));
      if (read == Error::Ok) {
        ++kept;
        EXPECT_TRUE(holds(*own_, expected));
        ASSERT_EQ(call(tensors), Error::Ok) << last_error_message();
        device_->finish();
        expected.write(3, 2, 6);
        EXPECT_TRUE(holds(*own_, expected));
      } else {
        ++lost;
        EXPECT_EQ(read, Error::InvalidState);
        EXPECT_TRUE(last_error_has("state 'cache' is lost"));
        EXPECT_TRUE(last_error_has("injected fault"));
        EXPECT_EQ(call(tensors), Error::InvalidState);
        expect_usable_after_reset(tensors);
      }
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_EQ(lost > 0, GetParam().kind.alias);
}

TEST_P(StateFaultTest, AFaultThatTheDrainDoesNotClearLosesTheState) {
  int broken = 0;
  for (int k = 1;; ++k) {
    SCOPED_TRACE("calls " + std::to_string(k) + " and the next");
    Tensors tensors(*device_, GetParam().on_device);
    (void)warm(tensors, 1);
    device_->faults.fail_call(k, 2);
    const Error error = call(tensors);
    const std::string text = last_error_message();
    const bool fired = device_->faults.fired();
    device_->faults.clear();
    if (!fired) {
      device_->finish();
      break;
    }
    if (text.find("then waiting for what had been enqueued failed") != std::string::npos) {
      ++broken;
      EXPECT_EQ(error, Faults::kFault);
      float count = 0;
      EXPECT_EQ(own_->read("count", &count, sizeof(count)), Error::InvalidState);
      EXPECT_EQ(call(tensors), Faults::kFault);
    }
    delegate_.reset();
    own_.reset();  // the fake device checks that nothing frees memory in flight
    EXPECT_EQ(device_->pending(), 0u);
  }
  EXPECT_GE(broken, 2);
}

TEST_P(StateFaultTest, AResetBehindSuchAFaultIsNotUndoneByWhatWasInFlight) {
  int broken = 0;
  for (int k = 1;; ++k) {
    SCOPED_TRACE("calls " + std::to_string(k) + " and the next");
    Tensors tensors(*device_, GetParam().on_device);
    (void)warm(tensors, 1);
    device_->faults.fail_call(k, 2);
    (void)call(tensors);
    const bool fired = device_->faults.fired();
    device_->faults.clear();
    if (fired && device_->pending() > 0) {
      ++broken;
      ASSERT_EQ(own_->reset(), Error::Ok) << last_error_message();
      device_->finish();
      EXPECT_TRUE(holds(*own_, Expected()));
    }
    device_->finish();
    if (!fired) break;
  }
  EXPECT_GE(broken, 1);
}

INSTANTIATE_TEST_SUITE_P(EveryWay, StateFaultTest, ::testing::ValuesIn(all_ways()),
                         [](const auto& info) { return info.param.name(); });

class StateSetFaultTest : public StateFixture, public ::testing::Test {
 protected:
  /// Runs `action` with each seam call failing in turn on a state at count 2; then the state must
  /// be `expected`, as before, or lost until it is reset.
  template <typename Action>
  void every_fault(const Action& action) {
    int failed = 0;
    for (int k = 1;; ++k) {
      SCOPED_TRACE("call " + std::to_string(k));
      load({});
      ASSERT_EQ(write(0, 2, 5), Error::Ok);
      Expected before;
      before.write(0, 2, 5);
      device_->faults.fail_call(k);
      const Error error = action();
      const bool fired = device_->faults.fired();
      device_->faults.clear();
      EXPECT_EQ(error, fired ? Faults::kFault : Error::Ok);
      EXPECT_EQ(device_->pending(), 0u);
      if (!fired) break;
      ++failed;
      if (holds(*own_, before)) continue;
      EXPECT_TRUE(last_error_has("is lost"));
      EXPECT_EQ(write(0, 1, 5), Error::InvalidState);
      ASSERT_EQ(own_->reset(), Error::Ok);
      EXPECT_TRUE(holds(*own_, Expected()));
    }
    EXPECT_GE(failed, 2);
  }

  CapturedLog log_;
};

TEST_F(StateSetFaultTest, AResetThatFailsLosesTheState) {
  every_fault([this] { return own_->reset(); });
}

TEST_F(StateSetFaultTest, AWriteThatFailsLosesItsStateUntilItIsWrittenAgain) {
  every_fault([this] {
    const float count = 9;
    return own_->write("count", &count, sizeof(count));
  });
  load({});
  const float count = 9;
  device_->faults.fail_call(2);  // behind pointer_info: the copy
  EXPECT_EQ(own_->write("count", &count, sizeof(count)), Faults::kFault);
  device_->faults.clear();
  EXPECT_EQ(write(0, 1, 5), Error::InvalidState);
  ASSERT_EQ(own_->write("count", &count, sizeof(count)), Error::Ok);
  EXPECT_EQ(write(0, 1, 5), Error::Ok);
}

TEST_F(StateSetFaultTest, AReadThatFailsChangesNothing) {
  every_fault([this] {
    float count = 0;
    return own_->read("count", &count, sizeof(count));
  });
}

TEST_F(StateSetFaultTest, ACreationThatFailsLeaksNothing) {
  load({});
  const size_t bytes = device_->device_bytes();
  for (int k = 1;; ++k) {
    SCOPED_TRACE("call " + std::to_string(k));
    device_->faults.fail_call(k);
    const auto made = own_->create();
    const bool fired = device_->faults.fired();
    device_->faults.clear();
    if (!fired) break;
    EXPECT_EQ(made.error(), Faults::kFault);
    EXPECT_EQ(device_->device_bytes(), bytes);
    EXPECT_EQ(device_->pending(), 0u);
  }
}

TEST_F(StateSetFaultTest, ACreationThatCanNotBeWaitedForFreesNothingInFlight) {
  load({});
  for (int k = 1;; ++k) {
    SCOPED_TRACE("calls " + std::to_string(k) + " and the next");
    device_->faults.fail_call(k, 2);
    const auto made = own_->create();  // the fake device checks
    const bool fired = device_->faults.fired();
    device_->faults.clear();
    EXPECT_EQ(device_->pending(), 0u);
    if (!fired) break;
    EXPECT_EQ(made.error(), Faults::kFault);
  }
}

TEST_F(StateSetFaultTest, ALoadThatFailsLeaksNothing) {
  for (int k = 1;; ++k) {
    SCOPED_TRACE("call " + std::to_string(k));
    device_->faults.fail_call(k);
    const Error error = make({false, true, true}, 4).error();
    own_.reset();
    const bool fired = device_->faults.fired();
    device_->faults.clear();
    EXPECT_EQ(device_->device_bytes(), 0u);
    EXPECT_EQ(device_->host_bytes(), 0u);
    if (!fired) break;
    EXPECT_EQ(error, Faults::kFault);
  }
}

}  // namespace
}  // namespace executorch_tensorrt::test
