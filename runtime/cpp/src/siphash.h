// SipHash-2-4 with 128 bits of output (Aumasson, Bernstein): a hash under a secret key. Whoever
// does not know the key cannot make two inputs that agree in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace executorch_tensorrt {

using SipHashKey = std::array<uint8_t, 16>;
using SipHash128 = std::array<uint8_t, 16>;

SipHash128 siphash128(const SipHashKey& key, const void* data, size_t size);

}  // namespace executorch_tensorrt
