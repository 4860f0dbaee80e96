// TensorRTDelegate with state, over the fake device and engine.
#include <thread>

#include "allocation_counter.h"
#include "captured_log.h"
#include "last_error_has.h"
#include "state_fixture.h"

namespace executorch_tensorrt::test {
namespace {

class DelegateStateTest : public StateFixture, public ::testing::TestWithParam<StateKind> {
 protected:
  CapturedLog log_;
};

TEST_P(DelegateStateTest, StartsFromTheInitialValuesWhateverTheWarmUpDid) {
  load(GetParam());
  EXPECT_TRUE(holds(*own_, Expected()));
}

TEST_P(DelegateStateTest, EveryCallSeesWhatTheOnesBeforeWroteOnEachProfileAndWithGraphs) {
  for (const int graphs : {0, 8}) {
    load(GetParam(), graphs);
    Expected expected;
    for (int round = 0; round < 12; ++round) {
      const int rows = round % 3 == 0 ? 4 : 1;
      const int64_t pos = (round * 5) % (kCacheRows - 4);
      const auto value = static_cast<float>(100 + round);
      ASSERT_EQ(write(pos, rows, value, &expected), Error::Ok) << last_error_message();
      expected.write(pos, rows, value);
      ASSERT_TRUE(holds(*own_, expected)) << "round " << round;
    }
    EXPECT_EQ(statistics().graph_replays > 0, graphs > 0);
  }
}

TEST_P(DelegateStateTest, TheLastRowIsWritten) {
  load(GetParam());
  Expected expected;
  ASSERT_EQ(write(kCacheRows - 1, 1, 7), Error::Ok);
  expected.write(kCacheRows - 1, 1, 7);
  ASSERT_EQ(write(kCacheRows - 4, 4, 8), Error::Ok);
  expected.write(kCacheRows - 4, 4, 8);
  EXPECT_TRUE(holds(*own_, expected));
}

TEST_P(DelegateStateTest, APositionPastTheEndIsRefusedAndTheStateIsAsBefore) {
  load(GetParam(), 8);
  Expected expected;
  ASSERT_EQ(write(0, 4, 3), Error::Ok);
  expected.write(0, 4, 3);
  const std::pair<int64_t, int> wrong[] = {{kCacheRows, 1}, {kCacheRows - 3, 4}, {-1, 1}};
  for (const auto& [pos, rows] : wrong) {
    EXPECT_EQ(write(pos, rows, 9), Error::InvalidArgument);
    EXPECT_TRUE(last_error_has(GetParam().checked ? "input 'pos', where state 'cache' is written"
                                                  : "write out of bounds"));
    EXPECT_TRUE(holds(*own_, expected));
  }
  ASSERT_EQ(write(4, 1, 5, &expected), Error::Ok);
  expected.write(4, 1, 5);
  EXPECT_TRUE(holds(*own_, expected));
}

TEST_P(DelegateStateTest, SessionsThatTakeTurnsAreIndependentAndEachHasItsGraphs) {
  load(GetParam(), 16);
  std::vector<std::shared_ptr<StateSet>> sets = {own_, *own_->create(), *own_->create()};
  std::vector<Expected> expected(3);
  for (int round = 0; round < 30; ++round) {
    const size_t s = static_cast<size_t>(round * 7 % 3);
    const auto value = static_cast<float>(round);
    const StateGuard guard(sets[s]);
    ASSERT_EQ(write(round % kCacheRows, 1, value, &expected[s]), Error::Ok);
    expected[s].write(round % kCacheRows, 1, value);
  }
  for (size_t s = 0; s < 3; ++s) EXPECT_TRUE(holds(*sets[s], expected[s])) << "set " << s;
  EXPECT_GE(statistics().graph_captures, 3u);
  EXPECT_GT(statistics().graph_replays, 10u);
}

TEST_P(DelegateStateTest, ResetGivesTheInitialValuesAgain) {
  load(GetParam());
  ASSERT_EQ(write(2, 4, 9), Error::Ok);
  ASSERT_EQ(own_->reset(), Error::Ok);
  EXPECT_TRUE(holds(*own_, Expected()));
  Expected expected;
  ASSERT_EQ(write(2, 1, 5, &expected), Error::Ok);
  expected.write(2, 1, 5);
  EXPECT_TRUE(holds(*own_, expected));
}

TEST_P(DelegateStateTest, CopiesNoStateBetweenHostAndDevice) {
  load(GetParam(), 8);
  for (int i = 0; i < 6; ++i) ASSERT_EQ(write(i, 1, 2), Error::Ok);
  EXPECT_EQ(statistics().bytes_staged, 6u * (16 + 8 + 16));  // x, pos and y alone
}

TEST_P(DelegateStateTest, ASteadyCallAllocatesNothing) {
  // On the host, as the fake device notes all work down.
  load(GetParam(), 0, nullptr, host_device());
  const auto other = *own_->create();
  FakeTensor x(*device_, 1, false), y(*device_, 1, false);
  FakePosition pos(*device_, false);
  pos.set(3);
  for (const auto& set : {own_, other}) {
    const StateGuard guard(set);
    ASSERT_EQ(execute(*delegate_, x, pos, y), Error::Ok) << last_error_message();
    const AllocationCounter allocations;
    for (int i = 0; i < 4; ++i) (void)execute(*delegate_, x, pos, y);
    EXPECT_EQ(allocations.count(), 0u);
  }
  EXPECT_EQ(statistics().failures, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DelegateStateTest,
                         ::testing::Values(StateKind{true, false, true},
                                           StateKind{false, false, true},
                                           StateKind{false, true, false}),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace executorch_tensorrt::test
