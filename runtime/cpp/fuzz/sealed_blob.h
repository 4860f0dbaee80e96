// Delegate blobs taken apart and put together again, so that a mutation of one part leaves a header
// and a CRC that fit: what is refused at the first glance finds nothing behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "crc32.h"

namespace executorch_tensorrt::fuzz {

using Bytes = std::vector<uint8_t>;

inline constexpr size_t kHeaderBytes = 64;

/// The parts of a blob, and bytes behind it.
struct Parts {
  uint16_t major = 1, minor = 0;
  Bytes metadata, engine, fallback, rest;
  uint64_t external_engine = 0;  // its size, where the engine is not in the blob
};

inline uint64_t get(const uint8_t* data, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i > 0; --i) value = value << 8 | data[at + i - 1];
  return value;
}

inline void put(Bytes& data, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) data[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

/// None where the sections do not lie as the header of a whole blob has them. A mutation thus never
/// makes other bytes the fallback program: those ExecuTorch would read, whose bounds are its own.
inline std::optional<Parts> take_apart(const uint8_t* data, size_t size) {
  if (size < kHeaderBytes || std::memcmp(data, "ETRT", 4) != 0) return std::nullopt;
  Parts parts;
  parts.major = static_cast<uint16_t>(get(data, 4, 2));
  parts.minor = static_cast<uint16_t>(get(data, 6, 2));
  size_t end = kHeaderBytes;
  Bytes* const sections[] = {&parts.metadata, &parts.engine, &parts.fallback};
  for (size_t i = 0; i < 3; ++i) {
    const uint64_t offset = get(data, 16 + 16 * i, 8);
    const uint64_t bytes = get(data, 24 + 16 * i, 8);
    if (i == 1 && offset == 0 && bytes > 0) {
      parts.external_engine = bytes;
      continue;
    }
    if (i == 2 && bytes == 0) break;
    if (offset != (i == 0 ? end : (end + 255) / 256 * 256)) return std::nullopt;
    if (offset > size || bytes > size - offset) return std::nullopt;
    sections[i]->assign(data + offset, data + offset + bytes);
    end = offset + bytes;
  }
  parts.rest.assign(data + end, data + size);
  return parts;
}

/// With the header, the CRC and the metadata's copies of the header's fields that fit the parts.
inline Bytes seal(Parts parts) {
  if (parts.metadata.size() >= 20) {
    put(parts.metadata, 0, parts.major, 2);
    put(parts.metadata, 2, parts.minor, 2);
    const bool external = parts.engine.empty();
    put(parts.metadata, 4, external ? parts.external_engine : parts.engine.size(), 8);
    put(parts.metadata, 12, parts.fallback.size(), 8);
  }
  Bytes blob(kHeaderBytes);
  std::memcpy(blob.data(), "ETRT", 4);
  put(blob, 4, parts.major, 2);
  put(blob, 6, parts.minor, 2);
  put(blob, 8, kHeaderBytes, 4);
  put(blob, 12, crc32(parts.metadata.data(), parts.metadata.size()), 4);
  const Bytes* const sections[] = {&parts.metadata, &parts.engine, &parts.fallback};
  for (size_t i = 0; i < 3; ++i) {
    if (i == 2 && parts.fallback.empty()) break;  // offset and size 0
    if (i == 1 && parts.engine.empty()) {
      put(blob, 24 + 16 * i, parts.external_engine, 8);
      continue;
    }
    if (i > 0) blob.resize((blob.size() + 255) / 256 * 256);
    put(blob, 16 + 16 * i, blob.size(), 8);
    put(blob, 24 + 16 * i, sections[i]->size(), 8);
    blob.insert(blob.end(), sections[i]->begin(), sections[i]->end());
  }
  blob.insert(blob.end(), parts.rest.begin(), parts.rest.end());
  return blob;
}

}  // namespace executorch_tensorrt::fuzz
