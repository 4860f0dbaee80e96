// What the model of delegates with state knows: sets, the methods that they belong to, and the
// tensors of a call.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "state_fixture.h"

namespace executorch_tensorrt::test {

/// One fact more than true and false: a load that failed may have come as far as that, or not.
enum class Maybe { kNo, kPerhaps, kYes };

/// The methods that share their states.
struct ModelFamily {
  std::weak_ptr<MethodState> state;
  // Whether sets that are made from now on can take the cache's and the count's new value in other
  // memory.
  std::array<Maybe, 2> is_double = {Maybe::kNo, Maybe::kNo};

  void try_load(const StateKind& kind, bool went_well) {
    const bool needs[] = {!kind.alias, !kind.alias_count};
    for (size_t i = 0; i < 2; ++i) {
      if (needs[i])
        is_double[i] = std::max(is_double[i], went_well ? Maybe::kYes : Maybe::kPerhaps);
    }
  }
};

struct ModelSet {
  ModelSet(std::shared_ptr<StateSet> set, std::shared_ptr<ModelFamily> family, bool is_own)
      : set(std::move(set)), family(std::move(family)), is_own(is_own) {}

  std::shared_ptr<StateSet> set;
  std::shared_ptr<ModelFamily> family;
  bool is_own;  // of the methods
  Expected values;
  std::array<bool, 2> lost = {false, false}, perhaps_lost = {false, false};
  std::array<Maybe, 2> is_double = {Maybe::kNo, Maybe::kNo};

  void take_up_layout() { is_double = family->is_double; }
  /// Perhaps, too.
  bool has_room_for(const StateKind& kind) const {
    return (kind.alias || is_double[0] != Maybe::kNo) &&
           (kind.alias_count || is_double[1] != Maybe::kNo);
  }
  bool may_lack_room(const StateKind& kind) const {
    return (!kind.alias && is_double[0] != Maybe::kYes) ||
           (!kind.alias_count && is_double[1] != Maybe::kYes);
  }
  void may_have_lost(std::array<bool, 2> which) { perhaps_lost = which; }

  /// Reads both, and says how many were lost since.
  int probe() {
    int newly_lost = 0;
    std::array<float, kCacheRows * 4> cache{};
    float count = 0;
    const Error errors[] = {set->read("cache", cache.data(), sizeof(cache)),
                            set->read("count", &count, sizeof(count))};
    for (size_t i = 0; i < 2; ++i) {
      if (errors[i] == Error::InvalidState) {
        EXPECT_TRUE(lost[i] || perhaps_lost[i]) << "state " << i << " is lost without a cause";
        newly_lost += !lost[i];
        lost[i] = true;
      } else {
        EXPECT_EQ(errors[i], Error::Ok) << last_error_message();
        EXPECT_FALSE(lost[i]) << "state " << i << " was lost, and is there again";
      }
    }
    EXPECT_TRUE(lost[0] || cache == values.cache) << "the cache is wrong";
    EXPECT_TRUE(lost[1] || count == values.count) << count << " is not " << values.count;
    perhaps_lost = {};
    return newly_lost;
  }
};

/// On the device, in pageable memory, or on the device where the engine cannot take them.
struct CallTensors {
  CallTensors(FakeDevice& device, int kind)
      : kind(kind),
        x(device, 1, memory(kind)),
        y(device, 1, memory(kind)),
        pos(device, kind == 0) {}

  static Memory memory(int kind) {
    constexpr Memory kMemories[] = {Memory::kDevice, Memory::kPageable, Memory::kUnalignedDevice};
    return kMemories[kind];
  }
  void fill(int rows, float value, int64_t at) {
    x.set_rows(rows);
    x.fill(value);
    pos.set(at);
  }
  void expect_answer() const { EXPECT_TRUE(y.holds(expected)) << "an answer is not " << expected; }

  const int kind;
  FakeTensor x, y;
  FakePosition pos;
  float expected = 0;
  bool in_use = false;
};

}  // namespace executorch_tensorrt::test
