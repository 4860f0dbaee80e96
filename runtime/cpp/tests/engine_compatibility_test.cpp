#include "engine_compatibility.h"

#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <vector>

#include "last_error_has.h"

namespace executorch_tensorrt::test {
namespace {

DelegateBlob built_with(Flavour flavour, TensorRTVersion version, bool version_compatible = false) {
  DelegateBlob blob;
  blob.flavour = flavour;
  blob.version = version;
  blob.version_compatible = version_compatible;
  return blob;
}

DelegateBlob built_for(uint32_t major, uint32_t minor, HardwareCompatibility compatibility) {
  DelegateBlob blob;
  blob.compute_capability_major = major;
  blob.compute_capability_minor = minor;
  blob.hardware_compatibility = compatibility;
  return blob;
}

struct VersionCase {
  const char* why;
  Flavour flavour;
  TensorRTVersion built, found;
  bool version_compatible;
  bool runs;
};

TEST(EngineCompatibility, AnEngineRunsWithItsOwnVersionAndOthersOnlyWhereTensorRTSaysSo) {
  executorch::runtime::runtime_init();
  const Flavour trt = Flavour::kTensorRT, rtx = Flavour::kTensorRTRTX;
  const std::vector<VersionCase> cases = {
      {"the same", trt, {11, 1, 0, 106}, {11, 1, 0, 106}, false, true},
      {"another build", trt, {11, 1, 0, 106}, {11, 1, 0, 107}, false, false},
      {"a build that nobody noted", trt, {11, 1, 0, 0}, {11, 1, 0, 107}, false, true},
      {"another patch", trt, {11, 1, 0, 106}, {11, 1, 1, 106}, false, false},
      {"newer", trt, {11, 1, 0, 106}, {11, 2, 0, 3}, false, false},
      {"newer, compatible", trt, {11, 1, 0, 106}, {11, 2, 0, 3}, true, true},
      {"older, compatible", trt, {11, 1, 0, 106}, {11, 0, 0, 3}, true, false},
      {"10 in 11, compatible", trt, {10, 16, 1, 11}, {11, 1, 0, 106}, true, true},
      {"11 in 10, compatible", trt, {11, 1, 0, 106}, {10, 16, 1, 11}, true, false},
      {"two majors on, compatible", trt, {10, 16, 1, 11}, {12, 0, 0, 1}, true, false},
      {"RTX, the same", rtx, {1, 6, 1, 120}, {1, 6, 1, 120}, false, true},
      {"RTX, newer", rtx, {1, 5, 0, 114}, {1, 6, 1, 120}, false, false},
      {"RTX has no compatible engines", rtx, {1, 5, 0, 114}, {1, 6, 1, 120}, true, false},
  };
  for (const VersionCase& c : cases) {
    const DelegateBlob blob = built_with(c.flavour, c.built, c.version_compatible);
    EXPECT_EQ(check_version(blob, c.found, "found"),
              c.runs ? Error::Ok : Error::DelegateInvalidCompatibility)
        << c.why;
  }
}

TEST(EngineCompatibility, AVersionMismatchNamesBothVersionsAndWhereTheOneFoundLies) {
  executorch::runtime::runtime_init();
  const DelegateBlob blob = built_with(Flavour::kTensorRTRTX, {1, 5, 0, 114});
  EXPECT_EQ(check_version(blob, {1, 6, 1, 120}, "TensorRT-RTX 1.6.1.120 (/lib/x.so)"),
            Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("built with TensorRT-RTX 1.5.0.114"));
  EXPECT_TRUE(last_error_has("found is TensorRT-RTX 1.6.1.120 (/lib/x.so)"));
}

struct GpuCase {
  const char* why;
  uint32_t built_major, built_minor;
  HardwareCompatibility compatibility;
  uint32_t major, minor;
  bool runs;
};

TEST(EngineCompatibility, AnEngineRunsOnTheComputeCapabilitiesItWasBuiltFor) {
  executorch::runtime::runtime_init();
  const auto none = HardwareCompatibility::kNone;
  const auto ampere = HardwareCompatibility::kAmperePlus;
  const auto same = HardwareCompatibility::kSameComputeCapability;
  const std::vector<GpuCase> cases = {
      {"the same", 8, 6, none, 8, 6, true},
      {"another minor", 8, 6, none, 8, 9, false},
      {"another major", 8, 6, none, 9, 0, false},
      {"not tied", 0, 0, none, 9, 0, true},
      {"Ampere and newer, on newer", 8, 0, ampere, 12, 0, true},
      {"Ampere and newer, on older than built", 9, 0, ampere, 8, 0, true},
      {"Ampere and newer, on Turing", 8, 0, ampere, 7, 5, false},
      {"same capability, the same", 8, 9, same, 8, 9, true},
      {"same capability, another", 8, 9, same, 8, 6, false},
  };
  for (const GpuCase& c : cases) {
    const DelegateBlob blob = built_for(c.built_major, c.built_minor, c.compatibility);
    EXPECT_EQ(check_compute_capability(blob, c.major, c.minor, "cuda:0"),
              c.runs ? Error::Ok : Error::DelegateInvalidCompatibility)
        << c.why;
  }
}

TEST(EngineCompatibility, AnotherGpuIsNamedWithItsComputeCapabilityAndTheOneNeeded) {
  executorch::runtime::runtime_init();
  const DelegateBlob blob = built_for(8, 6, HardwareCompatibility::kNone);
  EXPECT_EQ(check_compute_capability(blob, 9, 0, "cuda:0 (NVIDIA H200)"),
            Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("built for compute capability 8.6"));
  EXPECT_TRUE(last_error_has("cuda:0 (NVIDIA H200) has compute capability 9.0"));
}

TEST(EngineCompatibility, TheTf32OverrideMustBeWhatItWasForTensorRTRTXAlone) {
  DelegateBlob exact = built_with(Flavour::kTensorRTRTX, {});
  exact.build_options = {{"torch", "2"}, {"nvidia_tf32_override", "0"}};
  EXPECT_EQ(check_tf32_override(exact, "0"), Error::Ok);
  EXPECT_EQ(check_tf32_override(exact, nullptr), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("NVIDIA_TF32_OVERRIDE was '0'"));
  EXPECT_TRUE(last_error_has("is not set here"));

  DelegateBlob plain = built_with(Flavour::kTensorRTRTX, {});
  plain.build_options = {{"nvidia_tf32_override", ""}};
  EXPECT_EQ(check_tf32_override(plain, nullptr), Error::Ok);
  EXPECT_EQ(check_tf32_override(plain, "0"), Error::DelegateInvalidCompatibility);
  EXPECT_EQ(check_tf32_override(built_with(Flavour::kTensorRTRTX, {}), "0"), Error::Ok);
  plain.flavour = Flavour::kTensorRT;
  EXPECT_EQ(check_tf32_override(plain, "0"), Error::Ok);
}

}  // namespace
}  // namespace executorch_tensorrt::test
