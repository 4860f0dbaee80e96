// A TensorRT engine and its execution contexts behind the engine seam.
#include <NvInferRuntime.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "cuda_device.h"
#include "device_buffer.h"
#include "engine.h"
#include "engine_compatibility.h"
#include "last_error.h"
#include "tensorrt_bindings.h"
#include "tensorrt_library.h"
#include "tensorrt_logger.h"

namespace executorch_tensorrt {

namespace {

/// A context of TensorRT-RTX 1.6 keeps host memory for every enqueue in new shapes, old ones coming
/// back too, until it goes: 55 KB where an engine has 4 transformer layers.
constexpr size_t kMaxShapeChangesRTX = 4096;

class TensorRTEngine final : public Engine, public std::enable_shared_from_this<TensorRTEngine> {
 public:
  TensorRTEngine(const DelegateBlob& blob, Device& device)
      : device_(device),
        flavour_(blob.flavour),
        bindings_(blob.tensors()),
        placeholder_(device, MemoryKind::kDevice) {}

  ~TensorRTEngine() override {
    const DeviceScope scope(device_);
    engine_.reset();
    runtime_.reset();  // TensorRT wants it to outlive its engines
  }

  /// Deserializes; to be called once, on success of which the engine can be used.
  Error load(const DelegateBlob& blob, const TensorRTLibrary& library,
             const EngineOptions& options);

  size_t activation_bytes(uint32_t engine_profile) const override {
    return activation_bytes_[engine_profile];
  }
  /// The partitioner leaves operators whose output shapes depend on values outside.
  bool knows_shapes_before_enqueue() const override { return true; }
  /// Streamed weights are copied from the host while the engine executes.
  bool can_be_captured() const override { return engine_->getStreamableWeightsSize() == 0; }
  size_t max_shape_changes() const override {
    return flavour_ == Flavour::kTensorRTRTX ? kMaxShapeChangesRTX : 0;
  }
  Result<std::unique_ptr<ExecutionContext>> create_execution_context() override;

  Error check_describes(const DelegateBlob& blob) const override;

  Device& device() const { return device_; }
  const std::vector<Binding>& bindings() const { return bindings_; }
  size_t num_profiles() const { return activation_bytes_.size(); }
  /// Where tensors without elements point to, since TensorRT takes no null pointer.
  void* placeholder() const { return placeholder_.data(); }

 private:
  Error set_weight_streaming_budget(const EngineOptions& options);

  Device& device_;
  const Flavour flavour_;
  const std::vector<Binding> bindings_;  // all tensors of the engine, as the blob counts them
  std::unique_ptr<nvinfer1::IRuntime> runtime_;
  std::unique_ptr<nvinfer1::ICudaEngine> engine_;
  std::vector<size_t> activation_bytes_;
  DeviceBuffer placeholder_;
};

class TensorRTContext final : public ExecutionContext {
 public:
  TensorRTContext(std::shared_ptr<TensorRTEngine> engine,
                  std::unique_ptr<nvinfer1::IExecutionContext> context)
      : engine_(std::move(engine)),
        context_(std::move(context)),
        needed_bytes_(engine_->bindings().size(), 0) {}

  ~TensorRTContext() override {
    const DeviceScope scope(engine_->device());
    context_.reset();
  }

  Error set_optimization_profile(uint32_t engine_profile, Stream stream) override;
  Error set_activation_memory(void* memory, size_t bytes) override;
  Error set_input_shape(size_t binding, const Dims& shape) override;
  Result<Dims> output_shape(size_t binding) override;
  Error set_tensor_address(size_t binding, void* address, size_t bytes) override;
  Error enqueue(Stream stream) override;
  Error copy_output(size_t binding, void*, size_t, Stream) override {
    return report(Error::NotSupported,
                  "output '" + name(binding) + "' is bound before enqueue, not copied after it");
  }

 private:
  const Binding& binding_at(size_t binding) const { return engine_->bindings()[binding]; }
  const std::string& name(size_t binding) const { return binding_at(binding).name; }
  Error infer_shapes();
  void forget_output_shapes();

  const std::shared_ptr<TensorRTEngine> engine_;  // outlives its contexts
  std::unique_ptr<nvinfer1::IExecutionContext> context_;
  uint32_t engine_profile_ = 0;
  bool shapes_inferred_ = false;
  std::vector<size_t> needed_bytes_;  // one a binding, 0 while its shape is not known
};

Error TensorRTEngine::load(const DelegateBlob& blob, const TensorRTLibrary& library,
                           const EngineOptions& options) {
  const DeviceScope scope(device_);
  if (scope.error() != Error::Ok) return scope.error();
  if (const Error error = placeholder_.reserve(kTensorAlignment); error != Error::Ok) return error;

  // The version is what TensorRT takes the caller to be compiled for. can_call() has seen to that,
  // and TensorRT-RTX would not know a TensorRT's.
  const int32_t version =
      library.flavour == Flavour::kTensorRT
          ? NV_TENSORRT_VERSION
          : NV_TENSORRT_VERSION_INT(library.version.major, library.version.minor,
                                    library.version.patch);
  forget_tensorrt_errors();
  runtime_.reset(
      static_cast<nvinfer1::IRuntime*>(library.create_runtime(&tensorrt_logger(), version)));
  if (runtime_ == nullptr) {
    return report_tensorrt(Error::Internal,
                           library.describe() + " makes no runtime on " + device_.name());
  }
  runtime_->setEngineHostCodeAllowed(options.host_code_allowed);
  // TensorRT reads the engine where it lies in the program, and keeps nothing of it.
  engine_.reset(runtime_->deserializeCudaEngine(blob.engine.data, blob.engine.size));
  if (engine_ == nullptr) {
    const bool no_memory = tensorrt_errors().find("OutOfMemory") != std::string::npos ||
                           tensorrt_errors().find("out of memory") != std::string::npos;
    return report_tensorrt(
        no_memory ? Error::MemoryAllocationFailed : Error::DelegateInvalidCompatibility,
        library.describe() + " does not load the engine (built with " + to_string(blob.version) +
            ", " + std::to_string(blob.engine.size) + " bytes) on " + device_.name());
  }
  if (const Error error = check_bindings(*engine_, blob); error != Error::Ok) return error;
  if (const Error error = set_weight_streaming_budget(options); error != Error::Ok) return error;
  for (int32_t p = 0; p < engine_->getNbOptimizationProfiles(); ++p) {
    activation_bytes_.push_back(static_cast<size_t>(engine_->getDeviceMemorySizeForProfileV2(p)));
  }
  return Error::Ok;
}

Error TensorRTEngine::set_weight_streaming_budget(const EngineOptions& options) {
  if (!options.weight_streaming_budget) return Error::Ok;
  const int64_t streamable = engine_->getStreamableWeightsSize();
  if (streamable == 0) {
    return report(Error::InvalidArgument,
                  "weight_streaming_budget is given, but the engine was not built with "
                  "CompileOptions(weight_streaming=True)");
  }
  const int64_t budget = std::min(*options.weight_streaming_budget, streamable);
  if (engine_->setWeightStreamingBudgetV2(budget)) return Error::Ok;
  return report_tensorrt(Error::InvalidArgument,
                         "TensorRT takes no weight_streaming_budget of " + std::to_string(budget) +
                             " bytes (the engine can stream " + std::to_string(streamable) + ")");
}

Error TensorRTEngine::check_describes(const DelegateBlob& blob) const {
  const std::vector<Binding> described = blob.tensors();
  const bool same_positions =
      std::equal(bindings_.begin(), bindings_.end(), described.begin(), described.end(),
                 [](const Binding& a, const Binding& b) { return a.name == b.name; });
  if (!same_positions) {
    return report(Error::DelegateInvalidCompatibility,
                  "two delegates carry the same engine id, but list its tensors differently");
  }
  return check_bindings(*engine_, blob);
}

// TensorRT allows this from several threads at once.
Result<std::unique_ptr<ExecutionContext>> TensorRTEngine::create_execution_context() {
  const DeviceScope scope(device_);
  if (scope.error() != Error::Ok) return scope.error();
  forget_tensorrt_errors();
  std::unique_ptr<nvinfer1::IExecutionContext> context(
      engine_->createExecutionContext(nvinfer1::ExecutionContextAllocationStrategy::kUSER_MANAGED));
  if (context == nullptr) {
    return report_tensorrt(Error::Internal, "no execution context on " + device_.name());
  }
  return std::unique_ptr<ExecutionContext>(
      std::make_unique<TensorRTContext>(shared_from_this(), std::move(context)));
}

Error TensorRTContext::set_optimization_profile(uint32_t engine_profile, Stream stream) {
  const DeviceScope scope(engine_->device());
  if (scope.error() != Error::Ok) return scope.error();
  forget_tensorrt_errors();
  if (!context_->setOptimizationProfileAsync(static_cast<int32_t>(engine_profile),
                                             static_cast<cudaStream_t>(stream))) {
    return report_tensorrt(Error::Internal, "no switch to optimization profile " +
                                                std::to_string(engine_profile) + " of " +
                                                std::to_string(engine_->num_profiles()));
  }
  engine_profile_ = engine_profile;
  needed_bytes_.assign(needed_bytes_.size(), 0);
  shapes_inferred_ = false;
  return Error::Ok;
}

Error TensorRTContext::set_activation_memory(void* memory, size_t bytes) {
  const size_t needed = engine_->activation_bytes(engine_profile_);
  if (bytes < needed) {
    return report(Error::Internal, "activation memory of " + std::to_string(bytes) +
                                       " bytes: optimization profile " +
                                       std::to_string(engine_profile_) + " needs " +
                                       std::to_string(needed));
  }
  const DeviceScope scope(engine_->device());
  if (scope.error() != Error::Ok) return scope.error();
  forget_tensorrt_errors();
  context_->setDeviceMemoryV2(memory, static_cast<int64_t>(bytes));
  if (tensorrt_errors().empty()) return Error::Ok;  // the call itself returns nothing
  return report_tensorrt(Error::Internal,
                         "activation memory of " + std::to_string(bytes) + " bytes was not taken");
}

void TensorRTContext::forget_output_shapes() {
  shapes_inferred_ = false;
  for (size_t b = 0; b < needed_bytes_.size(); ++b) {
    if (!binding_at(b).is_input) needed_bytes_[b] = 0;
  }
}

Error TensorRTContext::set_input_shape(size_t binding, const Dims& shape) {
  const DeviceScope scope(engine_->device());
  if (scope.error() != Error::Ok) return scope.error();
  forget_output_shapes();
  forget_tensorrt_errors();
  if (!is_static(shape) || !context_->setInputShape(name(binding).c_str(), to_tensorrt(shape))) {
    return report_tensorrt(Error::InvalidArgument,
                           "input '" + name(binding) + "' can not be " + to_string(shape) +
                               " on optimization profile " + std::to_string(engine_profile_));
  }
  needed_bytes_[binding] = bytes_of(binding_at(binding), shape);
  return Error::Ok;
}

Error TensorRTContext::infer_shapes() {
  if (shapes_inferred_) return Error::Ok;
  const DeviceScope scope(engine_->device());
  if (scope.error() != Error::Ok) return scope.error();
  forget_tensorrt_errors();
  std::array<const char*, 8> names{};
  const int32_t lacking = context_->inferShapes(static_cast<int32_t>(names.size()), names.data());
  if (lacking == 0) {
    shapes_inferred_ = true;
    return Error::Ok;
  }
  if (lacking < 0) {
    return report_tensorrt(Error::InvalidArgument,
                           "the engine's output shapes do not follow from these inputs");
  }
  std::string text =
      "no output shapes yet: these inputs have no shape or, if shape tensors, no address:";
  for (size_t i = 0; i < names.size() && i < static_cast<size_t>(lacking); ++i) {
    text += std::string(" '") + names[i] + "'";
  }
  return report_tensorrt(Error::Internal, text);
}

Result<Dims> TensorRTContext::output_shape(size_t binding) {
  if (const Error error = infer_shapes(); error != Error::Ok) return error;
  const nvinfer1::Dims shape = context_->getTensorShape(name(binding).c_str());
  const Dims dims = from_tensorrt(shape);
  if (shape.nbDims < 0 || !is_static(dims)) {
    return report_tensorrt(Error::NotSupported,
                           "output '" + name(binding) + "' has no shape before it is computed (" +
                               to_string(dims) + "): it depends on the inputs' values");
  }
  needed_bytes_[binding] = bytes_of(binding_at(binding), dims);
  return dims;
}

Error TensorRTContext::set_tensor_address(size_t binding, void* address, size_t bytes) {
  const Binding& tensor = binding_at(binding);
  if (bytes < needed_bytes_[binding]) {
    return report(Error::Internal, "tensor '" + tensor.name + "' needs " +
                                       std::to_string(needed_bytes_[binding]) +
                                       " bytes, its memory has " + std::to_string(bytes));
  }
  std::optional<DeviceScope> scope;
  if (tensor.is_shape_tensor) {
    scope.emplace(
        engine_->device());  // TensorRT waits for streams before it lets go of the old one
    if (scope->error() != Error::Ok) return scope->error();
    alignas(std::max_align_t) static std::array<int64_t, kMaxRank> no_values{};
    if (address == nullptr && bytes == 0) address = no_values.data();
    shapes_inferred_ = false;  // they may depend on its values
  } else if (bytes == 0) {
    address = engine_->placeholder();
  } else if (reinterpret_cast<uintptr_t>(address) % kTensorAlignment != 0) {
    return report(Error::InvalidArgument,
                  "tensor '" + tensor.name + "' lies at an address that is no multiple of " +
                      std::to_string(kTensorAlignment) + ", as TensorRT needs it");
  }
  forget_tensorrt_errors();
  if (address == nullptr || !context_->setTensorAddress(tensor.name.c_str(), address)) {
    return report_tensorrt(Error::Internal,
                           "the address of tensor '" + tensor.name +
                               (address == nullptr ? "' is null" : "' was not taken"));
  }
  return Error::Ok;
}

Error TensorRTContext::enqueue(Stream stream) {
  const DeviceScope scope(engine_->device());
  if (scope.error() != Error::Ok) return scope.error();
  forget_tensorrt_errors();
  if (context_->enqueueV3(static_cast<cudaStream_t>(stream))) return Error::Ok;
  return report_tensorrt(Error::Internal, "the engine's enqueue on " + engine_->device().name() +
                                              ", optimization profile " +
                                              std::to_string(engine_profile_) + ", failed");
}

/// Whether the engine was built for a GPU like this one.
Error check_gpu(const DelegateBlob& blob, const Device& device) {
  const Result<const CudaDriver*> driver = cuda_driver();
  if (!driver.ok()) return driver.error();
  const Result<GpuProperties> gpu = gpu_properties(*driver.get(), device.index());
  if (!gpu.ok()) return gpu.error();
  return check_compute_capability(blob, static_cast<uint32_t>(gpu->compute_capability_major),
                                  static_cast<uint32_t>(gpu->compute_capability_minor),
                                  device.name() + " (" + gpu->name + ")");
}

}  // namespace

Result<std::shared_ptr<Engine>> create_tensorrt_engine(const DelegateBlob& blob, Device& device,
                                                       const EngineOptions& options) {
  if (device.reads_host_memory()) {
    return report(Error::InvalidArgument,
                  "a TensorRT engine runs on a GPU, not on " + device.name());
  }
  const Result<const TensorRTLibrary*> library = tensorrt_library(blob.flavour);
  if (!library.ok()) return library.error();
  const TensorRTLibrary& found = *library.get();
  Error error = check_version(blob, found.version, found.describe());
  if (error == Error::Ok) error = check_gpu(blob, device);
  if (error == Error::Ok) error = check_tf32_override(blob, std::getenv("NVIDIA_TF32_OVERRIDE"));
  if (error != Error::Ok) return error;
  auto engine = std::make_shared<TensorRTEngine>(blob, device);
  error = engine->load(blob, found, options);
  if (error != Error::Ok) return error;
  return std::shared_ptr<Engine>(std::move(engine));
}

}  // namespace executorch_tensorrt
