// What the reader makes of the golden blobs, against the JSON beside each, and of damaged ones.
#include "golden_blob.h"

#include <executorch_tensorrt/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>

#include "captured_log.h"
#include "crc32.h"
#include "delegate_blob.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::runtime::Error;
using Bytes = std::vector<uint8_t>;

// --- The JSON that make_golden_blobs.py writes, without its white space --------------------------

std::string json(bool value) { return value ? "true" : "false"; }
std::string json(uint32_t value) { return std::to_string(value); }
std::string json(const std::string& value) { return "\"" + value + "\""; }

template <typename Items, typename Write>
std::string json_list(const Items& items, Write write) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ",") + write(item);
  return "[" + text + "]";
}

std::string json(const Dims& dims) {
  const std::vector<int64_t> sizes(dims.size.begin(), dims.size.begin() + dims.rank);
  return json_list(sizes, [](int64_t size) { return std::to_string(size); });
}

std::string json(const Binding& binding) {
  return "{\"name\":" + json(binding.name) +
         ",\"dtype\":" + std::to_string(static_cast<int>(binding.dtype)) +
         ",\"is_input\":" + json(binding.is_input) +
         ",\"is_shape_tensor\":" + json(binding.is_shape_tensor) +
         ",\"argument\":" + json(binding.argument) + ",\"dims\":" + json(binding.dims) +
         ",\"max_bytes\":" + std::to_string(binding.max_bytes) + "}";
}

std::string json(const Profile& profile) {
  return "{\"name\":" + json(profile.name) + ",\"engine_profile\":" + json(profile.engine_profile) +
         ",\"inputs\":" +
         json_list(profile.inputs,
                   [](const ShapeRange& range) {
                     return "{\"min\":" + json(range.min) + ",\"opt\":" + json(range.opt) +
                            ",\"max\":" + json(range.max) + "}";
                   }) +
         "}";
}

std::string json(const Section& section) {
  if (section.size == 0) return "null";
  char crc[9];
  std::snprintf(crc, sizeof(crc), "%08x", crc32(section.data, section.size));
  return "{\"size\":" + std::to_string(section.size) + ",\"crc32\":" + json(std::string(crc)) + "}";
}

std::string json(const State& state) {
  const Section initial =
      state.initial == nullptr ? Section{} : Section{state.initial->data(), state.initial->size()};
  return "{\"name\":" + json(state.name) +
         ",\"dtype\":" + std::to_string(static_cast<int>(state.dtype)) +
         ",\"shape\":" + json(state.shape) + ",\"input\":" + json(state.input) +
         ",\"output\":" + json(state.output) +
         ",\"mode\":" + std::to_string(static_cast<int>(state.mode)) +
         ",\"initial\":" + json(initial) + "}";
}

std::string json(const IndexCheck& check) {
  return "{\"binding\":" + json(check.binding) + ",\"least\":" + std::to_string(check.least) +
         ",\"greatest\":" + std::to_string(check.greatest) + ",\"extent\":[" +
         std::to_string(check.extent_binding) + "," + json(check.extent_dim) +
         "],\"contiguous\":" + json(check.contiguous) + ",\"state\":" + json(check.state) + "}";
}

/// Empty for a blob without states.
std::string json_states(const DelegateBlob& blob) {
  if (blob.states.empty()) return "";
  return ",\"states\":" + json_list(blob.states, [](const State& s) { return json(s); }) +
         ",\"guard\":" + json(blob.guard) + ",\"index_checks\":" +
         json_list(blob.index_checks, [](const IndexCheck& check) { return json(check); });
}

std::string json(const DelegateBlob& blob) {
  std::string id;
  for (uint8_t byte : blob.engine_id) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    id += digits;
  }
  std::string options;
  for (const auto& [key, value] : blob.build_options) {
    options += (options.empty() ? "" : ",") + json(key) + ":" + json(value);
  }
  return "{\"engine_id\":" + json(id) +
         ",\"flavour\":" + json(std::string(to_string(blob.flavour))) +
         ",\"version\":" + json(to_string(blob.version)) + ",\"compute_capability\":[" +
         json(blob.compute_capability_major) + "," + json(blob.compute_capability_minor) +
         "],\"hardware_compatibility\":" +
         std::to_string(static_cast<int>(blob.hardware_compatibility)) +
         ",\"version_compatible\":" + json(blob.version_compatible) +
         ",\"num_arguments\":" + json(blob.num_arguments) + ",\"bindings\":" +
         json_list(blob.bindings, [](const Binding& binding) { return json(binding); }) +
         ",\"profiles\":" +
         json_list(blob.profiles, [](const Profile& profile) { return json(profile); }) +
         ",\"build_options\":{" + options + "},\"engine\":" + json(blob.engine) +
         ",\"fallback\":" + json(blob.fallback) + json_states(blob) + "}";
}

std::string without_space(std::string text) {
  const auto is_space = [](unsigned char byte) { return std::isspace(byte) != 0; };
  text.erase(std::remove_if(text.begin(), text.end(), is_space), text.end());
  return text;
}

// --- The tests -----------------------------------------------------------------------------------

class GoldenBlob : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { golden_ = read_test_data(std::string(GetParam()) + ".blob"); }

  /// The code for a copy of the bytes that fills its allocation, so that a sanitizer sees every
  /// byte read beyond it.
  static Error parse(const uint8_t* data, size_t size) {
    const Bytes exact(data, data + size);
    clear_last_error();
    const auto blob = DelegateBlob::parse(exact.data(), exact.size());
    return blob.error();
  }

  void expect_refused(const Bytes& data, size_t at) {
    ASSERT_EQ(parse(data.data(), data.size()), Error::DelegateInvalidCompatibility)
        << "with another byte at " << at;
    ASSERT_STRNE(last_error_message(), "");
  }

  uint64_t header_field(size_t at) const {
    uint64_t value = 0;
    for (size_t i = 8; i > 0; --i) value = value << 8 | golden_[at + i - 1];
    return value;
  }

  Bytes golden_;
};

TEST_P(GoldenBlob, ReadsAsTheJsonBesideItSays) {
  const auto blob = DelegateBlob::parse(golden_.data(), golden_.size());
  ASSERT_TRUE(blob.ok()) << last_error_message();
  const Bytes expected = read_test_data(std::string(GetParam()) + ".json");
  EXPECT_EQ(without_space(json(*blob)),
            without_space(std::string(expected.begin(), expected.end())));
  const auto inputs = std::count_if(blob->bindings.begin(), blob->bindings.end(),
                                    [](const Binding& binding) { return binding.is_input; });
  EXPECT_EQ(blob->num_inputs, inputs);
}

TEST_P(GoldenBlob, SectionsPointIntoTheBytesThatWereParsed) {
  const auto blob = DelegateBlob::parse(golden_.data(), golden_.size());
  ASSERT_TRUE(blob.ok()) << last_error_message();
  EXPECT_EQ(blob->engine.data, golden_.data() + header_field(32));
  EXPECT_EQ(blob->engine.size, header_field(40));
  EXPECT_EQ(blob->fallback.size, header_field(56));
  const uint8_t* no_fallback = nullptr;
  EXPECT_EQ(blob->fallback.data,
            blob->fallback.size == 0 ? no_fallback : golden_.data() + header_field(48));
}

TEST_P(GoldenBlob, IsRefusedWhereverItIsCutOff) {
  const CapturedLog log;
  for (size_t size = 0; size < golden_.size(); ++size) {
    ASSERT_EQ(parse(golden_.data(), size), Error::DelegateInvalidCompatibility) << size;
    ASSERT_STRNE(last_error_message(), "") << size;
  }
  ASSERT_EQ(parse(golden_.data(), golden_.size()), Error::Ok);
}

TEST_P(GoldenBlob, IsRefusedWithBytesAfterIt) {
  const CapturedLog log;
  golden_.push_back(0);
  expect_refused(golden_, golden_.size());
}

TEST_P(GoldenBlob, IsRefusedWithAnyOtherHeaderByte) {
  const CapturedLog log;
  for (size_t at = 0; at < 64; ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      golden_[at] ^= static_cast<uint8_t>(flip);
      expect_refused(golden_, at);
      golden_[at] ^= static_cast<uint8_t>(flip);
    }
  }
}

TEST_P(GoldenBlob, IsRefusedWithAnyOtherByteOfMetadataOrPadding) {
  const CapturedLog log;
  const size_t engine = header_field(32);
  const size_t engine_end = engine + header_field(40);
  const size_t end = header_field(48) > 0 ? header_field(48) : golden_.size();
  for (size_t at = 64; at < end; ++at) {
    if (at >= engine && at < engine_end) continue;
    for (int flip : {0x01, 0x80, 0xFF}) {
      golden_[at] ^= static_cast<uint8_t>(flip);
      expect_refused(golden_, at);
      golden_[at] ^= static_cast<uint8_t>(flip);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenBlob, ::testing::ValuesIn(kGoldenNames),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace executorch_tensorrt::test
