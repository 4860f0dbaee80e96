// Delegate blobs made field by field, right or wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "crc32.h"

namespace executorch_tensorrt::test {

using Bytes = std::vector<uint8_t>;

class ByteWriter {
 public:
  template <typename Integer>
  ByteWriter& put(Integer value) {
    for (size_t i = 0; i < sizeof(Integer); ++i) {
      bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
    }
    return *this;
  }
  ByteWriter& text(const std::string& value) {
    put<uint32_t>(static_cast<uint32_t>(value.size()));
    bytes.insert(bytes.end(), value.begin(), value.end());
    return *this;
  }
  ByteWriter& dims(const std::vector<int64_t>& value) {
    put<uint32_t>(static_cast<uint32_t>(value.size()));
    for (int64_t size : value) put(size);
    return *this;
  }

  Bytes bytes;
};

struct RawBinding {
  std::string name;
  uint8_t dtype = 6;  // float32
  uint8_t direction = 0;
  uint8_t flags = 0;
  uint32_t argument = 0;
  std::vector<int64_t> dims;
  uint64_t max_bytes = 0;
};

struct RawRange {
  std::vector<int64_t> min, opt, max;
};

struct RawState {
  std::string name;
  uint8_t dtype = 6;
  std::vector<int64_t> shape;
  std::string input, output;
  uint8_t mode = 0;
  std::string initial;
};

struct RawIndexCheck {
  uint32_t binding = 0;
  int64_t least = 0, greatest = 0;
  int32_t extent_binding = -1;
  uint32_t extent_dim = 0;
  uint8_t contiguous = 0;
  std::string state;
};

struct RawProfile {
  std::string name;
  uint32_t engine_profile = 0;
  std::vector<RawRange> inputs;
};

/// The fields of a blob's metadata, each free to be wrong. As it is made: x [-1, 4] -> y [-1, 4],
/// with profiles small (x 1..2) and large (x 2..8).
struct RawMetadata {
  uint16_t major = 1, minor = 0;
  uint64_t engine_size = 9, fallback_size = 0;
  uint8_t flavour = 2;
  uint8_t hardware_compatibility = 0, version_compatible = 0;
  uint32_t num_arguments = 2;
  std::vector<RawBinding> bindings = {{"x", 6, 0, 0, 0, {-1, 4}, 128},
                                      {"y", 6, 1, 0, 1, {-1, 4}, 128}};
  std::vector<RawProfile> profiles = {{"small", 0, {{{1, 4}, {1, 4}, {2, 4}}}},
                                      {"large", 1, {{{2, 4}, {4, 4}, {8, 4}}}}};
  std::vector<RawState> states;
  std::vector<std::pair<std::string, std::string>> build_options = {{"level", "3"}};
  // From version 1.1 on.
  std::string guard;
  std::vector<RawIndexCheck> index_checks;
  // Where set, these stand in place of the true counts.
  std::optional<uint32_t> binding_count, profile_count, range_count, option_count;
  std::optional<uint32_t> state_count, check_count;
  std::optional<uint64_t> initial_size;
  std::string trailing;

  Bytes bytes() const {
    ByteWriter out;
    out.put(major).put(minor).put(engine_size).put(fallback_size);
    out.bytes.resize(out.bytes.size() + 32, 0xAB);  // engine id
    out.put(flavour).put<uint32_t>(1).put<uint32_t>(6).put<uint32_t>(1).put<uint32_t>(120);
    out.put<uint32_t>(8).put<uint32_t>(9).put(hardware_compatibility).put(version_compatible);
    out.put(num_arguments);
    out.put(binding_count.value_or(static_cast<uint32_t>(bindings.size())));
    for (const RawBinding& binding : bindings) {
      out.text(binding.name).put(binding.dtype).put(binding.direction).put(binding.flags);
      out.put(binding.argument).dims(binding.dims).put(binding.max_bytes);
    }
    out.put(profile_count.value_or(static_cast<uint32_t>(profiles.size())));
    for (const RawProfile& profile : profiles) {
      out.text(profile.name).put(profile.engine_profile);
      out.put(range_count.value_or(static_cast<uint32_t>(profile.inputs.size())));
      for (const RawRange& range : profile.inputs) {
        out.dims(range.min).dims(range.opt).dims(range.max);
      }
    }
    out.put(state_count.value_or(static_cast<uint32_t>(states.size())));
    for (const RawState& state : states) {
      out.text(state.name).put(state.dtype).dims(state.shape).text(state.input);
      out.text(state.output).put(state.mode);
      out.put(initial_size.value_or(state.initial.size()));
      out.bytes.insert(out.bytes.end(), state.initial.begin(), state.initial.end());
    }
    out.put(option_count.value_or(static_cast<uint32_t>(build_options.size())));
    for (const auto& [key, value] : build_options) out.text(key).text(value);
    if (minor > 0) put_checks(out);
    out.bytes.insert(out.bytes.end(), trailing.begin(), trailing.end());
    return out.bytes;
  }

 private:
  void put_checks(ByteWriter& out) const {
    out.text(guard);
    out.put(check_count.value_or(static_cast<uint32_t>(index_checks.size())));
    for (const RawIndexCheck& check : index_checks) {
      out.put(check.binding).put(check.least).put(check.greatest).put(check.extent_binding);
      out.put(check.extent_dim).put(check.contiguous).text(check.state);
    }
  }
};

/// A header's fields, each free to be wrong.
struct RawHeader {
  uint16_t major = 1, minor = 0;
  uint32_t header_bytes = 64, crc = 0;
  uint64_t metadata_offset = 64, metadata_size = 0;
  uint64_t engine_offset = 0, engine_size = 9;
  uint64_t fallback_offset = 0, fallback_size = 0;
};

inline uint64_t next_section(uint64_t end) { return (end + 255) / 256 * 256; }

/// The right header for `metadata`, whose CRC is taken, and for sections of these sizes.
inline RawHeader header_for(const Bytes& metadata, uint64_t engine_size, uint64_t fallback_size) {
  RawHeader header;
  header.crc = crc32(metadata.data(), metadata.size());
  header.metadata_size = metadata.size();
  header.engine_offset = next_section(64 + metadata.size());
  header.engine_size = engine_size;
  header.fallback_size = fallback_size;
  if (fallback_size > 0) header.fallback_offset = next_section(header.engine_offset + engine_size);
  return header;
}

/// Puts a blob together as `header_for` lays it out, under whatever `header` says.
inline Bytes assemble(const RawHeader& header, const Bytes& metadata, const Bytes& engine,
                      const Bytes& fallback = {}) {
  ByteWriter out;
  out.bytes = {'E', 'T', 'R', 'T'};
  out.put(header.major).put(header.minor).put(header.header_bytes).put(header.crc);
  out.put(header.metadata_offset).put(header.metadata_size);
  out.put(header.engine_offset).put(header.engine_size);
  out.put(header.fallback_offset).put(header.fallback_size);
  out.bytes.insert(out.bytes.end(), metadata.begin(), metadata.end());
  out.bytes.resize(next_section(out.bytes.size()));
  out.bytes.insert(out.bytes.end(), engine.begin(), engine.end());
  if (!fallback.empty()) {
    out.bytes.resize(next_section(out.bytes.size()));
    out.bytes.insert(out.bytes.end(), fallback.begin(), fallback.end());
  }
  return out.bytes;
}

inline const Bytes kRawEngine = {'a', 'n', ' ', 'e', 'n', 'g', 'i', 'n', 'e'};

/// A blob with this metadata, a right CRC, and an engine of nine bytes.
inline Bytes seal(const Bytes& metadata, uint16_t minor = 0) {
  RawHeader header = header_for(metadata, kRawEngine.size(), 0);
  header.minor = minor;
  return assemble(header, metadata, kRawEngine);
}

}  // namespace executorch_tensorrt::test
