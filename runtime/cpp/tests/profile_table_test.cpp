// Which profile ProfileTable::select chooses, and what it says when there is none to choose.
#include "profile_table.h"

#include <executorch_tensorrt/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "allocation_counter.h"
#include "captured_log.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::runtime::Error;
using executorch::runtime::Result;
using executorch::runtime::Span;

using Shape = std::vector<int64_t>;
using Shapes = std::vector<Shape>;
using Active = std::optional<size_t>;
constexpr auto kNone = std::nullopt;
constexpr auto kSticky = SelectionPolicy::kSticky;
constexpr auto kFirstFit = SelectionPolicy::kFirstFit;

Dims dims(const Shape& sizes) {
  Dims dims;
  dims.rank = static_cast<uint32_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), dims.size.begin());
  return dims;
}

std::vector<Dims> all_dims(const Shapes& shapes) {
  std::vector<Dims> all;
  for (const Shape& shape : shapes) all.push_back(dims(shape));
  return all;
}

ShapeRange range(const Shape& min, const Shape& max) { return {dims(min), dims(min), dims(max)}; }

Profile profile(const std::string& name, std::vector<ShapeRange> inputs) {
  return {name, 0, std::move(inputs)};
}

/// One input x [batch], with a range of batch sizes a profile: p0, p1, ...
ProfileTable batches(const std::vector<std::pair<int64_t, int64_t>>& ranges) {
  std::vector<Profile> profiles;
  for (const auto& [min, max] : ranges) {
    profiles.push_back(profile("p" + std::to_string(profiles.size()), {range({min}, {max})}));
  }
  return ProfileTable({"x"}, std::move(profiles));
}

/// ids [batch, length] and mask [batch, length]; the mask of decode is longer than its ids.
ProfileTable decode_and_prefill() {
  return ProfileTable({"ids", "mask"},
                      {profile("decode", {range({1, 1}, {8, 1}), range({1, 1}, {8, 512})}),
                       profile("prefill", {range({1, 2}, {2, 512}), range({1, 2}, {2, 512})})});
}

Result<size_t> select(const ProfileTable& table, const ProfileRequest& request,
                      const Shapes& shapes, Active active = kNone,
                      SelectionPolicy policy = kSticky) {
  std::vector<Dims> all = all_dims(shapes);
  clear_last_error();
  return table.select(request, policy, active, Span<const Dims>(all.data(), all.size()));
}

// --- Automatic -----------------------------------------------------------------------------------

struct AutomaticCase {
  const char* what;
  ProfileTable table;
  Shapes shapes;
  Active active;
  size_t sticky;  // which profile, under either policy
  size_t first_fit;
};

TEST(ProfileTable, SelectsAutomatically) {
  const ProfileTable two_inputs({"a", "b"}, {profile("p0", {range({1}, {8}), range({1}, {2})}),
                                             profile("p1", {range({1}, {8}), range({1}, {8})})});
  const ProfileTable ranks(
      {"x"}, {profile("p0", {range({1}, {9})}), profile("p1", {range({1, 1}, {9, 9})}),
              profile("p2", {range({}, {})})});
  const ProfileTable static_dims(
      {"x"}, {profile("p0", {range({1, 3}, {8, 3})}), profile("p1", {range({1, 4}, {8, 4})})});
  const ProfileTable no_inputs({}, {profile("p0", {}), profile("p1", {})});
  const AutomaticCase cases[] = {
      {"the only one", batches({{1, 4}}), {{4}}, kNone, 0, 0},
      {"the first that fits, when none is active", batches({{1, 4}, {1, 8}}), {{2}}, kNone, 0, 0},
      {"the second, when the first is too small", batches({{1, 4}, {1, 8}}), {{5}}, kNone, 1, 1},
      {"not one that fits input 0 but not input 1", two_inputs, {{4}, {4}}, kNone, 1, 1},
      {"not even if it is active", two_inputs, {{4}, {4}}, 0, 1, 1},
      {"the active one while it fits", batches({{1, 8}, {1, 8}}), {{4}}, 1, 1, 0},
      {"the active one at its min", batches({{1, 8}, {4, 8}}), {{4}}, 1, 1, 0},
      {"the active one at its max", batches({{1, 8}, {4, 8}}), {{8}}, 1, 1, 0},
      {"the lowest of two, when the active one stops fitting",
       batches({{1, 8}, {1, 8}, {1, 2}}),
       {{4}},
       2,
       0,
       0},
      {"the lowest of two below, when the active one above stops fitting",
       batches({{9, 9}, {1, 8}, {1, 8}, {1, 2}}),
       {{4}},
       3,
       1,
       1},
      {"one above the active, when that alone fits",
       batches({{1, 2}, {3, 4}, {5, 8}}),
       {{6}},
       0,
       2,
       2},
      {"by rank", ranks, {{3, 3}}, kNone, 1, 1},
      {"by rank, whatever is active", ranks, {{3, 3}}, 0, 1, 1},
      {"a scalar's", ranks, {{}}, kNone, 2, 2},
      {"by a static dim", static_dims, {{2, 4}}, kNone, 1, 1},
      {"by a static dim, whatever is active", static_dims, {{2, 3}}, 1, 0, 0},
      {"in an overlap, the first", batches({{1, 6}, {4, 8}}), {{5}}, kNone, 0, 0},
      {"in an overlap, the active one", batches({{1, 6}, {4, 8}}), {{5}}, 1, 1, 0},
      {"beyond an overlap, the other", batches({{1, 6}, {4, 8}}), {{7}}, 0, 1, 1},
      {"on either side of a gap", batches({{1, 2}, {6, 8}}), {{6}}, 0, 1, 1},
      {"of identical ones, the first", batches({{1, 8}, {1, 8}, {1, 8}}), {{3}}, kNone, 0, 0},
      {"of identical ones, the active", batches({{1, 8}, {1, 8}, {1, 8}}), {{3}}, 2, 2, 0},
      {"an empty tensor's", batches({{1, 8}, {0, 8}}), {{0}}, 0, 1, 1},
      {"the first for a delegate without inputs", no_inputs, {}, kNone, 0, 0},
      {"an active index that is none counts as none", batches({{1, 8}}), {{3}}, 7, 0, 0},
  };
  for (const AutomaticCase& test : cases) {
    SCOPED_TRACE(test.what);
    for (const SelectionPolicy policy : {kSticky, kFirstFit}) {
      const auto selected = select(test.table, Automatic{}, test.shapes, test.active, policy);
      ASSERT_TRUE(selected.ok()) << last_error_message();
      EXPECT_EQ(*selected, policy == kSticky ? test.sticky : test.first_fit)
          << (policy == kSticky ? "sticky" : "first fit");
      EXPECT_STREQ(last_error_message(), "");
    }
  }
}

struct NoFit {
  const char* what;
  ProfileTable table;
  Shapes shapes;
  Active active;
  const char* message;
};

TEST(ProfileTable, NamesEveryInputAndEveryRangeWhenNoneFits) {
  const char* const gap =
      "no optimization profile fits x 4; there are 0 'p0': x 1..2; 1 'p1': x 6..8";
  const NoFit cases[] = {
      {"in a gap", batches({{1, 2}, {6, 8}}), {{4}}, kNone, gap},
      {"in a gap, with an active one", batches({{1, 2}, {6, 8}}), {{4}}, 1, gap},
      {"below",
       batches({{2, 4}}),
       {{1}},
       kNone,
       "no optimization profile fits x 1; there are 0 'p0': x 2..4"},
      {"above",
       batches({{2, 4}}),
       {{5}},
       0,
       "no optimization profile fits x 5; there are 0 'p0': x 2..4"},
      {"another rank",
       batches({{2, 4}}),
       {{3, 1}},
       kNone,
       "no optimization profile fits x 3x1; there are 0 'p0': x 2..4"},
      {"a scalar",
       batches({{2, 4}}),
       {{}},
       kNone,
       "no optimization profile fits x scalar; there are 0 'p0': x 2..4"},
      {"one input out of two",
       decode_and_prefill(),
       {{1, 3}, {1, 600}},
       kNone,
       "no optimization profile fits ids 1x3, mask 1x600; there are "
       "0 'decode': ids 1..8x1, mask 1..8x1..512; 1 'prefill': ids 1..2x2..512, mask 1..2x2..512"},
      {"one fits each input, none both",
       decode_and_prefill(),
       {{8, 1}, {9, 600}},
       0,
       "no optimization profile fits ids 8x1, mask 9x600; there are "
       "0 'decode': ids 1..8x1, mask 1..8x1..512; 1 'prefill': ids 1..2x2..512, mask 1..2x2..512"},
      {"too few inputs",
       decode_and_prefill(),
       {{1, 1}},
       kNone,
       "no optimization profile fits ids 1x1; there are "
       "0 'decode': ids 1..8x1, mask 1..8x1..512; 1 'prefill': ids 1..2x2..512, mask 1..2x2..512"},
  };
  for (const NoFit& test : cases) {
    SCOPED_TRACE(test.what);
    for (const SelectionPolicy policy : {kSticky, kFirstFit}) {
      const CapturedLog log;
      const auto selected = select(test.table, Automatic{}, test.shapes, test.active, policy);
      EXPECT_EQ(selected.error(), Error::InvalidArgument);
      EXPECT_STREQ(last_error_message(), test.message);
    }
  }
}

// --- Pins ----------------------------------------------------------------------------------------

TEST(ProfileTable, TakesThePinnedProfileWhateverIsActiveOrComesFirst) {
  const ProfileTable table = batches({{1, 8}, {1, 8}, {4, 8}});
  for (const SelectionPolicy policy : {kSticky, kFirstFit}) {
    for (const Active active : {Active(kNone), Active(0), Active(1), Active(2)}) {
      for (const size_t index : {size_t{0}, size_t{1}, size_t{2}}) {
        const auto by_name = select(table, "p" + std::to_string(index), {{4}}, active, policy);
        ASSERT_TRUE(by_name.ok()) << last_error_message();
        EXPECT_EQ(*by_name, index);
        const auto by_index = select(table, static_cast<int64_t>(index), {{4}}, active, policy);
        ASSERT_TRUE(by_index.ok()) << last_error_message();
        EXPECT_EQ(*by_index, index);
      }
    }
  }
}

struct WrongPin {
  const char* what;
  ProfileTable table;
  ProfileRequest pin;
  Shapes shapes;
  const char* message;
};

TEST(ProfileTable, RefusesPinsThatNameNoProfile) {
  const ProfileTable one = batches({{1, 8}});
  const ProfileTable two = batches({{1, 2}, {1, 8}});
  const char* const unknown = "no optimization profile is called 'prefill'; there are 'p0', 'p1'";
  const WrongPin cases[] = {
      {"unknown name", two, std::string("prefill"), {{2}}, unknown},
      {"unknown name, though no shape fits either", two, std::string("prefill"), {{99}}, unknown},
      {"another case",
       two,
       std::string("P0"),
       {{2}},
       "no optimization profile is called 'P0'; there are 'p0', 'p1'"},
      {"empty name",
       one,
       std::string(),
       {{2}},
       "no optimization profile is called ''; there are 'p0'"},
      {"an index as text",
       two,
       std::string("1"),
       {{2}},
       "no optimization profile is called '1'; there are 'p0', 'p1'"},
      {"negative",
       two,
       int64_t{-1},
       {{2}},
       "optimization profile index -1 is not one of the 2 there are: 0 'p0': x 1..2; 1 'p1': x "
       "1..8"},
      {"lowest",
       one,
       INT64_MIN,
       {{2}},
       "optimization profile index -9223372036854775808 is not one of the 1 there are: "
       "0 'p0': x 1..8"},
      {"the count",
       two,
       int64_t{2},
       {{2}},
       "optimization profile index 2 is not one of the 2 there are: 0 'p0': x 1..2; 1 'p1': x "
       "1..8"},
      {"beyond the only one",
       one,
       int64_t{1},
       {{2}},
       "optimization profile index 1 is not one of the 1 there are: 0 'p0': x 1..8"},
      {"highest",
       one,
       INT64_MAX,
       {{2}},
       "optimization profile index 9223372036854775807 is not one of the 1 there are: "
       "0 'p0': x 1..8"},
  };
  for (const WrongPin& test : cases) {
    SCOPED_TRACE(test.what);
    const CapturedLog log;
    EXPECT_EQ(select(test.table, test.pin, test.shapes, 0).error(), Error::InvalidArgument);
    EXPECT_STREQ(last_error_message(), test.message);
    clear_last_error();
    EXPECT_EQ(test.table.check(test.pin), Error::InvalidArgument);
    EXPECT_STREQ(last_error_message(), test.message);
  }
}

TEST(ProfileTable, RefusesPinsThatDoNotFitThoughAnotherWould) {
  const ProfileTable fixed({"x"}, {profile("only", {range({4, 4}, {4, 4})})});
  const WrongPin cases[] = {
      {"by name",
       batches({{1, 2}, {1, 8}}),
       std::string("p0"),
       {{4}},
       "optimization profile 'p0' does not fit x 4; it takes x 1..2"},
      {"by index",
       batches({{1, 2}, {1, 8}}),
       int64_t{0},
       {{4}},
       "optimization profile 'p0' does not fit x 4; it takes x 1..2"},
      {"though the active one fits",
       batches({{1, 8}, {1, 2}}),
       int64_t{1},
       {{4}},
       "optimization profile 'p1' does not fit x 4; it takes x 1..2"},
      {"in a static delegate",
       fixed,
       std::string("only"),
       {{4, 5}},
       "optimization profile 'only' does not fit x 4x5; it takes x 4x4"},
      {"in its second input",
       decode_and_prefill(),
       std::string("prefill"),
       {{1, 2}, {1, 1}},
       "optimization profile 'prefill' does not fit ids 1x2, mask 1x1; "
       "it takes ids 1..2x2..512, mask 1..2x2..512"},
  };
  for (const WrongPin& test : cases) {
    SCOPED_TRACE(test.what);
    const CapturedLog log;
    EXPECT_EQ(select(test.table, test.pin, test.shapes, 0).error(), Error::InvalidArgument);
    EXPECT_STREQ(last_error_message(), test.message);
    EXPECT_EQ(test.table.check(test.pin), Error::Ok);  // which knows no shapes
  }
}

// --- The rest ------------------------------------------------------------------------------------

TEST(ProfileTable, ChecksPinsWithoutShapes) {
  const ProfileTable table = batches({{1, 2}, {1, 8}});
  EXPECT_EQ(table.check(Automatic{}), Error::Ok);
  EXPECT_EQ(table.check(std::string("p1")), Error::Ok);
  EXPECT_EQ(table.check(int64_t{1}), Error::Ok);
}

TEST(ProfileTable, FindsProfilesByTheirWholeName) {
  const ProfileTable table = decode_and_prefill();
  EXPECT_EQ(table.find("decode"), 0u);
  EXPECT_EQ(table.find("prefill"), 1u);
  EXPECT_EQ(table.find("pre"), kNone);
  EXPECT_EQ(table.find(""), kNone);
}

TEST(ProfileTable, ATableWithoutProfilesSelectsNone) {
  const CapturedLog log;
  const ProfileTable table;
  EXPECT_EQ(select(table, Automatic{}, {}).error(), Error::InvalidArgument);
  EXPECT_EQ(select(table, int64_t{0}, {}).error(), Error::InvalidArgument);
  EXPECT_EQ(select(table, std::string("p0"), {}).error(), Error::InvalidArgument);
}

TEST(ProfileTable, AllocatesNothingWhenItSelects) {
  const ProfileTable table = decode_and_prefill();
  std::vector<Dims> all = all_dims({{1, 9}, {1, 9}});
  const Span<const Dims> shapes(all.data(), all.size());
  const ProfileRequest requests[] = {Automatic{}, int64_t{1}, std::string(200, 'n'),
                                     std::string("prefill")};
  const ProfileTable long_names({"ids", "mask"},
                                {profile(std::string(200, 'n'), table.profiles()[1].inputs),
                                 profile("prefill", table.profiles()[1].inputs)});
  for (const ProfileRequest& request : requests) {
    for (const Active active : {Active(kNone), Active(0), Active(1)}) {
      const AllocationCounter allocations;
      const auto selected = long_names.select(request, kSticky, active, shapes);
      EXPECT_EQ(allocations.count(), 0u);
      EXPECT_TRUE(selected.ok());
    }
  }
  const AllocationCounter allocations;  // the counter does count
  {
    const std::string text(200, 'n');
  }
  EXPECT_EQ(allocations.count(), 1u);
}

TEST(Dims, PrintAsSizesAndQuestionMarks) {
  EXPECT_EQ(to_string(dims({})), "scalar");
  EXPECT_EQ(to_string(dims({7})), "7");
  EXPECT_EQ(to_string(dims({1, -1, 768})), "1x?x768");
  EXPECT_EQ(to_string(dims({0, 1, 2, 3, 4, 5, 6, 7})), "0x1x2x3x4x5x6x7");
}

}  // namespace
}  // namespace executorch_tensorrt::test
