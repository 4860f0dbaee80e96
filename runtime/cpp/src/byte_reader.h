// Bounds-checked reading of a blob's little-endian fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "dims.h"

namespace executorch_tensorrt {

/// Why a blob is refused. Thrown and caught inside DelegateBlob::parse alone.
struct BlobRefused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void refuse(const std::string& field, const std::string& why) {
  throw BlobRefused("delegate blob: " + field + " " + why);
}

/// Whether these bytes are UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

/// Takes fields off the front of a byte range; refuses, naming the field, what is not all there.
class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : data_(data), remaining_(size) {}

  size_t remaining() const { return remaining_; }

  const uint8_t* take(size_t size, const std::string& field) {
    if (size > remaining_) {
      refuse(field,
             "needs " + std::to_string(size) + " bytes, " + std::to_string(remaining_) + " remain");
    }
    const uint8_t* taken = data_;
    data_ += size;
    remaining_ -= size;
    return taken;
  }

  template <typename Unsigned>
  Unsigned number(const std::string& field) {
    const uint8_t* bytes = take(sizeof(Unsigned), field);
    uint64_t value = 0;
    for (size_t i = sizeof(Unsigned); i > 0; --i) value = value << 8 | bytes[i - 1];
    return static_cast<Unsigned>(value);
  }

  /// A byte below `limit`.
  uint8_t choice(uint8_t limit, const std::string& field) {
    const auto value = number<uint8_t>(field);
    if (value >= limit) {
      refuse(field, "is " + std::to_string(value) + ", it must be below " + std::to_string(limit));
    }
    return value;
  }

  /// A list's count, refused if it is over `most` or if so many items of at least `item_bytes`
  /// cannot be there. What it returns is thus safe to reserve.
  uint32_t count(size_t item_bytes, uint32_t most, const std::string& field) {
    const auto count = number<uint32_t>(field);
    if (count > most) {
      refuse(field,
             "is " + std::to_string(count) + "; at most " + std::to_string(most) + " may be");
    }
    if (count > remaining_ / item_bytes) {
      refuse(field, "is " + std::to_string(count) + ", but only " + std::to_string(remaining_) +
                        " bytes remain");
    }
    return count;
  }

  /// UTF-8 without a NUL.
  std::string text(const std::string& field) {
    const auto size = number<uint32_t>(field + " size");
    const uint8_t* bytes = take(size, field);
    const std::string_view text(reinterpret_cast<const char*>(bytes), size);
    if (!is_utf8(text)) refuse(field, "is not valid UTF-8");
    if (text.find('\0') != std::string_view::npos) refuse(field, "holds a NUL");
    return std::string(text);
  }

  Dims dims(const std::string& field) {
    Dims dims;
    dims.rank = number<uint32_t>(field + " rank");
    if (dims.rank > kMaxRank) {
      refuse(field + " rank", std::to_string(dims.rank) + " is over " + std::to_string(kMaxRank));
    }
    for (uint32_t i = 0; i < dims.rank; ++i) {
      dims.size[i] = static_cast<int64_t>(number<uint64_t>(field));
    }
    return dims;
  }

 private:
  const uint8_t* data_;
  size_t remaining_;
};

}  // namespace executorch_tensorrt
