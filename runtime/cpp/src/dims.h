// A tensor's shape, without a heap allocation.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace executorch_tensorrt {

/// TensorRT's limit (nvinfer1::Dims::MAX_DIMS).
inline constexpr uint32_t kMaxRank = 8;

struct Dims {
  uint32_t rank = 0;
  std::array<int64_t, kMaxRank> size{};  // the first `rank` count

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank != b.rank) return false;
    for (uint32_t i = 0; i < a.rank; ++i) {
      if (a.size[i] != b.size[i]) return false;
    }
    return true;
  }
  friend bool operator!=(const Dims& a, const Dims& b) { return !(a == b); }
};

/// Whether no size is dynamic (negative).
bool is_static(const Dims& dims);

/// "1x128x768", "scalar" for rank 0; a dynamic (negative) size reads "?".
std::string to_string(const Dims& dims);

}  // namespace executorch_tensorrt
