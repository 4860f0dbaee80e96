#include "siphash.h"

#include <cstring>

namespace executorch_tensorrt {

namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they lie");

/// `count` bytes, at most 8.
uint64_t load(const uint8_t* bytes, size_t count) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, count);
  return value;
}

uint64_t rotated(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

struct State {
  uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1, v1 = rotated(v1, 13) ^ v0, v0 = rotated(v0, 32);
      v2 += v3, v3 = rotated(v3, 16) ^ v2;
      v0 += v3, v3 = rotated(v3, 21) ^ v0;
      v2 += v1, v1 = rotated(v1, 17) ^ v2, v2 = rotated(v2, 32);
    }
  }
  void take(uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
  uint64_t folded() const { return v0 ^ v1 ^ v2 ^ v3; }
};

}  // namespace

SipHash128 siphash128(const SipHashKey& key, const void* data, size_t size) {
  const uint64_t k0 = load(key.data(), 8), k1 = load(key.data() + 8, 8);
  State state{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261,
              k1 ^ 0x7465646279746573};
  const auto* bytes = static_cast<const uint8_t*>(data);
  const size_t whole = size / 8 * 8;
  for (size_t at = 0; at < whole; at += 8) state.take(load(bytes + at, 8));
  state.take(load(bytes + whole, size - whole) | static_cast<uint64_t>(size) << 56);

  SipHash128 hash{};
  const auto store = [&hash](size_t at, uint64_t value) { std::memcpy(&hash[at], &value, 8); };
  state.v2 ^= 0xee;
  state.rounds(4);
  store(0, state.folded());
  state.v1 ^= 0xdd;
  state.rounds(4);
  store(8, state.folded());
  return hash;
}

}  // namespace executorch_tensorrt
