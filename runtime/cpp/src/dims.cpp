#include "dims.h"

namespace executorch_tensorrt {

bool is_static(const Dims& dims) {
  for (uint32_t d = 0; d < dims.rank; ++d) {
    if (dims.size[d] < 0) return false;
  }
  return true;
}

std::string to_string(const Dims& dims) {
  if (dims.rank == 0) return "scalar";
  std::string text;
  for (uint32_t i = 0; i < dims.rank; ++i) {
    if (i > 0) text += 'x';
    text += dims.size[i] < 0 ? "?" : std::to_string(dims.size[i]);
  }
  return text;
}

}  // namespace executorch_tensorrt
