// The hash against its authors' test vectors.
#include "siphash.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace executorch_tensorrt::test {
namespace {

std::string hex(const SipHash128& hash) {
  std::string text;
  for (const uint8_t byte : hash) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

SipHashKey counting_key() {
  SipHashKey key;
  std::iota(key.begin(), key.end(), uint8_t{0});
  return key;
}

TEST(SipHash, IsWhatItsAuthorsVectorsSayForEveryLengthOfTheLastWord) {
  const std::vector<std::pair<size_t, std::string>> vectors = {
      {0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
      {2, "8177228da4a45dc7fca38bdef60affe4"},  {3, "9c70b60c5267a94e5f33b6b02985ed51"},
      {4, "f88164c12d9c8faf7d0f6e7c7bcd5579"},  {5, "1368875980776f8854527a07690e9627"},
      {6, "14eeca338b208613485ea0308fd7a15e"},  {7, "a1f1ebbed8dbc153c0b84aa61ff08239"},
      {8, "3b62a9ba6258f5610f83e264f31497b4"},  {9, "264499060ad9baabc47f8b02bb6d71ed"},
      {63, "5150d1772f50834a503e069a973fbd7c"},
  };
  for (const auto& [length, expected] : vectors) {
    std::vector<uint8_t> data(length);
    std::iota(data.begin(), data.end(), uint8_t{0});
    EXPECT_EQ(hex(siphash128(counting_key(), data.data(), length)), expected) << length;
  }
}

TEST(SipHash, IsAnotherUnderAnotherKey) {
  SipHashKey other = counting_key();
  other[15] ^= 1;
  EXPECT_NE(siphash128(counting_key(), "engine", 6), siphash128(other, "engine", 6));
}

}  // namespace
}  // namespace executorch_tensorrt::test
