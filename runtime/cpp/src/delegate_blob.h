// The delegate blob: what preprocess serialized, parsed and checked. docs/blob_format.md is its
// description; knows neither CUDA nor TensorRT.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/result.h>

#include <array>
#include <cstdint>
#include <memory>
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

enum class StateMode : uint8_t {
  kPingPong = 0,  // the output lies in other memory than the input
  kAlias = 1      // the output lies at the input's address
};

/// A mutable buffer that the delegate owns: an input and an output of the engine that are no
/// arguments of the call.
struct State {
  std::string name;  // fully qualified, of the buffer in the module
  executorch::aten::ScalarType dtype;
  Dims shape;                 // static
  std::string input, output;  // the engine's tensors
  StateMode mode;
  std::shared_ptr<const std::vector<uint8_t>> initial;  // row-major; nullptr: zeros

  size_t bytes() const;
};

/// What must hold of the values of an int input before a call touches anything: they are the
/// positions that a write goes to.
struct IndexCheck {
  uint32_t binding;         // an int32 or int64 input
  int64_t least, greatest;  // both inclusive
  int32_t extent_binding;   // -1: none; else that input's size in extent_dim is how many rows
  uint32_t extent_dim;      // are written from each value on
  bool contiguous;          // whether the values must ascend by 1
  std::string state;        // that the write goes to
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
  std::vector<State> states;
  std::vector<std::pair<std::string, std::string>> build_options;
  std::string guard;  // bool [1] output: every write was in bounds; empty: none
  std::vector<IndexCheck> index_checks;
  Section engine;    // both point into the blob that was parsed; no data: see external_engine
  Section fallback;  // an ExecuTorch program of the partition; size 0: none
  bool external_engine = false;  // the engine's bytes are in the program's named data

  // All tensors of the engine by position: the bindings, the states' inputs, their outputs, the
  // guard.
  size_t num_tensors() const { return guard_output() + (guard.empty() ? 0 : 1); }
  size_t state_input(size_t state) const { return bindings.size() + state; }
  size_t state_output(size_t state) const { return state_input(states.size() + state); }
  size_t guard_output() const { return state_input(2 * states.size()); }
  /// Described as bindings are; those behind `bindings` have no argument.
  std::vector<Binding> tensors() const;

  /// DelegateInvalidCompatibility, with the field named in the last error, for anything that is
  /// not a whole, consistent version-1 blob. Reads no byte outside [data, data + size).
  static executorch::runtime::Result<DelegateBlob> parse(const void* data, size_t size);
};

}  // namespace executorch_tensorrt
