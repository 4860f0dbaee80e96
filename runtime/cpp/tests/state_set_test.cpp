// StateSet and StateGuard: what is read, written, selected and shared, and who may go first.
#include <atomic>
#include <thread>

#include "captured_log.h"
#include "last_error_has.h"
#include "state_fixture.h"

namespace executorch_tensorrt::test {
namespace {

class StateSetTest : public StateFixture, public ::testing::Test {
 protected:
  Error read_count(StateSet& set, float& count) { return set.read("count", &count, 4); }

  CapturedLog log_;
};

TEST_F(StateSetTest, ListsItsStates) {
  load({});
  const auto states = own_->states();
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].name, "cache");
  EXPECT_EQ(states[0].dtype, ScalarType::Float);
  EXPECT_EQ(states[0].shape, (std::vector<int64_t>{kCacheRows, 4}));
  EXPECT_EQ(states[0].bytes, kCacheRows * 16u);
  EXPECT_EQ(states[1].shape, std::vector<int64_t>{1});
  EXPECT_EQ(delegate_->record()->state(), own_);
}

TEST_F(StateSetTest, IsWrittenAndReadFromHostAndDeviceMemory) {
  load({});
  for (const Memory memory : {Memory::kPageable, Memory::kPageLocked, Memory::kDevice}) {
    FakeTensor in(*device_, 16, memory), out(*device_, 16, memory);
    in.fill(static_cast<float>(memory) + 10);
    auto& from = in.value().toTensor();
    auto& to = out.value().toTensor();
    ASSERT_EQ(own_->write("cache", from.const_data_ptr(), from.nbytes()), Error::Ok);
    ASSERT_EQ(own_->read("cache", to.mutable_data_ptr(), to.nbytes()), Error::Ok);
    EXPECT_TRUE(out.holds(static_cast<float>(memory) + 10));
  }
  const float count = 40;
  ASSERT_EQ(own_->write("count", &count, 4), Error::Ok);
  FakeTensor x(*device_, 1, false), y(*device_, 1, false);
  FakePosition pos(*device_, false);
  x.fill(2);
  ASSERT_EQ(execute(*delegate_, x, pos, y), Error::Ok);
  EXPECT_TRUE(y.holds(42));
}

TEST_F(StateSetTest, RefusesNamesSizesAndDevicesThatAreNotItsOwn) {
  load({});
  float value = 0;
  EXPECT_EQ(own_->read("cash", &value, 4), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("there is no state 'cash'; states are cache, count"));
  EXPECT_EQ(own_->write("cache", &value, 4), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("state 'cache' has 256 bytes; it was given 4"));
  const auto other = std::make_shared<FakeDevice>(1);
  void* foreign = *other->allocate(4);
  EXPECT_EQ(own_->write("count", foreign, 4), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("the memory is on cuda:1; the state is on cuda:0"));
  EXPECT_EQ(own_->read("count", foreign, 4), Error::InvalidArgument);
  other->free(foreign);
  EXPECT_TRUE(holds(*own_, Expected()));
}

TEST_F(StateSetTest, IsReadBehindAnExecutionThatIsStillInFlight) {
  load({});
  FakeTensor x(*device_, 1, true), y(*device_, 1, true);
  FakePosition pos(*device_, false);
  (void)write(0, 1, 1);
  x.fill(7);
  const Stream stream = device_->new_callers_stream();
  StateKind unchecked;
  unchecked.checked = false;
  load(unchecked);
  FakePosition at(*device_, true);
  at.set(2);
  {
    const StreamGuard guard(stream);
    ASSERT_EQ(execute(*delegate_, x, at, y), Error::Ok);
  }
  ASSERT_GT(device_->pending(stream), 0u);
  Expected expected;
  expected.write(2, 1, 7);
  EXPECT_TRUE(holds(*own_, expected));
}

TEST_F(StateSetTest, ThatGoesWhileAnExecutionOnItIsInFlightWaits) {
  StateKind unchecked;
  unchecked.checked = false;
  load(unchecked);
  FakeTensor x(*device_, 1, true), y(*device_, 1, true);
  FakePosition pos(*device_, true);
  const Stream stream = device_->new_callers_stream();
  auto set = *own_->create();
  {
    const StreamGuard guard(stream);
    const StateGuard state(set);
    ASSERT_EQ(execute(*delegate_, x, pos, y), Error::Ok);
  }
  ASSERT_GT(device_->pending(stream), 0u);
  set.reset();  // the fake device checks
  EXPECT_EQ(device_->pending(stream), 0u);
}

TEST_F(StateSetTest, OutlivesItsMethodAndNeedNot) {
  load({});
  auto set = *own_->create();
  ASSERT_EQ(write(0, 1, 3), Error::Ok);
  const auto record = delegate_->record();
  delegate_.reset();
  Expected expected;
  expected.write(0, 1, 3);
  EXPECT_TRUE(holds(*own_, expected));
  EXPECT_TRUE(holds(**set->create(), Expected()));
  own_.reset();
  EXPECT_EQ(record->state(), nullptr);
  EXPECT_TRUE(holds(*set, Expected()));
}

TEST_F(StateSetTest, AGuardNestsAndNoneIsTheMethodsOwn) {
  load({});
  const auto a = *own_->create(), b = *own_->create();
  {
    const StateGuard outer(a);
    {
      const StateGuard inner(b);
      ASSERT_EQ(write(0, 1, 2), Error::Ok);
      const StateGuard own(nullptr);
      ASSERT_EQ(write(0, 2, 3), Error::Ok);
    }
    ASSERT_EQ(write(0, 4, 4), Error::Ok);
    std::thread([this] { ASSERT_EQ(write(8, 8, 5), Error::Ok); }).join();  // not seen there
  }
  Expected in_a, in_b, in_own;
  in_b.write(0, 1, 2);
  in_own.write(0, 2, 3);
  in_a.write(0, 4, 4);
  in_own.write(8, 8, 5);
  EXPECT_TRUE(holds(*a, in_a));
  EXPECT_TRUE(holds(*b, in_b));
  EXPECT_TRUE(holds(*own_, in_own));
}

TEST_F(StateSetTest, OfAnotherMethodIsRefused) {
  load({});
  const auto others = *own_->create();
  load({});
  const StateGuard guard(others);
  EXPECT_EQ(write(0, 1, 2), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("is not of this method"));
}

TEST_F(StateSetTest, TwoMethodsShareTheirsAcrossStreamsAndModes) {
  const auto state = *MethodState::create(device_);
  load({true, false, false}, 8, state);
  const auto before = *own_->create();
  auto prefill = std::move(delegate_);
  load({false, false, false}, 8, state);
  const auto after = *own_->create();
  FakeTensor x(*device_, 4, true), y(*device_, 4, true);
  FakePosition pos(*device_, true);
  for (const auto& set : {own_, after}) {
    const StateGuard guard(set);
    Expected expected;
    for (int round = 0; round < 10; ++round) {
      const Stream stream = device_->new_callers_stream();
      x.fill(static_cast<float>(round));
      pos.set(round);
      const StreamGuard on(stream);
      TensorRTDelegate& delegate = round % 3 == 0 ? *delegate_ : *prefill;
      ASSERT_EQ(execute(delegate, x, pos, y), Error::Ok) << last_error_message();
      expected.write(round, 4, static_cast<float>(round));
      // Read without finishing the stream in between, which orders the next on another.
      if (round % 2 == 1) {
        ASSERT_TRUE(holds(*set, expected)) << round;
      }
      device_->finish();
    }
    EXPECT_TRUE(holds(*set, expected));
  }
  const StateGuard guard(before);
  EXPECT_EQ(write(0, 1, 2), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("created before this method was loaded"));
}

TEST_F(StateSetTest, TwoMethodsThatAreInFlightAtOnceOnOneSetAreOrdered) {
  const auto state = *MethodState::create(device_);
  load({true, false, false}, 0, state);
  auto prefill = std::move(delegate_);
  load({true, false, false}, 0, state);
  FakeTensor x(*device_, 4, true), z(*device_, 4, true), y(*device_, 4, true);
  FakePosition pos(*device_, true);
  x.fill(1);
  z.fill(2);
  const Stream first = device_->new_callers_stream(), second = device_->new_callers_stream();
  {
    const StreamGuard guard(first);
    ASSERT_EQ(execute(*prefill, x, pos, y), Error::Ok);
  }
  {
    const StreamGuard guard(second);
    ASSERT_EQ(execute(*delegate_, z, pos, y), Error::Ok);
  }
  ASSERT_EQ(device_->synchronize_stream(second), Error::Ok);
  EXPECT_EQ(device_->pending(first), 0u) << "the second did not wait for the first";
  Expected expected;
  expected.write(0, 4, 2);
  expected.count = 8;
  EXPECT_TRUE(holds(*own_, expected));
}

TEST_F(StateSetTest, GroupsRefuseWhatDiffersAndOtherDevices) {
  StateLayout layout(device_);
  std::vector<State> states = state_blob({}).states;
  ASSERT_TRUE(layout.add(states, false).ok());
  EXPECT_EQ(*layout.add(states, true), (std::vector<size_t>{0, 1}));
  states[0].initial = nullptr;
  EXPECT_EQ(layout.add(states, false).error(), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("state 'cache' can not be shared: its initial value"));
  states[0].shape = dims({4, 4});
  EXPECT_EQ(layout.add(states, false).error(), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("its shape is another"));
  EXPECT_EQ(layout.entries().size(), 2u);

  const MethodState::Key key{nullptr, "prefill", "one"};
  const auto held = *MethodState::join(key, device_, states);
  EXPECT_EQ(*MethodState::join({&layout, "decode", "one"}, device_, states), held);
  EXPECT_EQ(MethodState::join(key, host_device(), states).error(), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("on cuda:0 and cpu; load them on one device"));
}

TEST_F(StateSetTest, EachLoadOfAMethodHasItsOwnAndItsDelegatesShareIt) {
  const std::vector<State> states = state_blob({}).states;
  std::vector<State> others = states;
  for (State& state : others) state.name += "2";
  const MethodState::Key key{&states, "forward", ""};
  auto first = *MethodState::join(key, device_, states);
  ASSERT_TRUE(first->add(states, false).ok());
  EXPECT_EQ(*MethodState::join(key, device_, others), first);
  EXPECT_NE(*MethodState::join(key, device_, states), first) << "the same method, loaded again";
  const std::shared_ptr<StateSet> survivor = first->own;
  first.reset();
  const auto later = *MethodState::join(key, device_, states);
  EXPECT_NE(later->own, survivor) << "a set that outlives its method was taken for another's";
}

TEST_F(StateSetTest, ThreadsExecuteReadAndResetAtOnce) {
  load({});
  const auto other = *own_->create();
  std::atomic<bool> done{false};
  std::thread executes([&] {
    for (int i = 0; i < 200; ++i) {
      const StateGuard guard(i % 2 == 0 ? other : nullptr);
      ASSERT_EQ(write(i % kCacheRows, 1, 2), Error::Ok);
    }
    done = true;
  });
  while (!done) {
    float count = -1;
    ASSERT_EQ(read_count(*other, count), Error::Ok);
    ASSERT_EQ(own_->reset(), Error::Ok);
    (void)*own_->create();
  }
  executes.join();
  float count = 0;
  ASSERT_EQ(read_count(*other, count), Error::Ok);
  EXPECT_EQ(count, 100);
}

TEST_F(StateSetTest, InACaptureOfTheCallersStatesThatStayWhereTheyAreWork) {
  load({true, false, false, true});
  const Stream stream = device_->new_callers_stream();
  FakeTensor x(*device_, 1, true), y(*device_, 1, true);
  FakePosition pos(*device_, true);
  x.fill(2);
  pos.set(1);
  ASSERT_EQ(execute(*delegate_, x, pos, y), Error::Ok);
  ASSERT_EQ(device_->begin_capture(stream), Error::Ok);
  {
    const StreamGuard guard(stream);
    ASSERT_EQ(execute(*delegate_, x, pos, y), Error::Ok) << last_error_message();
  }
  const auto graph = device_->end_capture(stream);
  ASSERT_TRUE(graph.ok());
  Expected expected;
  expected.write(1, 1, 2);
  EXPECT_TRUE(holds(*own_, expected)) << "a capture executes nothing";
  for (int64_t at = 5; at < 8; ++at) {
    x.fill(3);
    pos.set(at);
    ASSERT_EQ(device_->launch_graph(*graph, stream), Error::Ok);
    device_->finish();
    expected.write(at, 1, 3);
    EXPECT_TRUE(holds(*own_, expected));
  }
  device_->destroy_graph(*graph);
}

TEST_F(StateSetTest, InACaptureOfTheCallersTheOthersAreRefusedAndAsBefore) {
  const Stream stream = device_->new_callers_stream();
  FakeTensor x(*device_, 1, true), y(*device_, 1, true);
  FakePosition pos(*device_, true);
  const std::pair<StateKind, const char*> kinds[] = {
      {{true, false, false, false}, "state 'count' lies in other memory after each call"},
      {{true, true, false, true}, "only once it was executed"},
      {{true, false, true, true}, "input 'pos' says where state is written"}};
  for (const auto& [kind, why] : kinds) {
    load(kind);
    x.fill(2);
    ASSERT_EQ(execute(*delegate_, x, pos, y), Error::Ok) << last_error_message();
    Expected expected;
    expected.write(0, 1, 2);
    ASSERT_EQ(device_->begin_capture(stream), Error::Ok);
    {
      const StreamGuard guard(stream);
      EXPECT_EQ(execute(*delegate_, x, pos, y), Error::InvalidArgument);
      EXPECT_TRUE(last_error_has(why));
      EXPECT_EQ(own_->reset(), Error::InvalidArgument);
      EXPECT_TRUE(last_error_has("while the caller's stream is captured"));
    }
    const auto graph = device_->end_capture(stream);
    ASSERT_TRUE(graph.ok());
    device_->destroy_graph(*graph);
    EXPECT_TRUE(holds(*own_, expected));
  }
}

TEST_F(StateSetTest, AGuardThatFailsLosesWhatWasWrittenInPlace) {
  load({true, true, false});
  EXPECT_EQ(write(kCacheRows, 1, 2), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("write out of bounds"));
  EXPECT_EQ(write(0, 1, 2), Error::InvalidState);
  EXPECT_TRUE(last_error_has("state 'cache' is lost"));
  ASSERT_EQ(own_->reset(), Error::Ok);
  EXPECT_EQ(write(0, 1, 2), Error::Ok);
}

TEST_F(StateSetTest, PositionsOnTheDeviceAreCheckedBeforeAnythingIsTouched) {
  load({});
  FakeTensor x(*device_, 2, true), y(*device_, 2, true);
  FakePosition pos(*device_, true);
  const Stream stream = device_->new_callers_stream();
  const StreamGuard guard(stream);
  pos.set(kCacheRows - 1);
  const auto before = statistics().host_synchronizations;
  EXPECT_EQ(execute(*delegate_, x, pos, y), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("input 'pos', where state 'cache' is written, is 15 for 2 rows"));
  EXPECT_TRUE(holds(*own_, Expected()));
  EXPECT_EQ(statistics().host_synchronizations, before + 1);
  x.fill(4);
  pos.set(kCacheRows - 2);
  ASSERT_EQ(execute(*delegate_, x, pos, y), Error::Ok);
  EXPECT_GT(device_->pending(stream), 0u) << "the call itself does not wait";
  Expected expected;
  expected.write(kCacheRows - 2, 2, 4);
  EXPECT_TRUE(holds(*own_, expected));
  EXPECT_EQ(statistics().bytes_staged, 0u);
}

}  // namespace
}  // namespace executorch_tensorrt::test
