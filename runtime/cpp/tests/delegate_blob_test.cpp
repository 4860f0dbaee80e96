// What DelegateBlob::parse takes and what it refuses, on blobs made field by field.
#include "delegate_blob.h"

#include <executorch_tensorrt/error.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "byte_reader.h"
#include "captured_log.h"
#include "raw_blob.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::runtime::Error;

constexpr uint64_t kMax64 = UINT64_MAX;
constexpr uint32_t kMax32 = UINT32_MAX;

/// Parses a copy that fills its allocation, so that a sanitizer sees every byte read beyond it.
Error parse(const Bytes& data) {
  const Bytes exact(data.begin(), data.end());
  clear_last_error();
  return DelegateBlob::parse(exact.data(), exact.size()).error();
}

TEST(DelegateBlob, ParsesWhatTheFieldsSay) {
  const Bytes data = seal(RawMetadata().bytes());
  const auto blob = DelegateBlob::parse(data.data(), data.size());
  ASSERT_TRUE(blob.ok()) << last_error_message();
  EXPECT_EQ(blob->engine_id[0], 0xAB);
  EXPECT_EQ(blob->flavour, Flavour::kTensorRTRTX);
  EXPECT_EQ(to_string(blob->version), "1.6.1.120");
  EXPECT_EQ(blob->num_arguments, 2u);
  ASSERT_EQ(blob->bindings.size(), 2u);
  EXPECT_EQ(blob->num_inputs, 1u);
  EXPECT_EQ(blob->bindings[1].name, "y");
  EXPECT_FALSE(blob->bindings[1].is_input);
  EXPECT_EQ(to_string(blob->bindings[1].dims), "?x4");
  ASSERT_EQ(blob->profiles.size(), 2u);
  EXPECT_EQ(blob->profiles[1].name, "large");
  EXPECT_EQ(to_string(blob->profiles[1].inputs[0].max), "8x4");
  EXPECT_EQ(Bytes(blob->engine.data, blob->engine.data + blob->engine.size), kRawEngine);
  EXPECT_EQ(blob->fallback.size, 0u);
}

TEST(DelegateBlob, TakesAFallbackRightBehindAnEngineThatFillsItsLastBlock) {
  RawMetadata metadata;
  metadata.engine_size = 512;
  metadata.fallback_size = 1;
  const Bytes bytes = metadata.bytes();
  const Bytes data = assemble(header_for(bytes, 512, 1), bytes, Bytes(512, 0x11), Bytes{0x22});
  const auto blob = DelegateBlob::parse(data.data(), data.size());
  ASSERT_TRUE(blob.ok()) << last_error_message();
  EXPECT_EQ(blob->fallback.data, blob->engine.data + 512);
  EXPECT_EQ(*blob->fallback.data, 0x22);
}

TEST(DelegateBlob, LeavesFieldsOfANewerMinorVersionAlone) {
  RawMetadata metadata;
  metadata.minor = 7;
  metadata.trailing = "of a later version";
  EXPECT_EQ(parse(seal(metadata.bytes(), 7)), Error::Ok) << last_error_message();
}

TEST(DelegateBlob, RefusesANewerMajorVersionByNameWhateverFollows) {
  const CapturedLog log;
  EXPECT_EQ(parse({'E', 'T', 'R', 'T', 2, 0, 5, 0, 99}), Error::DelegateInvalidCompatibility);
  EXPECT_STREQ(last_error_message(),
               "blob version 2.5; this build reads 1.x: upgrade executorch-tensorrt");
}

TEST(DelegateBlob, RefusesAnOlderMajorVersion) {
  const CapturedLog log;
  EXPECT_EQ(parse({'E', 'T', 'R', 'T', 0, 0, 1, 0}), Error::DelegateInvalidCompatibility);
  EXPECT_STREQ(last_error_message(), "blob version 0.1; this build reads 1.x: export it again");
}

TEST(DelegateBlob, RefusesNoBytesAndOtherBytes) {
  const CapturedLog log;
  EXPECT_EQ(DelegateBlob::parse(nullptr, 0).error(), Error::DelegateInvalidCompatibility);
  EXPECT_EQ(parse(Bytes(300, 'x')), Error::DelegateInvalidCompatibility);
  EXPECT_STREQ(last_error_message(),
               "delegate blob: magic is not ETRT; these bytes are no delegate blob");
}

// --- Headers -------------------------------------------------------------------------------------

struct WrongHeader {
  const char* what;
  std::function<void(RawHeader&)> damage;
  const char* message;
};

TEST(DelegateBlob, RefusesAHeaderThatDoesNotFitTheBlob) {
  const WrongHeader cases[] = {
      {"header bytes", [](auto& h) { h.header_bytes = 72; }, "header bytes are 72, not 64"},
      {"metadata elsewhere", [](auto& h) { h.metadata_offset = 72; },
       "metadata offset is 72, not 64"},
      {"huge metadata", [](auto& h) { h.metadata_size = kMax64; },
       "metadata of 18446744073709551615 bytes at 64 is cut off"},
      {"metadata that wraps to the blob's start", [](auto& h) { h.metadata_size = kMax64 - 63; },
       "is cut off"},
      {"no metadata", [](auto& h) { h.metadata_size = 0; }, "metadata is empty"},
      {"metadata a byte shorter", [](auto& h) { h.metadata_size -= 1; }, "padding is not zero"},
      {"metadata a byte longer", [](auto& h) { h.metadata_size += 1; },
       "metadata does not have the CRC-32"},
      {"metadata a block shorter", [](auto& h) { h.metadata_size -= 256; },
       "engine offset is 512, not 256"},
      {"engine elsewhere", [](auto& h) { h.engine_offset += 256; },
       "engine offset is 768, not 512"},
      {"engine far away", [](auto& h) { h.engine_offset = kMax64; }, "engine offset is"},
      {"no engine", [](auto& h) { h.engine_size = 0; }, "engine is empty"},
      {"an engine that wraps", [](auto& h) { h.engine_size = kMax64 - 511; }, "is cut off"},
      {"a larger engine", [](auto& h) { h.engine_size = 10; },
       "engine of 10 bytes at 512 is cut off: the blob has 521 bytes"},
      {"a smaller engine", [](auto& h) { h.engine_size = 8; },
       "size is 521 bytes, its sections end at 520"},
      {"a fallback without a size", [](auto& h) { h.fallback_offset = 768; }, "fallback is empty"},
      {"a fallback without an offset", [](auto& h) { h.fallback_size = 9; },
       "fallback offset is 0, not 768"},
      {"a fallback beyond the end",
       [](auto& h) {
         h.fallback_offset = 768;
         h.fallback_size = 1;
       },
       "fallback of 1 bytes at 768 is cut off"},
      {"a fallback that wraps",
       [](auto& h) {
         h.fallback_offset = 768;
         h.fallback_size = kMax64 - 767;
       },
       "is cut off"},
      {"another CRC", [](auto& h) { h.crc ^= 1; }, "metadata does not have the CRC-32"},
      {"a minor version unlike its copy", [](auto& h) { h.minor = 1; },
       "minor version is 1 in the header, 0 in the metadata"},
  };
  const Bytes metadata = RawMetadata().bytes();
  for (const WrongHeader& wrong : cases) {
    SCOPED_TRACE(wrong.what);
    const CapturedLog log;
    RawHeader header = header_for(metadata, kRawEngine.size(), 0);
    ASSERT_EQ(parse(assemble(header, metadata, kRawEngine)), Error::Ok);
    wrong.damage(header);
    EXPECT_EQ(parse(assemble(header, metadata, kRawEngine)), Error::DelegateInvalidCompatibility);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, wrong.message, last_error_message());
  }
}

// --- Metadata with a right CRC -------------------------------------------------------------------

struct WrongMetadata {
  const char* what;
  std::function<void(RawMetadata&)> damage;
  const char* message;
};

void expect_refused(std::initializer_list<WrongMetadata> cases) {
  for (const WrongMetadata& wrong : cases) {
    SCOPED_TRACE(wrong.what);
    const CapturedLog log;
    RawMetadata metadata;
    wrong.damage(metadata);
    EXPECT_EQ(parse(seal(metadata.bytes())), Error::DelegateInvalidCompatibility);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, wrong.message, last_error_message());
    EXPECT_EQ(CapturedLog::text(), std::string(last_error_message()) + "\n");
  }
}

TEST(DelegateBlob, RefusesCopiesOfTheHeaderThatDiffer) {
  expect_refused({
      {"major", [](auto& m) { m.major = 2; },
       "major version is 1 in the header, 2 in the metadata"},
      {"engine", [](auto& m) { m.engine_size = 10; },
       "engine size is 9 in the header, 10 in the metadata"},
      {"fallback", [](auto& m) { m.fallback_size = 1; },
       "fallback size is 0 in the header, 1 in the metadata"},
  });
}

TEST(DelegateBlob, RefusesCodesThatItDoesNotKnow) {
  expect_refused({
      {"no flavour", [](auto& m) { m.flavour = 0; }, "flavour 0 is not known"},
      {"flavour", [](auto& m) { m.flavour = 3; }, "flavour 3 is not known"},
      {"compatibility", [](auto& m) { m.hardware_compatibility = 3; },
       "hardware compatibility is 3"},
      {"truth value", [](auto& m) { m.version_compatible = 2; }, "version compatible is 2"},
      {"int16", [](auto& m) { m.bindings[0].dtype = 2; }, "binding 0 'x' dtype 2 is not known"},
      {"complex", [](auto& m) { m.bindings[0].dtype = 9; }, "binding 0 'x' dtype 9 is not known"},
      {"no type", [](auto& m) { m.bindings[0].dtype = 0xFA; }, "'x' dtype 250 is not known"},
      {"direction", [](auto& m) { m.bindings[1].direction = 2; }, "binding 1 'y' direction is 2"},
      {"flags", [](auto& m) { m.bindings[1].flags = 0x80; }, "binding 1 'y' flags is 128"},
      {"states", [](auto& m) { m.state_count = 1; }, "state count is 1; version 1.0 has none"},
  });
}

TEST(DelegateBlob, RefusesCountsAndSizesBeyondTheBytesThereAre) {
  expect_refused({
      {"bindings", [](auto& m) { m.binding_count = kMax32; }, "binding count is 4294967295"},
      {"a few bindings too many", [](auto& m) { m.binding_count = 4; }, "binding 2"},
      {"profiles", [](auto& m) { m.profile_count = kMax32; }, "profile count is 4294967295"},
      {"one profile too many", [](auto& m) { m.profile_count = 3; }, "profile 2"},
      {"ranges", [](auto& m) { m.range_count = kMax32; },
       "profile 0 'small' input count is 4294967295"},
      {"options", [](auto& m) { m.option_count = kMax32; }, "build option count is 4294967295"},
      {"one option too many", [](auto& m) { m.option_count = 2; }, "build option count is 2"},
      {"rank 9", [](auto& m) { m.bindings[0].dims.assign(9, 1); }, "dims rank 9 is over 8"},
      {"rank 9 in a range", [](auto& m) { m.profiles[0].inputs[0].opt.assign(9, 1); },
       "profile 0 'small' opt rank 9 is over 8"},
      {"trailing bytes", [](auto& m) { m.trailing = "xyz"; },
       "metadata has 3 bytes after its last field"},
  });
}

TEST(DelegateBlob, RefusesNamesThatAreNoneOrThereTwice) {
  const std::string name256(256, 'n');
  RawMetadata longest;
  longest.bindings[0].name = name256;
  EXPECT_EQ(parse(seal(longest.bytes())), Error::Ok) << last_error_message();
  expect_refused({
      {"empty", [](auto& m) { m.bindings[0].name = ""; }, "binding 0 name has 0 bytes"},
      {"long", [&](auto& m) { m.bindings[0].name = name256 + "n"; },
       "binding 0 name has 257 bytes"},
      {"NUL", [](auto& m) { m.bindings[0].name = std::string("x\0y", 3); },
       "binding 0 name holds a NUL"},
      {"no text", [](auto& m) { m.bindings[0].name = "\xFF"; },
       "binding 0 name is not valid UTF-8"},
      {"same binding", [](auto& m) { m.bindings[1].name = "x"; },
       "binding 1 name 'x' is there twice"},
      {"empty profile", [](auto& m) { m.profiles[1].name = ""; }, "profile 1 name has 0 bytes"},
      {"same profile", [](auto& m) { m.profiles[1].name = "small"; },
       "profile 1 name 'small' is there twice"},
      {"empty option", [](auto& m) { m.build_options[0].first = ""; },
       "build option 0 name has 0 bytes"},
      {"option's value", [](auto& m) { m.build_options[0].second = "\x80"; },
       "build option 0 value is not valid UTF-8"},
      {"same option", [](auto& m) { m.build_options.emplace_back("level", "4"); },
       "build option 1 name 'level' is there twice"},
  });
}

TEST(DelegateBlob, RefusesBindingsThatContradictTheDelegateCall) {
  expect_refused({
      {"argument count", [](auto& m) { m.num_arguments = 1; },
       "binding 1 'y' argument 1 is not below the count, 1"},
      {"huge argument", [](auto& m) { m.bindings[1].argument = kMax32; },
       "binding 1 'y' argument 4294967295 is not below the count, 2"},
      {"one argument twice", [](auto& m) { m.bindings[1].argument = 0; },
       "binding 1 'y' argument 0 does not ascend from 0"},
      {"output first", [](auto& m) { std::swap(m.bindings[0].direction, m.bindings[1].direction); },
       "binding 1 'y' is an input after an output"},
  });
}

TEST(DelegateBlob, RefusesShapesAndRangesThatContradictEachOther) {
  expect_refused({
      {"negative dim", [](auto& m) { m.bindings[0].dims[0] = -2; }, "binding 0 'x' dim 0 is -2"},
      {"lowest dim", [](auto& m) { m.bindings[1].dims[0] = INT64_MIN; },
       "binding 1 'y' dim 0 is -9223372036854775808"},
      {"no profile", [](auto& m) { m.profiles.clear(); }, "profiles are none"},
      {"no range", [](auto& m) { m.profiles[1].inputs.clear(); },
       "profile 'large' has 0 input ranges for 1 inputs"},
      {"two ranges", [](auto& m) { m.profiles[1].inputs.push_back(m.profiles[1].inputs[0]); },
       "profile 'large' has 2 input ranges for 1 inputs"},
      {"rank", [](auto& m) { m.profiles[0].inputs[0].max = {2}; },
       "profile 'small' input 'x' has rank 1, its binding has 2"},
      {"min over opt", [](auto& m) { m.profiles[1].inputs[0].min[0] = 5; },
       "profile 'large' input 'x' dim 0 is min 5, opt 4, max 8"},
      {"opt over max", [](auto& m) { m.profiles[1].inputs[0].opt[0] = 9; }, "min 2, opt 9, max 8"},
      {"negative min", [](auto& m) { m.profiles[0].inputs[0].min[0] = -1; }, "dim 0 is min -1"},
      {"static dim", [](auto& m) { m.profiles[0].inputs[0].min[1] = 3; },
       "dim 1 is 3..4, but it is static with size 4"},
  });
}

TEST(DelegateBlob, RefusesEngineProfilesThatLeaveGapsOrMixRanges) {
  expect_refused({
      {"gap", [](auto& m) { m.profiles[1].engine_profile = 2; }, "engine profile 2 leaves a gap"},
      {"none with 0", [](auto& m) { m.profiles[0].engine_profile = 1; },
       "profile 'large' shares engine profile 1 with 'small', but their ranges differ"},
      {"0 left out",
       [](auto& m) {
         m.profiles.pop_back();
         m.profiles[0].engine_profile = 1;
       },
       "engine profile 1 leaves a gap"},
      {"0 left out by two names",
       [](auto& m) {
         m.profiles[1].inputs = m.profiles[0].inputs;
         m.profiles[0].engine_profile = m.profiles[1].engine_profile = 1;
       },
       "profile 'small' engine profile 1 leaves a gap; no profile has 0"},
      {"huge", [](auto& m) { m.profiles[1].engine_profile = kMax32; },
       "engine profile 4294967295 leaves a gap"},
  });
}

TEST(DelegateBlob, RefusesMaxBytesOtherThanTheShapesGive) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  expect_refused({
      {"input", [](auto& m) { m.bindings[0].max_bytes = 32; },
       "binding 0 'x' max bytes are 32, its largest shape takes 128"},
      {"static output", [](auto& m) { m.bindings[1].dims = {8, 5}; },
       "binding 1 'y' max bytes are 128, its largest shape takes 160"},
      {"dynamic output", [](auto& m) { m.bindings[1].max_bytes = 100; },
       "binding 1 'y' max bytes are 100, not a multiple of its static dims' 16"},
      {"empty output", [](auto& m) { m.bindings[1].dims = {-1, 0}; },
       "max bytes are 128, not a multiple of its static dims' 0"},
      {"product that wraps to 0",
       [](auto& m) {
         m.bindings[0].dims[0] = -1;
         m.profiles[1].inputs[0].max[0] = kHuge;
         m.bindings[0].max_bytes = 0;
       },
       "binding 0 'x' max bytes do not fit in 64 bits"},
      {"output that wraps", [](auto& m) { m.bindings[1].dims = {kHuge, kHuge, -1}; },
       "binding 1 'y' max bytes do not fit in 64 bits"},
  });
}

TEST(DelegateBlob, TakesEmptyTensorsHoweverLargeTheirOtherDims) {
  RawMetadata metadata;
  metadata.bindings[1] = {"y", 6, 1, 0, 1, {INT64_MAX, INT64_MAX, 0}, 0};
  EXPECT_EQ(parse(seal(metadata.bytes())), Error::Ok) << last_error_message();
}

// --- Anything at all -----------------------------------------------------------------------------

TEST(DelegateBlob, RefusesMetadataCutOffAnywhereWithARightCrc) {
  const CapturedLog log;
  RawMetadata newer;
  newer.minor = 1;  // which may have trailing bytes, but not fewer
  for (uint16_t minor : {uint16_t{0}, uint16_t{1}}) {
    const Bytes whole = minor == 0 ? RawMetadata().bytes() : newer.bytes();
    for (size_t size = 0; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_EQ(parse(seal(cut, minor)), Error::DelegateInvalidCompatibility) << size;
    }
    ASSERT_EQ(parse(seal(whole, minor)), Error::Ok);
  }
}

TEST(DelegateBlob, TakesOrRefusesDamagedMetadataWithARightCrc) {
  const CapturedLog log;
  const Bytes whole = RawMetadata().bytes();
  const uint8_t values[] = {0, 1, 2, 8, 9, 0x7F, 0x80, 0xFF};
  std::mt19937 random(1);
  size_t refused = 0;
  const auto try_it = [&](const Bytes& metadata) {
    const Error error = parse(seal(metadata));
    ASSERT_TRUE(error == Error::Ok || error == Error::DelegateInvalidCompatibility);
    if (error != Error::Ok) ++refused;
    CapturedLog::text().clear();
  };
  for (size_t at = 0; at < whole.size(); ++at) {
    for (uint8_t value : values) {
      Bytes damaged = whole;
      damaged[at] = value;
      try_it(damaged);
    }
  }
  for (int round = 0; round < 20000; ++round) {
    Bytes damaged = whole;
    for (size_t changes = 1 + random() % 8; changes > 0; --changes) {
      damaged[random() % damaged.size()] = values[random() % std::size(values)];
    }
    try_it(damaged);
  }
  EXPECT_GT(refused, 10000u);
}

TEST(DelegateBlob, TakesTextAsUtf8Defines) {
  for (const char* text : {"", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                           "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  const char* const wrong[] = {
      "\x80",              // continues nothing
      "\xC3",              // cut off
      "\xE2\x82",          // cut off
      "\xF0\x9F\x98",      // cut off
      "\xC3\x28",          // continued by ASCII
      "\xC0\xAF",          // overlong '/'
      "\xE0\x80\xAF",      // overlong '/'
      "\xF0\x80\x80\xAF",  // overlong '/'
      "\xED\xA0\x80",      // surrogate U+D800
      "\xED\xBF\xBF",      // surrogate U+DFFF
      "\xF4\x90\x80\x80",  // U+110000
      "\xF8\x88\x80\x80\x80",
      "\xFE",
      "\xFF",
  };
  for (const char* text : wrong) EXPECT_FALSE(is_utf8(text)) << text;
}

}  // namespace
}  // namespace executorch_tensorrt::test
