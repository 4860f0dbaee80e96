#include "delegate_blob.h"

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "blob_checks.h"
#include "byte_reader.h"
#include "crc32.h"
#include "last_error.h"

namespace executorch_tensorrt {

namespace {

constexpr char kMagic[] = {'E', 'T', 'R', 'T'};
constexpr uint16_t kMajor = 1;
constexpr uint16_t kMinor = 1;
constexpr size_t kHeaderBytes = 64;
constexpr size_t kSectionAlignment = 256;

// The fewest bytes an item of a list can have.
constexpr size_t kBindingBytes = 23;
constexpr size_t kProfileBytes = 12;
constexpr size_t kShapeRangeBytes = 12;
constexpr size_t kBuildOptionBytes = 8;
constexpr size_t kStateBytes = 26;
constexpr size_t kIndexCheckBytes = 33;

// What a list takes in memory is many times what it takes in the blob, so the lists are bounded.
constexpr uint32_t kMaxBindings = 4096;
constexpr uint32_t kMaxProfiles = 256;
constexpr uint32_t kMaxBuildOptions = 1024;
constexpr uint32_t kMaxStates = 4096;
constexpr uint32_t kMaxIndexChecks = 4096;

struct Sections {
  uint16_t minor = 0;
  Section metadata, engine, fallback;
  bool external_engine = false;
};

/// A blob in memory ends far below SIZE_MAX, so this does not wrap.
size_t aligned(size_t offset) {
  return (offset + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

void check_version(uint16_t major, uint16_t minor) {
  if (major == kMajor) return;
  throw BlobRefused("blob version " + std::to_string(major) + "." + std::to_string(minor) +
                    "; this build reads " + std::to_string(kMajor) +
                    ".x: " + (major > kMajor ? "upgrade executorch-tensorrt" : "export it again"));
}

/// Takes a section's offset and size off the header; it must lie at `expected`.
Section read_section(ByteReader& header, const Section& blob, size_t expected,
                     const std::string& name) {
  const auto offset = header.number<uint64_t>(name + " offset");
  const auto size = header.number<uint64_t>(name + " size");
  if (offset != expected) {
    refuse(name + " offset", "is " + std::to_string(offset) + ", not " + std::to_string(expected));
  }
  if (size == 0) refuse(name, "is empty");
  if (offset > blob.size || size > blob.size - offset) {
    refuse(name, "of " + std::to_string(size) + " bytes at " + std::to_string(offset) +
                     " is cut off: the blob has " + std::to_string(blob.size) + " bytes");
  }
  return {blob.data + offset, static_cast<size_t>(size)};
}

/// The size of an engine outside the blob, whose offset is 0; taken off the header if it is one.
Section read_external_engine(ByteReader& header) {
  ByteReader ahead = header;
  const auto offset = ahead.number<uint64_t>("engine offset");
  const auto size = ahead.number<uint64_t>("engine size");
  if (offset != 0 || size == 0) return {};
  header = ahead;
  return {nullptr, static_cast<size_t>(size)};
}

size_t end_of(const Section& section, const Section& blob) {
  return static_cast<size_t>(section.data - blob.data) + section.size;
}

void check_zero(const Section& blob, size_t begin, size_t end) {
  if (std::any_of(blob.data + begin, blob.data + end, [](uint8_t byte) { return byte != 0; })) {
    refuse("padding", "is not zero");
  }
}

/// Checks the header, and that the sections as laid out fill the blob to its last byte.
Sections read_header(const Section& blob) {
  ByteReader header(blob.data, std::min(blob.size, kHeaderBytes));
  if (std::memcmp(header.take(sizeof(kMagic), "magic"), kMagic, sizeof(kMagic)) != 0) {
    refuse("magic", "is not ETRT; these bytes are no delegate blob");
  }
  const auto major = header.number<uint16_t>("major version");
  Sections sections;
  sections.minor = header.number<uint16_t>("minor version");
  check_version(major, sections.minor);
  if (blob.size < kHeaderBytes) {
    refuse("header", "is cut off: " + std::to_string(blob.size) + " of " +
                         std::to_string(kHeaderBytes) + " bytes");
  }
  const auto header_bytes = header.number<uint32_t>("header bytes");
  if (header_bytes != kHeaderBytes) {
    refuse("header bytes",
           "are " + std::to_string(header_bytes) + ", not " + std::to_string(kHeaderBytes));
  }
  const auto crc = header.number<uint32_t>("CRC-32");
  sections.metadata = read_section(header, blob, kHeaderBytes, "metadata");
  const size_t metadata_end = end_of(sections.metadata, blob);
  size_t end = metadata_end;
  sections.engine = read_external_engine(header);
  sections.external_engine = sections.engine.size > 0;
  if (!sections.external_engine) {
    sections.engine = read_section(header, blob, aligned(metadata_end), "engine");
    check_zero(blob, metadata_end, aligned(metadata_end));
    end = end_of(sections.engine, blob);
  }
  ByteReader fallback = header;  // two zeros, where there is none
  if (fallback.number<uint64_t>("fallback offset") != 0 ||
      fallback.number<uint64_t>("fallback size") != 0) {
    sections.fallback = read_section(header, blob, aligned(end), "fallback");
    check_zero(blob, end, aligned(end));
    end = end_of(sections.fallback, blob);
  }
  if (end != blob.size) {
    refuse("size", "is " + std::to_string(blob.size) + " bytes, its sections end at " +
                       std::to_string(end));
  }
  if (crc32(sections.metadata.data, sections.metadata.size) != crc) {
    refuse("metadata", "does not have the CRC-32 that the header says");
  }
  return sections;
}

template <typename Unsigned>
void check_copy(ByteReader& reader, Unsigned in_header, const std::string& field) {
  const auto copy = reader.number<Unsigned>(field);
  if (copy != in_header) {
    refuse(field, "is " + std::to_string(in_header) + " in the header, " + std::to_string(copy) +
                      " in the metadata");
  }
}

Flavour read_flavour(ByteReader& reader) {
  const auto code = reader.number<uint8_t>("flavour");
  if (code != static_cast<uint8_t>(Flavour::kTensorRT) &&
      code != static_cast<uint8_t>(Flavour::kTensorRTRTX)) {
    refuse("flavour", std::to_string(code) + " is not known");
  }
  return static_cast<Flavour>(code);
}

void read_target(ByteReader& reader, DelegateBlob& blob) {
  std::memcpy(blob.engine_id.data(), reader.take(blob.engine_id.size(), "engine id"),
              blob.engine_id.size());
  blob.flavour = read_flavour(reader);
  blob.version.major = reader.number<uint32_t>("TensorRT version");
  blob.version.minor = reader.number<uint32_t>("TensorRT version");
  blob.version.patch = reader.number<uint32_t>("TensorRT version");
  blob.version.build = reader.number<uint32_t>("TensorRT version");
  blob.compute_capability_major = reader.number<uint32_t>("compute capability");
  blob.compute_capability_minor = reader.number<uint32_t>("compute capability");
  blob.hardware_compatibility =
      static_cast<HardwareCompatibility>(reader.choice(3, "hardware compatibility"));
  blob.version_compatible = reader.choice(2, "version compatible") != 0;
}

executorch::aten::ScalarType read_dtype(ByteReader& reader, const std::string& field) {
  const auto code = reader.number<uint8_t>(field);
  const auto dtype = static_cast<executorch::aten::ScalarType>(code);
  if (code > INT8_MAX || element_size(dtype) == 0) {
    refuse(field, std::to_string(code) + " is not known");
  }
  return dtype;
}

Binding read_binding(ByteReader& reader, size_t index) {
  Binding binding;
  std::string field = "binding " + std::to_string(index);
  binding.name = reader.text(field + " name");
  field += " '" + binding.name + "'";
  binding.dtype = read_dtype(reader, field + " dtype");
  binding.is_input = reader.choice(2, field + " direction") == 0;
  binding.is_shape_tensor = reader.choice(2, field + " flags") != 0;
  binding.argument = reader.number<uint32_t>(field + " argument");
  binding.dims = reader.dims(field + " dims");
  binding.max_bytes = reader.number<uint64_t>(field + " max bytes");
  return binding;
}

Profile read_profile(ByteReader& reader, size_t index) {
  Profile profile;
  std::string field = "profile " + std::to_string(index);
  profile.name = reader.text(field + " name");
  field += " '" + profile.name + "'";
  profile.engine_profile = reader.number<uint32_t>(field + " engine profile");
  const uint32_t count = reader.count(kShapeRangeBytes, kMaxBindings, field + " input count");
  profile.inputs.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    ShapeRange range;
    range.min = reader.dims(field + " min");
    range.opt = reader.dims(field + " opt");
    range.max = reader.dims(field + " max");
    profile.inputs.push_back(range);
  }
  return profile;
}

State read_state(ByteReader& reader, size_t index) {
  State state;
  std::string field = "state " + std::to_string(index);
  state.name = reader.text(field + " name");
  field += " '" + state.name + "'";
  state.dtype = read_dtype(reader, field + " dtype");
  state.shape = reader.dims(field + " shape");
  state.input = reader.text(field + " input");
  state.output = reader.text(field + " output");
  state.mode = static_cast<StateMode>(reader.choice(2, field + " mode"));
  const auto size = reader.number<uint64_t>(field + " initial size");
  if (size > reader.remaining()) {
    refuse(field + " initial value", "needs " + std::to_string(size) + " bytes, " +
                                         std::to_string(reader.remaining()) + " remain");
  }
  if (size == 0) return state;
  const uint8_t* bytes = reader.take(static_cast<size_t>(size), field + " initial value");
  state.initial = std::make_shared<const std::vector<uint8_t>>(bytes, bytes + size);
  return state;
}

IndexCheck read_index_check(ByteReader& reader, size_t index) {
  IndexCheck check;
  const std::string field = "index check " + std::to_string(index);
  check.binding = reader.number<uint32_t>(field + " binding");
  check.least = static_cast<int64_t>(reader.number<uint64_t>(field + " least"));
  check.greatest = static_cast<int64_t>(reader.number<uint64_t>(field + " greatest"));
  check.extent_binding = static_cast<int32_t>(reader.number<uint32_t>(field + " extent binding"));
  check.extent_dim = reader.number<uint32_t>(field + " extent dim");
  check.contiguous = reader.choice(2, field + " contiguous") != 0;
  check.state = reader.text(field + " state");
  return check;
}

void read_states(ByteReader& reader, uint16_t minor, DelegateBlob& blob) {
  if (minor == 0) {
    const auto none = reader.number<uint32_t>("state count");
    if (none != 0) refuse("state count", "is " + std::to_string(none) + "; version 1.0 has none");
    return;
  }
  const uint32_t count = reader.count(kStateBytes, kMaxStates, "state count");
  blob.states.reserve(count);
  for (uint32_t i = 0; i < count; ++i) blob.states.push_back(read_state(reader, i));
}

/// What version 1.1 appended.
void read_checks(ByteReader& reader, DelegateBlob& blob) {
  blob.guard = reader.text("guard");
  const uint32_t count = reader.count(kIndexCheckBytes, kMaxIndexChecks, "index check count");
  blob.index_checks.reserve(count);
  for (uint32_t i = 0; i < count; ++i) blob.index_checks.push_back(read_index_check(reader, i));
}

DelegateBlob read_metadata(const Sections& sections) {
  ByteReader reader(sections.metadata.data, sections.metadata.size);
  // The header is not under the CRC; these copies of its fields are.
  check_copy<uint16_t>(reader, kMajor, "major version");
  check_copy<uint16_t>(reader, sections.minor, "minor version");
  check_copy<uint64_t>(reader, sections.engine.size, "engine size");
  check_copy<uint64_t>(reader, sections.fallback.size, "fallback size");
  DelegateBlob blob;
  blob.engine = sections.engine;
  blob.fallback = sections.fallback;
  blob.external_engine = sections.external_engine;
  read_target(reader, blob);
  blob.num_arguments = reader.number<uint32_t>("argument count");
  const uint32_t bindings = reader.count(kBindingBytes, kMaxBindings, "binding count");
  blob.bindings.reserve(bindings);
  for (uint32_t i = 0; i < bindings; ++i) {
    blob.bindings.push_back(read_binding(reader, i));
    if (blob.bindings.back().is_input) ++blob.num_inputs;
  }
  const uint32_t profiles = reader.count(kProfileBytes, kMaxProfiles, "profile count");
  blob.profiles.reserve(profiles);
  for (uint32_t i = 0; i < profiles; ++i) blob.profiles.push_back(read_profile(reader, i));
  read_states(reader, sections.minor, blob);
  const uint32_t options = reader.count(kBuildOptionBytes, kMaxBuildOptions, "build option count");
  blob.build_options.reserve(options);
  for (uint32_t i = 0; i < options; ++i) {
    const std::string field = "build option " + std::to_string(i);
    std::string key = reader.text(field + " name");
    std::string value = reader.text(field + " value");
    blob.build_options.emplace_back(std::move(key), std::move(value));
  }
  if (sections.minor >= 1) read_checks(reader, blob);
  if (reader.remaining() != 0 && sections.minor <= kMinor) {
    refuse("metadata", "has " + std::to_string(reader.remaining()) + " bytes after its last field");
  }
  return blob;
}

}  // namespace

const char* to_string(Flavour flavour) {
  return flavour == Flavour::kTensorRT ? "TensorRT" : "TensorRT-RTX";
}

std::string to_string(const TensorRTVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch) + "." + std::to_string(version.build);
}

executorch::runtime::Result<DelegateBlob> DelegateBlob::parse(const void* data, size_t size) {
  try {
    DelegateBlob blob = read_metadata(read_header({static_cast<const uint8_t*>(data), size}));
    check_contents(blob);
    return blob;
  } catch (const BlobRefused& refused) {
    return report(Error::DelegateInvalidCompatibility, refused.what());
  } catch (const std::bad_alloc&) {
    return report(Error::MemoryAllocationFailed, "out of memory");
  }
}

namespace {

size_t bytes_of(executorch::aten::ScalarType dtype, const Dims& shape) {
  size_t bytes = executorch::runtime::elementSize(dtype);
  for (uint32_t d = 0; d < shape.rank; ++d) bytes *= static_cast<size_t>(shape.size[d]);
  return bytes;
}

}  // namespace

size_t bytes_of(const Binding& binding, const Dims& shape) {
  return bytes_of(binding.dtype, shape);
}

size_t State::bytes() const { return bytes_of(dtype, shape); }

std::vector<Binding> DelegateBlob::tensors() const {
  std::vector<Binding> all = bindings;
  for (const bool is_input : {true, false}) {
    for (const State& state : states) {
      all.push_back({is_input ? state.input : state.output, state.dtype, is_input, false, 0,
                     state.shape, state.bytes()});
    }
  }
  if (!guard.empty()) {
    Dims one;
    one.rank = 1;
    one.size[0] = 1;
    all.push_back({guard, executorch::aten::ScalarType::Bool, false, false, 0, one, 1});
  }
  return all;
}

}  // namespace executorch_tensorrt
