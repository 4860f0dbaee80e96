// A delegate with state over the fake device and engine, and what its state must be.
#pragma once

#include <executorch_tensorrt/state.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "delegate_fixture.h"
#include "fake_state_engine.h"

namespace executorch_tensorrt::test {

struct StateKind {
  bool alias = true;     // the cache's mode
  bool guarded = false;  // the engine says whether it wrote in bounds
  bool checked = true;   // the positions are checked before
  bool alias_count = false;

  std::string name() const {
    return std::string(alias ? "Alias" : "PingPong") + (guarded ? "Guarded" : "") +
           (checked ? "Checked" : "");
  }
};

/// x [1 or 2..16, 4], pos int64 [1] -> y, with the cache at 1 and the count at 0 at first.
inline DelegateBlob state_blob(const StateKind& kind) {
  DelegateBlob blob;
  blob.num_arguments = 3;
  blob.num_inputs = 2;
  blob.bindings = {{"x", ScalarType::Float, true, false, 0, dims({-1, 4}), 256},
                   {"pos", ScalarType::Long, true, false, 1, dims({1}), 8},
                   {"y", ScalarType::Float, false, false, 2, dims({-1, 4}), 256}};
  const ShapeRange one{dims({1}), dims({1}), dims({1})};
  blob.profiles = {{"decode", 0, {{dims({1, 4}), dims({1, 4}), dims({1, 4})}, one}},
                   {"prefill", 1, {{dims({2, 4}), dims({8, 4}), dims({16, 4})}, one}}};
  std::vector<uint8_t> ones(kCacheRows * 16);
  for (size_t i = 0; i < ones.size(); i += 4) {
    const float value = 1;
    std::memcpy(&ones[i], &value, 4);
  }
  blob.states = {{"cache", ScalarType::Float, dims({kCacheRows, 4}), "cache_in", "cache_out",
                  kind.alias ? StateMode::kAlias : StateMode::kPingPong,
                  std::make_shared<const std::vector<uint8_t>>(std::move(ones))},
                 {"count", ScalarType::Float, dims({1}), "count_in", "count_out",
                  kind.alias_count ? StateMode::kAlias : StateMode::kPingPong, nullptr}};
  if (kind.guarded) blob.guard = "ok";
  if (kind.checked) blob.index_checks = {{1, 0, kCacheRows - 1, 0, 0, true, "cache"}};
  return blob;
}

/// int64 [1], on the host or the device.
class FakePosition {
 public:
  FakePosition(FakeDevice& device, bool on_device)
      : device_(device),
        block_(on_device ? *device.allocate(8) : nullptr),
        tensor_(executorch::extension::from_blob(data(), {1}, ScalarType::Long)),
        value_(*tensor_) {
    set(0);
  }
  ~FakePosition() {
    if (block_ != nullptr) device_.free(block_);
  }
  FakePosition(const FakePosition&) = delete;
  FakePosition& operator=(const FakePosition&) = delete;

  void set(int64_t position) { *data() = position; }
  EValue& value() { return value_; }

 private:
  int64_t* data() { return block_ == nullptr ? &host_ : static_cast<int64_t*>(block_); }

  FakeDevice& device_;
  void* block_;
  int64_t host_ = 0;
  TensorPtr tensor_;
  EValue value_;
};

/// What a set's values must be.
struct Expected {
  std::array<float, kCacheRows * 4> cache;
  float count = 0;

  Expected() { cache.fill(1); }
  void write(int64_t pos, int rows, float value) {
    std::fill_n(cache.begin() + pos * 4, rows * 4, value);
    count += static_cast<float>(rows);
  }
  /// As an engine that nobody checks writes: rows beyond the cache are dropped.
  void write_within(int64_t pos, int rows, float value) {
    const int64_t begin = std::max<int64_t>(0, pos);
    const int64_t end = std::min<int64_t>(kCacheRows, pos + rows);
    if (begin < end) std::fill_n(cache.begin() + begin * 4, (end - begin) * 4, value);
    count += static_cast<float>(rows);
  }
};

/// `graphs`: the most a profile; 0: without. Without a FakeDevice it computes on the host.
inline Result<std::unique_ptr<TensorRTDelegate>> make_state_delegate(
    const std::shared_ptr<Device>& device, const StateKind& kind, int graphs,
    std::shared_ptr<MethodState> state) {
  DelegateParts parts;
  parts.blob = state_blob(kind);
  parts.options.cuda_graphs = graphs > 0;
  parts.options.max_cuda_graphs = std::max(1, graphs);
  parts.device = device;
  parts.engine = std::make_shared<FakeStateEngine>(std::dynamic_pointer_cast<FakeDevice>(device),
                                                   kind.alias, kind.guarded, kind.alias_count);
  parts.active = std::make_shared<ActiveProfile>();
  parts.record = std::make_shared<DelegateRecord>(parts.blob, "forward", device->name(), "fake",
                                                  /*whole_method=*/true, state->own);
  parts.state = std::move(state);
  return TensorRTDelegate::create(std::move(parts));
}

class StateFixture {
 public:
  /// `graphs`: the most a profile; 0: without.
  void load(const StateKind& kind, int graphs = 0, std::shared_ptr<MethodState> state = nullptr,
            std::shared_ptr<Device> device = nullptr) {
    auto made = make(kind, graphs, std::move(state), std::move(device));
    ASSERT_EQ(made.error(), Error::Ok) << last_error_message();
    delegate_ = std::move(*made);
  }

  Result<std::unique_ptr<TensorRTDelegate>> make(const StateKind& kind, int graphs,
                                                 std::shared_ptr<MethodState> state = nullptr,
                                                 std::shared_ptr<Device> device = nullptr) {
    if (device == nullptr) device = device_;
    if (state == nullptr) {
      auto created = MethodState::create(device);
      if (!created.ok()) return created.error();
      state = *created;
    }
    own_ = state->own;
    return make_state_delegate(device, kind, graphs, std::move(state));
  }

  static Error execute(TensorRTDelegate& delegate, FakeTensor& x, FakePosition& pos,
                       FakeTensor& y) {
    EValue* args[] = {&x.value(), &pos.value(), &y.value()};
    return delegate.execute({args, 3});
  }

  /// Writes `rows` rows of `value` at `pos` in host memory, and checks the answer.
  Error write(int64_t pos, int rows, float value, const Expected* before = nullptr) {
    FakeTensor x(*device_, rows, false), y(*device_, rows, false);
    FakePosition at(*device_, false);
    x.fill(value);
    at.set(pos);
    const Error error = execute(*delegate_, x, at, y);
    if (error == Error::Ok && before != nullptr) {
      EXPECT_TRUE(y.holds(value + before->count));
    }
    return error;
  }

  static ::testing::AssertionResult holds(StateSet& set, const Expected& expected) {
    std::array<float, kCacheRows * 4> cache{};
    float count = -1;
    if (set.read("cache", cache.data(), sizeof(cache)) != Error::Ok ||
        set.read("count", &count, sizeof(count)) != Error::Ok) {
      return ::testing::AssertionFailure() << last_error_message();
    }
    if (cache == expected.cache && count == expected.count) return ::testing::AssertionSuccess();
    const auto differs = std::mismatch(cache.begin(), cache.end(), expected.cache.begin());
    return ::testing::AssertionFailure()
           << "count is " << count << ", not " << expected.count << "; cache differs from row "
           << (differs.first - cache.begin()) / 4 << " on";
  }

  DelegateStatistics statistics() const { return delegate_->record()->statistics(); }

 protected:
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::shared_ptr<StateSet> own_;
  std::unique_ptr<TensorRTDelegate> delegate_;
};

}  // namespace executorch_tensorrt::test
