#include "byte_reader.h"

namespace executorch_tensorrt {

bool is_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<uint8_t>(text[i++]);
    if (lead < 0x80) continue;
    size_t following;
    uint32_t smallest;  // that needs this many bytes
    uint32_t point;
    if ((lead & 0xE0) == 0xC0) {
      following = 1, smallest = 0x80, point = lead & 0x1F;
    } else if ((lead & 0xF0) == 0xE0) {
      following = 2, smallest = 0x800, point = lead & 0x0F;
    } else if ((lead & 0xF8) == 0xF0) {
      following = 3, smallest = 0x10000, point = lead & 0x07;
    } else {
      return false;
    }
    if (following > text.size() - i) return false;
    for (; following > 0; --following) {
      const auto next = static_cast<uint8_t>(text[i++]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    if (point < smallest || point > 0x10FFFF || surrogate) return false;
  }
  return true;
}

}  // namespace executorch_tensorrt
