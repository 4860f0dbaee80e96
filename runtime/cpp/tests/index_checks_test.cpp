#include "index_checks.h"

#include <executorch_tensorrt/error.h>
#include <gtest/gtest.h>

#include <vector>

#include "captured_log.h"
#include "delegate_fixture.h"
#include "last_error_has.h"

namespace executorch_tensorrt::test {
namespace {

class IndexChecksTest : public ::testing::Test {
 protected:
  /// x [rows, 4], and positions of this dtype.
  template <typename Integer>
  Error check(const std::vector<Integer>& values, int64_t rows = 1) {
    DelegateBlob blob;
    blob.num_inputs = 2;
    blob.bindings = {{"x", ScalarType::Float, true, false, 0, dims({-1, 4}), 256},
                     {"pos", sizeof(Integer) == 4 ? ScalarType::Int : ScalarType::Long, true, false,
                      1, dims({-1}), 256}};
    const Dims shapes[] = {dims({rows, 4}), dims({static_cast<int64_t>(values.size())})};
    return check_index_values(blob, check_, {shapes, 2}, values.data());
  }

  IndexCheck check_{1, 0, 9, -1, 0, false, "cache"};
  CapturedLog log_;
};

TEST_F(IndexChecksTest, EveryValueMustLieInTheRange) {
  EXPECT_EQ(check<int64_t>({0, 9, 3, 3}), Error::Ok);
  EXPECT_EQ(check<int32_t>({9, 0}), Error::Ok);
  EXPECT_EQ(check<int64_t>({}), Error::Ok);
  for (const int wrong : {10, -1, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(check<int64_t>({0, wrong}), Error::InvalidArgument);
    EXPECT_EQ(check<int32_t>({wrong}), Error::InvalidArgument);
    EXPECT_TRUE(last_error_has("input 'pos', where state 'cache' is written, is " +
                               std::to_string(wrong) + "; they must lie in 0..9"));
  }
  EXPECT_EQ(check<int64_t>({INT64_MAX}), Error::InvalidArgument);
  EXPECT_EQ(check<int64_t>({INT64_MIN}), Error::InvalidArgument);
  check_.least = -3;
  EXPECT_EQ(check<int64_t>({-3}), Error::Ok);
  EXPECT_EQ(check<int64_t>({-4}), Error::InvalidArgument);
}

TEST_F(IndexChecksTest, AStartMustLeaveRoomForTheRowsOfTheCall) {
  check_.extent_binding = 0;
  EXPECT_EQ(check<int64_t>({0}, 10), Error::Ok);
  EXPECT_EQ(check<int64_t>({9}, 1), Error::Ok);
  EXPECT_EQ(check<int64_t>({10}, 0), Error::Ok) << "nothing is written";
  EXPECT_EQ(check<int64_t>({1}, 10), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("is 1 for 10 rows; they must lie in 0..9"));
  EXPECT_EQ(check<int64_t>({0}, 11), Error::InvalidArgument);
  EXPECT_EQ(check<int64_t>({0}, INT64_MAX), Error::InvalidArgument);
  EXPECT_EQ(check<int64_t>({INT64_MAX}, 2), Error::InvalidArgument);
}

TEST_F(IndexChecksTest, ContiguousPositionsAscendByOne) {
  check_.contiguous = true;
  EXPECT_EQ(check<int64_t>({3}), Error::Ok);
  EXPECT_EQ(check<int64_t>({3, 4, 5}), Error::Ok);
  EXPECT_EQ(check<int64_t>({3, 5}), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("has 5 after 3; positions must ascend by 1"));
  EXPECT_EQ(check<int32_t>({4, 3}), Error::InvalidArgument);
  EXPECT_EQ(check<int32_t>({4, 4}), Error::InvalidArgument);
  check_.least = INT64_MIN;
  check_.greatest = INT64_MAX;
  EXPECT_EQ(check<int64_t>({INT64_MAX, INT64_MIN}), Error::InvalidArgument);
}

}  // namespace
}  // namespace executorch_tensorrt::test
