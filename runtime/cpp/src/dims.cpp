#include "dims.h"

namespace executorch_tensorrt {

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
