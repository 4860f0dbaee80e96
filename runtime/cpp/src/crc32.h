// CRC-32 as zlib computes it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace executorch_tensorrt {

uint32_t crc32(const uint8_t* data, size_t size);

}  // namespace executorch_tensorrt
