// What DelegateBlob::parse takes and refuses of states, guard and index checks (version 1.1).
#include <executorch_tensorrt/error.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "captured_log.h"
#include "delegate_blob.h"
#include "raw_blob.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::runtime::Error;

/// Inputs x [-1, 4] and pos int64 [-1], output y, a KV cache and a counter.
RawMetadata with_states() {
  RawMetadata metadata;
  metadata.minor = 1;
  metadata.num_arguments = 3;
  metadata.bindings = {{"x", 6, 0, 0, 0, {-1, 4}, 128},
                       {"pos", 4, 0, 0, 1, {-1}, 64},
                       {"y", 6, 1, 0, 2, {-1, 4}, 128}};
  metadata.profiles = {{"small", 0, {{{1, 4}, {1, 4}, {2, 4}}, {{1}, {1}, {8}}}},
                       {"large", 1, {{{2, 4}, {4, 4}, {8, 4}}, {{1}, {1}, {8}}}}};
  metadata.states = {{"cache", 5, {1, 2, 16, 4}, "cache_in", "cache_out", 1, ""},
                     {"count", 4, {}, "count_in", "count_out", 0, "\7\0\0\0\0\0\0"}};
  metadata.states[1].initial.resize(8);
  metadata.guard = "ok";
  metadata.index_checks = {{1, 0, 15, 0, 1, 0, "cache"}, {1, -3, 15, -1, 0, 1, "cache"}};
  return metadata;
}

Error parse(const Bytes& data) {
  const Bytes exact(data.begin(), data.end());  // fills its allocation, for sanitizers
  clear_last_error();
  return DelegateBlob::parse(exact.data(), exact.size()).error();
}

Error parse(const RawMetadata& metadata) { return parse(seal(metadata.bytes(), metadata.minor)); }

TEST(DelegateBlobState, ParsesWhatTheFieldsSay) {
  const Bytes data = seal(with_states().bytes(), 1);
  const auto blob = DelegateBlob::parse(data.data(), data.size());
  ASSERT_TRUE(blob.ok()) << last_error_message();
  ASSERT_EQ(blob->states.size(), 2u);
  const State& cache = blob->states[0];
  EXPECT_EQ(cache.name, "cache");
  EXPECT_EQ(to_string(cache.shape), "1x2x16x4");
  EXPECT_EQ(cache.bytes(), 256u);
  EXPECT_EQ(cache.input + " " + cache.output, "cache_in cache_out");
  EXPECT_EQ(cache.mode, StateMode::kAlias);
  EXPECT_EQ(cache.initial, nullptr);
  EXPECT_EQ(blob->states[1].mode, StateMode::kPingPong);
  EXPECT_EQ(*blob->states[1].initial, (Bytes{7, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(blob->guard, "ok");
  ASSERT_EQ(blob->index_checks.size(), 2u);
  EXPECT_EQ(blob->index_checks[0].extent_binding, 0);
  EXPECT_EQ(blob->index_checks[0].extent_dim, 1u);
  EXPECT_EQ(blob->index_checks[1].least, -3);
  EXPECT_EQ(blob->index_checks[1].extent_binding, -1);
  EXPECT_TRUE(blob->index_checks[1].contiguous);
}

TEST(DelegateBlobState, CountsTheEnginesTensorsOnBehindTheBindings) {
  const Bytes data = seal(with_states().bytes(), 1);
  const auto blob = DelegateBlob::parse(data.data(), data.size());
  ASSERT_TRUE(blob.ok());
  std::string names;
  for (const Binding& tensor : blob->tensors()) names += tensor.name + " ";
  EXPECT_EQ(names, "x pos y cache_in count_in cache_out count_out ok ");
  EXPECT_EQ(blob->num_tensors(), 8u);
  EXPECT_EQ(blob->tensors()[blob->state_input(1)].name, "count_in");
  EXPECT_EQ(blob->tensors()[blob->state_output(0)].name, "cache_out");
  EXPECT_EQ(blob->tensors()[blob->guard_output()].max_bytes, 1u);
}

TEST(DelegateBlobState, TakesAVersionWithoutStatesAndOneThatHasNone) {
  RawMetadata metadata;
  EXPECT_EQ(parse(metadata), Error::Ok);
  metadata.minor = 1;
  EXPECT_EQ(parse(metadata), Error::Ok) << last_error_message();
  metadata.trailing = "x";
  const CapturedLog log;
  EXPECT_EQ(parse(metadata), Error::DelegateInvalidCompatibility);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "metadata has 1 bytes after", last_error_message());
}

TEST(DelegateBlobState, TakesAnEmptyState) {
  RawMetadata metadata = with_states();
  metadata.states[0].shape = {0, INT64_MAX, INT64_MAX};
  EXPECT_EQ(parse(metadata), Error::Ok) << last_error_message();
}

TEST(DelegateBlobState, RefusesEveryContradiction) {
  struct Wrong {
    std::function<void(RawMetadata&)> damage;
    const char* message;
  };
  const Wrong cases[] = {
      {[](auto& m) { m.minor = 0; }, "state count is 2; version 1.0 has none"},
      {[](auto& m) { m.state_count = 3; }, "state 2"},
      {[](auto& m) { m.state_count = UINT32_MAX; }, "state count is 4294967295"},
      {[](auto& m) { m.states[1].name = "cache"; }, "state 1 name 'cache' is there twice"},
      {[](auto& m) { m.states[0].name = ""; }, "state 0 name has 0 bytes"},
      {[](auto& m) { m.states[0].name = std::string(257, 'n'); }, "state 0 name has 257 bytes"},
      {[](auto& m) { m.states[0].dtype = 2; }, "state 0 'cache' dtype 2 is not known"},
      {[](auto& m) { m.states[0].shape[1] = -1; }, "state 0 'cache' dim 1 is -1"},
      {[](auto& m) { m.states[0].shape.assign(9, 1); }, "rank 9 is over 8"},
      {[](auto& m) { m.states[0].shape = {INT64_MAX, 4}; }, "bytes do not fit in 64 bits"},
      {[](auto& m) { m.states[0].input = ""; }, "state 0 'cache' input has 0 bytes"},
      {[](auto& m) { m.states[0].output = std::string(257, 'o'); },
       "state 0 'cache' output has 257 bytes"},
      {[](auto& m) { m.states[0].input = "x"; }, "input 'x' is there twice"},
      {[](auto& m) { m.states[1].output = "cache_in"; }, "output 'cache_in' is there twice"},
      {[](auto& m) { m.states[0].output = "cache_in"; }, "output 'cache_in' is there twice"},
      {[](auto& m) { m.states[0].mode = 2; }, "state 0 'cache' mode is 2"},
      {[](auto& m) { m.states[1].initial = "four"; },
       "initial value has 4 bytes, its shape takes 8"},
      {[](auto& m) { m.initial_size = UINT64_MAX; }, "initial value needs 18446744073709551615"},
      {[](auto& m) { m.guard = "y"; }, "guard 'y' is there twice"},
      {[](auto& m) { m.guard = "count_out"; }, "guard 'count_out' is there twice"},
      {[](auto& m) { m.guard = std::string(257, 'g'); }, "guard has 257 bytes"},
      {[](auto& m) {
         m.states.clear();
         m.index_checks.clear();
       },
       "guard 'ok' is there without states"},
      {[](auto& m) { m.check_count = 3; }, "index check count is 3"},
      {[](auto& m) { m.index_checks[0].binding = 2; }, "binding 2 is none of the 2 inputs"},
      {[](auto& m) { m.index_checks[0].binding = UINT32_MAX; }, "is none of the 2 inputs"},
      {[](auto& m) { m.index_checks[0].binding = 0; }, "binding 'x' is neither int32 nor int64"},
      {[](auto& m) { m.index_checks[0].least = 16; }, "has least 16 over greatest 15"},
      {[](auto& m) { m.index_checks[0].extent_binding = 2; },
       "extent binding 2 is none of the 2 inputs"},
      {[](auto& m) { m.index_checks[0].extent_binding = -2; }, "extent binding -2 is none"},
      {[](auto& m) { m.index_checks[0].extent_dim = 2; },
       "extent dim 2 is not below the rank of 'x', 2"},
      {[](auto& m) { m.index_checks[1].extent_dim = 1; }, "is 1 without an extent binding"},
      {[](auto& m) { m.index_checks[0].contiguous = 2; }, "index check 0 contiguous is 2"},
      {[](auto& m) { m.index_checks[0].state = "cash"; }, "index check 0 state 'cash' is none"},
  };
  ASSERT_EQ(parse(with_states()), Error::Ok) << last_error_message();
  for (const Wrong& wrong : cases) {
    SCOPED_TRACE(wrong.message);
    const CapturedLog log;
    RawMetadata metadata = with_states();
    wrong.damage(metadata);
    EXPECT_EQ(parse(metadata), Error::DelegateInvalidCompatibility);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, wrong.message, last_error_message());
  }
}

TEST(DelegateBlobState, RefusesMetadataCutOffAnywhereWithARightCrc) {
  const CapturedLog log;
  const Bytes whole = with_states().bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_EQ(parse(seal(cut, 1)), Error::DelegateInvalidCompatibility) << size;
  }
}

TEST(DelegateBlobState, TakesOrRefusesDamagedMetadataWithARightCrc) {
  const CapturedLog log;
  const Bytes whole = with_states().bytes();
  const uint8_t values[] = {0, 1, 2, 8, 9, 0x7F, 0x80, 0xFF};
  std::mt19937 random(1);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes damaged = whole;
    for (size_t changes = 1 + random() % 8; changes > 0; --changes) {
      damaged[random() % damaged.size()] = values[random() % std::size(values)];
    }
    const Error error = parse(seal(damaged, 1));
    ASSERT_TRUE(error == Error::Ok || error == Error::DelegateInvalidCompatibility);
    if (error != Error::Ok) ++refused;
    CapturedLog::text().clear();
  }
  EXPECT_GT(refused, 10000u);
}

}  // namespace
}  // namespace executorch_tensorrt::test
