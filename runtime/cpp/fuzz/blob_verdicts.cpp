// What the C++ reader makes of blobs, for tests that compare it with the Python reader. Standard
// input: blobs, each behind its size as u32. Standard output, a line each: "accepted", what the
// reader read as text, or "refused" and why.
#include <executorch/runtime/platform/runtime.h>
#include <executorch_tensorrt/error.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "delegate_blob.h"
#include "last_error.h"

namespace executorch_tensorrt {
namespace {

/// Reads all of it; false at the end of the input.
bool read(void* data, size_t size) { return std::fread(data, 1, size, stdin) == size; }

std::string text(const Dims& dims) {
  std::string out = "[";
  for (uint32_t d = 0; d < dims.rank; ++d) out += std::to_string(dims.size[d]) + ",";
  return out + "]";
}

std::string hex(const std::string& name) {
  std::string out;
  for (const unsigned char byte : name) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

/// As tests/test_blob_readers_agree.py writes it.
std::string text(const DelegateBlob& blob) {
  std::string out = std::to_string(static_cast<int>(blob.flavour)) + " " + to_string(blob.version) +
                    " " + std::to_string(blob.num_arguments);
  for (const Binding& binding : blob.bindings) {
    out += " b" + hex(binding.name) + ":" + std::to_string(static_cast<int>(binding.dtype)) + ":" +
           std::to_string(binding.is_input) + std::to_string(binding.is_shape_tensor) + ":" +
           std::to_string(binding.argument) + text(binding.dims) +
           std::to_string(binding.max_bytes);
  }
  for (const Profile& profile : blob.profiles) {
    out += " p" + hex(profile.name) + ":" + std::to_string(profile.engine_profile);
    for (const ShapeRange& range : profile.inputs) {
      out += text(range.min) + text(range.opt) + text(range.max);
    }
  }
  for (const auto& [key, value] : blob.build_options) out += " o" + hex(key) + "=" + hex(value);
  for (const State& state : blob.states) {
    out += " s" + hex(state.name) + ":" + std::to_string(static_cast<int>(state.dtype)) +
           text(state.shape) + hex(state.input) + ":" + hex(state.output) + ":" +
           std::to_string(static_cast<int>(state.mode)) + ":";
    if (state.initial != nullptr) out += hex({state.initial->begin(), state.initial->end()});
  }
  if (!blob.guard.empty()) out += " g" + hex(blob.guard);
  for (const IndexCheck& check : blob.index_checks) {
    out += " c" + std::to_string(check.binding) + ":" + std::to_string(check.least) + ":" +
           std::to_string(check.greatest) + ":" + std::to_string(check.extent_binding) + ":" +
           std::to_string(check.extent_dim) + ":" + std::to_string(check.contiguous) + ":" +
           hex(check.state);
  }
  if (blob.external_engine) out += " external";
  return out + " " + std::to_string(blob.engine.size) + " " + std::to_string(blob.fallback.size);
}

}  // namespace
}  // namespace executorch_tensorrt

int main() {
  using namespace executorch_tensorrt;
  executorch::runtime::runtime_init();
  const UnloggedErrors quiet;
  uint8_t size_bytes[4];
  while (read(size_bytes, sizeof(size_bytes))) {
    const size_t size = size_bytes[0] | size_bytes[1] << 8 | size_bytes[2] << 16 |
                        static_cast<size_t>(size_bytes[3]) << 24;
    std::vector<uint8_t> bytes(size);
    if (!read(bytes.data(), size)) return EXIT_FAILURE;
    const auto blob = DelegateBlob::parse(bytes.data(), bytes.size());
    if (blob.ok()) {
      std::printf("accepted %s\n", text(*blob).c_str());
    } else {
      std::string why = last_error_message();
      for (char& c : why) c = c == '\n' ? ' ' : c;
      std::printf("refused %s\n", why.c_str());
    }
    std::fflush(stdout);
  }
  return EXIT_SUCCESS;
}
