#include "engine_compatibility.h"

#include <tuple>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

using executorch::runtime::Error;

/// Major, minor, patch and build must match (TensorRT for DRIVE OS 7.0.3, "Release Properties";
/// TensorRT 11.1, "Engine Compatibility"). A build number of 0 is one that nobody noted.
bool same(const TensorRTVersion& a, const TensorRTVersion& b) {
  return a.major == b.major && a.minor == b.minor && a.patch == b.patch &&
         (a.build == b.build || a.build == 0 || b.build == 0);
}

bool older(const TensorRTVersion& a, const TensorRTVersion& b) {
  return std::tie(a.major, a.minor, a.patch) < std::tie(b.major, b.minor, b.patch);
}

/// What BuilderFlag::kVERSION_COMPATIBLE promises: newer versions of the same major, and TensorRT
/// 11 for an engine of TensorRT 10 (TensorRT 11.4, "Support Matrix", Engine Portability).
bool runs_newer_than_built(const TensorRTVersion& built, const TensorRTVersion& found) {
  if (older(found, built)) return false;
  return found.major == built.major || (built.major == 10 && found.major == 11);
}

std::string capability(uint32_t major, uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

Error other_gpu(const std::string& needs, uint32_t major, uint32_t minor, const std::string& gpu) {
  return report(Error::DelegateInvalidCompatibility,
                "the engine was built for " + needs + ", and " + gpu + " has compute capability " +
                    capability(major, minor) + "; export the program for this GPU");
}

}  // namespace

Error check_version(const DelegateBlob& blob, const TensorRTVersion& found,
                    const std::string& library) {
  if (same(blob.version, found)) return Error::Ok;
  // TensorRT-RTX engines only ever run with the release that built them (TensorRT-RTX, "Engine
  // Compatibility").
  const bool may_be_newer = blob.flavour == Flavour::kTensorRT && blob.version_compatible;
  if (may_be_newer && runs_newer_than_built(blob.version, found)) return Error::Ok;
  const std::string built = std::string(to_string(blob.flavour)) + " " + to_string(blob.version);
  return report(Error::DelegateInvalidCompatibility,
                "the engine was built with " + built + ", and found is " + library +
                    "; it runs with " +
                    (may_be_newer ? "that version or a newer one" : "that version alone") +
                    ": install " + built + ", or export the program with the TensorRT found");
}

Error check_compute_capability(const DelegateBlob& blob, uint32_t major, uint32_t minor,
                               const std::string& gpu) {
  // kAMPERE_PLUS: Ampere, which is 8.0, and what came after it, wherever it was built.
  if (blob.hardware_compatibility == HardwareCompatibility::kAmperePlus) {
    return major >= 8 ? Error::Ok : other_gpu("compute capability 8.0 or newer", major, minor, gpu);
  }
  const uint32_t built_major = blob.compute_capability_major;
  const uint32_t built_minor = blob.compute_capability_minor;
  if (built_major == 0 && built_minor == 0) return Error::Ok;
  // With kSAME_COMPUTE_CAPABILITY, and without hardware compatibility; in the latter case TensorRT
  // itself warns of another model with the same compute capability.
  if (built_major == major && built_minor == minor) return Error::Ok;
  return other_gpu("compute capability " + capability(built_major, built_minor), major, minor, gpu);
}

Error check_tf32_override(const DelegateBlob& blob, const char* found) {
  if (blob.flavour != Flavour::kTensorRTRTX) return Error::Ok;
  const std::string here = found == nullptr ? "" : found;
  for (const auto& [key, built] : blob.build_options) {
    if (key != "nvidia_tf32_override" || built == here) continue;
    const auto text = [](const std::string& value) {
      return value.empty() ? std::string("not set") : "'" + value + "'";
    };
    return report(Error::DelegateInvalidCompatibility,
                  "NVIDIA_TF32_OVERRIDE was " + text(built) +
                      " in the environment where the engine was built and is " + text(here) +
                      " here; TensorRT-RTX needs it to be the same");
  }
  return Error::Ok;
}

}  // namespace executorch_tensorrt
