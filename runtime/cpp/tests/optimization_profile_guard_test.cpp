#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/optimization_profile_guard.h>
#include <executorch_tensorrt/stream_guard.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include "captured_log.h"
#include "thread_state.h"

namespace executorch_tensorrt::test {
namespace {

std::string pinned_name() {
  const ProfileRequest* pin = pinned_profile();
  if (pin == nullptr) return "none";
  if (std::holds_alternative<Automatic>(*pin)) return "automatic";
  if (const auto* index = std::get_if<int64_t>(pin)) return std::to_string(*index);
  return std::get<std::string>(*pin);
}

TEST(OptimizationProfileGuard, NestsAndRestoresWhatItFound) {
  EXPECT_EQ(pinned_name(), "none");
  {
    const OptimizationProfileGuard outer("decode");
    EXPECT_EQ(pinned_name(), "decode");
    {
      const OptimizationProfileGuard inner(1);
      EXPECT_EQ(pinned_name(), "1");
      const auto automatic = OptimizationProfileGuard::automatic();
      EXPECT_EQ(pinned_name(), "automatic");
    }
    EXPECT_EQ(pinned_name(), "decode");
  }
  EXPECT_EQ(pinned_name(), "none");
}

TEST(OptimizationProfileGuard, IsNotSeenByOtherThreads) {
  const OptimizationProfileGuard pin("decode");
  std::string seen;
  std::thread([&] {
    const OptimizationProfileGuard other("prefill");
    seen = pinned_name();
  }).join();
  EXPECT_EQ(seen, "prefill");
  EXPECT_EQ(pinned_name(), "decode");
}

TEST(OptimizationProfileGuard, CopiesItsName) {
  auto name = std::make_unique<std::string>("decode");
  const OptimizationProfileGuard pin(*name);
  name.reset();
  EXPECT_EQ(pinned_name(), "decode");
}

TEST(OptimizationProfileGuard, ThatEndsOutOfOrderLeavesTheOthers) {
  auto first = std::make_unique<OptimizationProfileGuard>("first");
  auto second = std::make_unique<OptimizationProfileGuard>("second");
  first.reset();
  EXPECT_EQ(pinned_name(), "second");
  second.reset();
  EXPECT_EQ(pinned_name(), "none");
}

TEST(OptimizationProfileGuard, DestroyedOnAnotherThreadStaysWhereItWasMadeAndSaysSo) {
  const CapturedLog log;
  bool reported = false;
  std::thread maker([&] {
    auto pin = std::make_unique<OptimizationProfileGuard>("decode");
    std::thread([&] {
      pin.reset();
      reported = std::string(last_error_message()).find("another thread") != std::string::npos;
    }).join();
    EXPECT_EQ(pinned_name(), "decode");
  });
  maker.join();
  EXPECT_TRUE(reported);
}

TEST(OptimizationProfileGuard, TakesEveryIntegerButNoTruthValueAndNoNullPointer) {
  static_assert(std::is_constructible_v<OptimizationProfileGuard, int>);
  static_assert(std::is_constructible_v<OptimizationProfileGuard, size_t>);
  static_assert(std::is_constructible_v<OptimizationProfileGuard, const char*>);
  static_assert(std::is_constructible_v<OptimizationProfileGuard, std::string>);
  static_assert(!std::is_constructible_v<OptimizationProfileGuard, bool>);
  static_assert(!std::is_constructible_v<OptimizationProfileGuard, std::nullptr_t>);
  static_assert(!std::is_copy_constructible_v<OptimizationProfileGuard>);
  const OptimizationProfileGuard negative(-1);  // refused by the delegate, which can say more
  EXPECT_EQ(pinned_name(), "-1");
}

TEST(StreamGuard, NestsAndRestoresWhatItFoundAlsoTheDefaultStream) {
  EXPECT_FALSE(StreamGuard::current().has_value());
  {
    const StreamGuard outer(nullptr);
    ASSERT_TRUE(StreamGuard::current().has_value());
    EXPECT_EQ(*StreamGuard::current(), nullptr);
    {
      const StreamGuard inner(reinterpret_cast<void*>(8));
      EXPECT_EQ(*StreamGuard::current(), reinterpret_cast<void*>(8));
    }
    EXPECT_EQ(*StreamGuard::current(), nullptr);
  }
  EXPECT_FALSE(StreamGuard::current().has_value());
}

TEST(StreamGuard, ThatEndsOnAnotherThreadOrOutOfOrderLeavesTheOthers) {
  const CapturedLog log;
  std::unique_ptr<StreamGuard> theirs;
  std::thread([&] { theirs = std::make_unique<StreamGuard>(reinterpret_cast<void*>(8)); }).join();
  auto first = std::make_unique<StreamGuard>(reinterpret_cast<void*>(16));
  auto second = std::make_unique<StreamGuard>(reinterpret_cast<void*>(24));
  theirs.reset();
  EXPECT_EQ(*StreamGuard::current(), reinterpret_cast<void*>(24));
  first.reset();
  EXPECT_EQ(*StreamGuard::current(), reinterpret_cast<void*>(24));
  second.reset();
  EXPECT_FALSE(StreamGuard::current().has_value());
}

}  // namespace
}  // namespace executorch_tensorrt::test
