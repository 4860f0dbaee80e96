// The most that a blob may list: what each list takes in memory is many times its bytes.
#include <gtest/gtest.h>

#include <string>

#include "captured_log.h"
#include "delegate_blob.h"
#include "last_error_has.h"
#include "raw_blob.h"

namespace executorch_tensorrt::test {
namespace {

Error parse(const RawMetadata& metadata) {
  const Bytes blob = seal(metadata.bytes(), metadata.minor);
  return DelegateBlob::parse(blob.data(), blob.size()).error();
}

/// Scalar inputs, and one output.
RawMetadata with_bindings(uint32_t count) {
  RawMetadata metadata;
  metadata.num_arguments = count;
  metadata.bindings.clear();
  metadata.profiles = {{"only", 0, {}}};
  for (uint32_t i = 0; i < count; ++i) {
    const bool is_output = i + 1 == count;
    metadata.bindings.push_back(
        {"t" + std::to_string(i), 6, static_cast<uint8_t>(is_output), 0, i, {}, 4});
    if (!is_output) metadata.profiles[0].inputs.push_back({{}, {}, {}});
  }
  return metadata;
}

RawMetadata with_profiles(uint32_t count) {
  RawMetadata metadata;
  const auto ranges = metadata.profiles[1].inputs;  // up to 8 rows, as the bindings' max bytes are
  metadata.profiles.clear();
  for (uint32_t i = 0; i < count; ++i) metadata.profiles.push_back({std::to_string(i), i, ranges});
  return metadata;
}

RawMetadata with_options(uint32_t count) {
  RawMetadata metadata;
  metadata.build_options.clear();
  for (uint32_t i = 0; i < count; ++i) metadata.build_options.emplace_back(std::to_string(i), "");
  return metadata;
}

TEST(BlobLimits, AsManyBindingsProfilesAndBuildOptionsAsMayBeAreReadAndOneMoreIsRefused) {
  const CapturedLog log;
  EXPECT_EQ(parse(with_bindings(4096)), Error::Ok) << last_error_message();
  EXPECT_EQ(parse(with_bindings(4097)), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("binding count is 4097; at most 4096 may be"));
  EXPECT_EQ(parse(with_profiles(256)), Error::Ok) << last_error_message();
  EXPECT_EQ(parse(with_profiles(257)), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("profile count is 257; at most 256 may be"));
  EXPECT_EQ(parse(with_options(1024)), Error::Ok) << last_error_message();
  EXPECT_EQ(parse(with_options(1025)), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("build option count is 1025; at most 1024 may be"));
}

TEST(BlobLimits, NamesOf256BytesAreReadAndLongerOnesRefused) {
  const CapturedLog log;
  for (const size_t size : {256, 257, 1 << 20}) {
    RawMetadata binding, profile;
    binding.bindings[0].name.assign(size, 'n');
    profile.profiles[0].name.assign(size, 'n');
    const Error expected = size == 256 ? Error::Ok : Error::DelegateInvalidCompatibility;
    EXPECT_EQ(parse(binding), expected) << size;
    EXPECT_EQ(parse(profile), expected) << size;
  }
}

TEST(BlobLimits, SizesWhoseProductOverflowsAreRefusedAndNeverWrap) {
  const CapturedLog log;
  for (const int64_t size : {int64_t{1} << 62, INT64_MAX, int64_t{1} << 32}) {
    RawMetadata metadata;
    metadata.bindings[0].dims = {-1, size};
    metadata.bindings[0].max_bytes = 0;  // what it wraps to
    for (RawProfile& profile : metadata.profiles) {
      for (auto* bound : {&profile.inputs[0].min, &profile.inputs[0].opt, &profile.inputs[0].max}) {
        *bound = {int64_t{1} << 32, size};
      }
    }
    EXPECT_EQ(parse(metadata), Error::DelegateInvalidCompatibility);
    EXPECT_TRUE(last_error_has("max bytes do not fit in 64 bits"));
  }
}

}  // namespace
}  // namespace executorch_tensorrt::test
