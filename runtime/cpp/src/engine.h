// The second seam: what computes. A TensorRT engine, or the CPU fallback program.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/result.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>

#include "delegate_blob.h"
#include "device.h"

namespace executorch_tensorrt {

/// What a tensor's device address must be a multiple of
/// (IExecutionContext::setTensorAddress: "properly aligned", 256 bytes).
inline constexpr size_t kTensorAlignment = 256;

/// One execution context. Not for two threads at once. `binding` is a position among the engine's
/// tensors: DelegateBlob::bindings, and behind them the states' inputs and outputs and the guard,
/// which have addresses, but no shapes to set or to ask for. Every call that fails reports its own
/// cause through report().
class ExecutionContext {
 public:
  virtual ~ExecutionContext() = default;

  /// Switches to a profile of the engine, ordered on `stream`. Forgets the input shapes.
  virtual Error set_optimization_profile(uint32_t engine_profile, Stream stream) = 0;
  /// Memory for activations, at least Engine::activation_bytes of the current profile.
  virtual Error set_activation_memory(void* memory, size_t bytes) = 0;
  /// Before the input's address, which must have room for the shape.
  virtual Error set_input_shape(size_t binding, const Dims& shape) = 0;
  /// Known once every input has its shape and every shape tensor its address; where
  /// knows_shapes_before_enqueue() is false, only once enqueue has returned.
  virtual Result<Dims> output_shape(size_t binding) = 0;
  /// Where a tensor lies, with the room there is. Host memory for shape tensors; on a GPU, device
  /// memory at a multiple of 256 for the others.
  virtual Error set_tensor_address(size_t binding, void* address, size_t bytes) = 0;
  virtual Error enqueue(Stream stream) = 0;
  /// Copies a computed output of `bytes` bytes to `address`, ordered on `stream`. Only where
  /// knows_shapes_before_enqueue() is false: outputs are not bound beforehand there.
  virtual Error copy_output(size_t binding, void* address, size_t bytes, Stream stream) = 0;
};

/// What contexts are made from; shared by all delegates that carry the same engine on one device.
/// Safe from any thread.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Device memory that a context needs while on this profile of the engine, in bytes.
  virtual size_t activation_bytes(uint32_t engine_profile) const = 0;
  /// False where outputs have a shape only once they have been computed.
  virtual bool knows_shapes_before_enqueue() const = 0;
  /// Whether an enqueue can be captured into a CUDA graph, as far as the engine tells beforehand.
  virtual bool can_be_captured() const = 0;
  /// After how many changes of its input shapes a context should make place for a new one, as it
  /// keeps memory of each. 0: it need not.
  virtual size_t max_shape_changes() const { return 0; }
  /// DelegateInvalidCompatibility if this is not the engine that the blob describes, although it
  /// has its id: its binding positions and profiles must be those of the engine.
  virtual Error check_describes(const DelegateBlob&) const { return Error::Ok; }
  /// A context on profile 0, without activation memory.
  virtual Result<std::unique_ptr<ExecutionContext>> create_execution_context() = 0;
};

/// How an engine is loaded; engines that differ in it are not shared.
struct EngineOptions {
  bool host_code_allowed = false;
  std::optional<int64_t>
      weight_streaming_budget;  // bytes of weights on the GPU; TensorRT's default

  bool operator<(const EngineOptions& other) const {
    return std::tie(host_code_allowed, weight_streaming_budget) <
           std::tie(other.host_code_allowed, other.weight_streaming_budget);
  }
};

/// Deserializes the blob's engine with the TensorRT library of its flavour, which is loaded at the
/// first call. NotFound where there is no such library, DelegateInvalidCompatibility where version,
/// flavour or GPU do not match, naming what the engine was built with and what was found.
Result<std::shared_ptr<Engine>> create_tensorrt_engine(const DelegateBlob& blob, Device& device,
                                                       const EngineOptions& options);

/// Loads the blob's fallback program. Its sections must outlive the engine.
Result<std::shared_ptr<Engine>> create_fallback_engine(const DelegateBlob& blob);

}  // namespace executorch_tensorrt
