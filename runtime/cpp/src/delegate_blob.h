// The delegate blob: what preprocess serialized, parsed and checked. docs/blob_format.md is its
// description; knows neither CUDA nor TensorRT.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/result.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dims.h"

namespace executorch_tensorrt {

enum class Flavour : uint8_t { kTensorRT = 1, kTensorRTRTX = 2 };
const char* to_string(Flavour flavour);

struct TensorRTVersion {
  uint32_t major = 0, minor = 0, patch = 0, build = 0;
};
std::string to_string(const TensorRTVersion& version);

enum class HardwareCompatibility : uint8_t {
  kNone = 0,
  kAmperePlus = 1,
  kSameComputeCapability = 2
};

/// One tensor of the engine. Inputs come before outputs in DelegateBlob::bindings.
struct Binding {
  std::string name;
  executorch::aten::ScalarType dtype;
  bool is_input;
  bool is_shape_tensor;  // its values shape other tensors; read on the host
  uint32_t argument;     // position among the delegate's arguments
  Dims dims;             // -1 where dynamic
  uint64_t max_bytes;    // at the upper bound of every dim, over all profiles
};

/// Bytes of the binding's tensor in that shape, which must be within the binding's profiles.
size_t bytes_of(const Binding& binding, const Dims& shape);

/// What one input may be under one profile; equal in min, opt and max where static.
struct ShapeRange {
  Dims min, opt, max;
};

struct Profile {
  std::string name;
  uint32_t engine_profile;         // index in the engine; names with the same ranges share one
  std::vector<ShapeRange> inputs;  // one an input binding, in their order
};

struct Section {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

struct DelegateBlob {
  std::array<uint8_t, 32> engine_id{};  // SHA-256 of the engine section
  Flavour flavour{};
  TensorRTVersion version;                // that built the engine
  uint32_t compute_capability_major = 0;  // 0.0: not tied to one when built
  uint32_t compute_capability_minor = 0;
  HardwareCompatibility hardware_compatibility{};
  bool version_compatible = false;
  uint32_t num_arguments = 0;  // of the delegate call: inputs, then outputs
  std::vector<Binding> bindings;
  uint32_t num_inputs = 0;  // the first bindings that are inputs
  std::vector<Profile> profiles;
  std::vector<std::pair<std::string, std::string>> build_options;
  Section engine;    // both point into the blob that was parsed; no data: see external_engine
  Section fallback;  // an ExecuTorch program of the partition; size 0: none
  bool external_engine = false;  // the engine's bytes are in the program's named data

  /// DelegateInvalidCompatibility, with the field named in the last error, for anything that is
  /// not a whole, consistent version-1 blob. Reads no byte outside [data, data + size).
  static executorch::runtime::Result<DelegateBlob> parse(const void* data, size_t size);
};

}  // namespace executorch_tensorrt
