#include "tensorrt_bindings.h"

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include <optional>
#include <string>
#include <vector>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

using executorch::aten::ScalarType;
using executorch::runtime::Error;
using nvinfer1::DataType;
using nvinfer1::ICudaEngine;
using nvinfer1::OptProfileSelector;
using nvinfer1::TensorIOMode;
using nvinfer1::TensorLocation;

static_assert(nvinfer1::Dims::MAX_DIMS == kMaxRank);

Error mismatch(const std::string& what) {
  return report(Error::DelegateInvalidCompatibility,
                "the engine is not the one its blob describes: " + what);
}

/// The same values in the same bytes, or none: TensorRT's FP8, FP4, INT4 and E8M0 have no
/// ScalarType that a blob may carry.
std::optional<ScalarType> scalar_type(DataType type) {
  switch (type) {
    case DataType::kFLOAT:
      return ScalarType::Float;
    case DataType::kHALF:
      return ScalarType::Half;
    case DataType::kBF16:
      return ScalarType::BFloat16;
    case DataType::kINT8:
      return ScalarType::Char;
    case DataType::kUINT8:
      return ScalarType::Byte;
    case DataType::kINT32:
      return ScalarType::Int;
    case DataType::kINT64:
      return ScalarType::Long;
    case DataType::kBOOL:
      return ScalarType::Bool;
    default:
      return std::nullopt;
  }
}

std::string dtype_name(DataType type) {
  const std::optional<ScalarType> same = scalar_type(type);
  if (same.has_value()) return executorch::runtime::toString(*same);
  if (type == DataType::kFP8) return "FP8";
  if (type == DataType::kINT4) return "INT4";
  return "nvinfer1::DataType " + std::to_string(static_cast<int32_t>(type));
}

/// Inputs exactly. An output's dim may be static on one side alone, where one of TensorRT and
/// torch.export could tell and the other not.
bool same_shape(const Binding& binding, const Dims& engine) {
  if (binding.is_input || binding.dims.rank != engine.rank) return binding.dims == engine;
  for (uint32_t d = 0; d < engine.rank; ++d) {
    const int64_t a = binding.dims.size[d], b = engine.size[d];
    if (a != b && a >= 0 && b >= 0) return false;
  }
  return true;
}

bool same_count(const Dims& a, const Dims& b) {
  if (!is_static(a) || !is_static(b)) return false;
  const auto count = [](const Dims& dims) {
    int64_t product = 1;
    for (uint32_t d = 0; d < dims.rank; ++d) product *= dims.size[d];
    return product;
  };
  return count(a) == count(b);
}

/// `reshaped`: the engine may see the same bytes in another static shape.
Error check_tensor(const ICudaEngine& engine, const Binding& binding, bool reshaped) {
  const char* name = binding.name.c_str();
  const std::string tensor = "tensor '" + binding.name + "' ";
  const TensorIOMode mode = engine.getTensorIOMode(name);
  if (mode == TensorIOMode::kNONE) return mismatch("it has no " + tensor);
  if ((mode == TensorIOMode::kINPUT) != binding.is_input) {
    return mismatch(tensor + (binding.is_input ? "is no input of it" : "is no output of it"));
  }
  const DataType dtype = engine.getTensorDataType(name);
  if (scalar_type(dtype) != binding.dtype) {
    return mismatch(tensor + "is " + dtype_name(dtype) + ", not " +
                    executorch::runtime::toString(binding.dtype));
  }
  const nvinfer1::Dims shape = engine.getTensorShape(name);
  const Dims in_engine = from_tensorrt(shape);
  const bool same = reshaped ? same_count(binding.dims, in_engine) : same_shape(binding, in_engine);
  if (shape.nbDims < 0 || !same) {
    return mismatch(tensor + "has shape " + to_string(from_tensorrt(shape)) + ", not " +
                    to_string(binding.dims));
  }
  const bool on_host = engine.getTensorLocation(name) == TensorLocation::kHOST;
  if (on_host != binding.is_shape_tensor) {
    return mismatch(tensor + (on_host ? "is a shape tensor, read on the host"
                                      : "is no shape tensor, but lies on the GPU"));
  }
  for (int32_t p = 0; p < engine.getNbOptimizationProfiles(); ++p) {
    if (engine.getTensorFormat(name, p) != nvinfer1::TensorFormat::kLINEAR) {
      return mismatch(tensor + "is not row-major but " + engine.getTensorFormatDesc(name, p));
    }
  }
  return Error::Ok;
}

bool within(const Dims& low, const Dims& dims, const Dims& high) {
  if (low.rank != dims.rank || high.rank != dims.rank) return false;
  for (uint32_t d = 0; d < dims.rank; ++d) {
    if (dims.size[d] < low.size[d] || dims.size[d] > high.size[d]) return false;
  }
  return true;
}

Error check_range(const ICudaEngine& engine, const Binding& input, const Profile& profile,
                  const ShapeRange& range) {
  const auto bound = [&](OptProfileSelector selector) {
    return from_tensorrt(engine.getProfileShape(
        input.name.c_str(), static_cast<int32_t>(profile.engine_profile), selector));
  };
  const Dims low = bound(OptProfileSelector::kMIN), high = bound(OptProfileSelector::kMAX);
  if (within(low, range.min, high) && within(low, range.max, high)) return Error::Ok;
  return mismatch("profile '" + profile.name + "' takes '" + input.name + "' of " +
                  to_string(range.min) + " to " + to_string(range.max) + ", the engine's profile " +
                  std::to_string(profile.engine_profile) + " takes " + to_string(low) + " to " +
                  to_string(high));
}

/// Whether a state's output must lie at its input's address (IKVCacheUpdateLayer), and that input.
Error check_alias(const ICudaEngine& engine, const State& state) {
  const char* aliased = engine.getAliasedInputTensor(state.output.c_str());
  const std::string input = aliased == nullptr ? "" : aliased;
  const std::string described = state.mode == StateMode::kAlias ? state.input : "";
  if (input == described) return Error::Ok;
  const auto text = [](const std::string& name) {
    return name.empty() ? std::string("no input") : "'" + name + "'";
  };
  return mismatch("state '" + state.name + "': its output '" + state.output + "' lies at " +
                  text(input) + ", not at " + text(described));
}

}  // namespace

Error check_bindings(const ICudaEngine& engine, const DelegateBlob& blob) {
  const auto num_tensors = static_cast<size_t>(engine.getNbIOTensors());
  if (num_tensors != blob.num_tensors()) {
    return mismatch("it has " + std::to_string(num_tensors) + " inputs and outputs, not " +
                    std::to_string(blob.num_tensors()));
  }
  const std::vector<Binding> tensors = blob.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool of_state = i >= blob.bindings.size() && i < blob.guard_output();
    const size_t state = of_state ? (i - blob.bindings.size()) % blob.states.size() : 0;
    const bool reshaped = of_state && blob.states[state].mode == StateMode::kAlias;
    const Error error = check_tensor(engine, tensors[i], reshaped);
    if (error != Error::Ok) return error;
  }
  for (const State& state : blob.states) {
    if (const Error error = check_alias(engine, state); error != Error::Ok) return error;
  }
  const auto num_profiles = static_cast<uint32_t>(engine.getNbOptimizationProfiles());
  for (const Profile& profile : blob.profiles) {
    if (profile.engine_profile >= num_profiles) {
      return mismatch("profile '" + profile.name + "' is its optimization profile " +
                      std::to_string(profile.engine_profile) + ", and it has " +
                      std::to_string(num_profiles));
    }
    for (size_t i = 0; i < profile.inputs.size(); ++i) {
      // TensorRT profiles hold the values of shape tensors, and nothing of static inputs.
      const Binding& input = blob.bindings[i];
      if (input.is_shape_tensor || is_static(input.dims)) continue;
      const Error error = check_range(engine, input, profile, profile.inputs[i]);
      if (error != Error::Ok) return error;
    }
  }
  return Error::Ok;
}

nvinfer1::Dims to_tensorrt(const Dims& dims) {
  nvinfer1::Dims result{};
  result.nbDims = static_cast<int32_t>(dims.rank);
  for (uint32_t d = 0; d < dims.rank; ++d) result.d[d] = dims.size[d];
  return result;
}

Dims from_tensorrt(const nvinfer1::Dims& dims) {
  Dims result;
  result.rank = dims.nbDims < 0 ? 0 : static_cast<uint32_t>(dims.nbDims);
  for (uint32_t d = 0; d < result.rank; ++d) result.size[d] = dims.d[d];
  return result;
}

}  // namespace executorch_tensorrt
