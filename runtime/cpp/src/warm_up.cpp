#include "warm_up.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "blob_checks.h"
#include "device_buffer.h"
#include "enqueue_mutex.h"
#include "last_error.h"

namespace executorch_tensorrt {

namespace {

/// What one warm-up works on. Its tensors stay until the stream is done with them.
struct WarmUp {
  const DelegateBlob& blob;
  Device& device;
  const InFlight& in_flight;
  Stream stream;
  std::vector<DeviceBuffer> tensors;
  std::vector<void*> inputs, outputs;  // of the states; the guard behind the outputs

  ~WarmUp() {
    // Where the stream could not be waited for, all of the device is: as a delegate that goes does.
    if (in_flight.is_broken()) (void)device.synchronize();
  }

  Result<void*> reserve(MemoryKind kind, size_t bytes) {
    DeviceBuffer& buffer = tensors.emplace_back(device, kind);
    if (const Error error = buffer.reserve(bytes); error != Error::Ok) return error;
    return buffer.data();
  }

  Result<void*> zeros(size_t bytes) {
    const auto memory = reserve(MemoryKind::kDevice, bytes);
    if (!memory.ok()) return memory.error();
    const Error error = device.zero_async(*memory, bytes, stream);
    if (error != Error::Ok) return error;
    return *memory;
  }

  static Error refuse(const Binding& binding, const Dims& shape) {
    return report(Error::Internal, "tensor '" + binding.name + "' is " + to_string(shape) +
                                       ", more than the " + std::to_string(binding.max_bytes) +
                                       " bytes that the blob foresees");
  }

  /// Memory in the states' place, so that theirs is not touched. For all profiles together.
  Error reserve_state() {
    for (const State& state : blob.states) {
      const auto input = zeros(state.bytes());
      if (!input.ok()) return input.error();
      inputs.push_back(*input);
    }
    for (size_t i = 0; i < blob.states.size(); ++i) {
      const State& state = blob.states[i];
      const auto output = state.mode == StateMode::kAlias
                              ? Result<void*>(inputs[i])
                              : reserve(MemoryKind::kDevice, state.bytes());
      if (!output.ok()) return output.error();
      outputs.push_back(*output);
    }
    if (blob.guard.empty()) return Error::Ok;
    const auto guard = reserve(MemoryKind::kDevice, 1);
    if (guard.ok()) outputs.push_back(*guard);
    return guard.error();
  }

  Error bind_state(ExecutionContext& context) {
    for (size_t i = 0; i < blob.states.size(); ++i) {
      const size_t bytes = blob.states[i].bytes();
      Error error = context.set_tensor_address(blob.state_input(i), inputs[i], bytes);
      if (error != Error::Ok) return error;
      error = context.set_tensor_address(blob.state_output(i), outputs[i], bytes);
      if (error != Error::Ok) return error;
    }
    if (blob.guard.empty()) return Error::Ok;
    return context.set_tensor_address(blob.guard_output(), outputs.back(), 1);
  }

  Error enqueue(const Profile& profile, ExecutionContext& context) {
    for (size_t i = 0; i < blob.bindings.size(); ++i) {
      const Binding& binding = blob.bindings[i];
      if (binding.is_input) {
        const Error error = context.set_input_shape(i, profile.inputs[i].opt);
        if (error != Error::Ok) return error;
      }
      const auto shape =
          binding.is_input ? Result<Dims>(profile.inputs[i].opt) : context.output_shape(i);
      if (!shape.ok()) return shape.error();
      const auto needed = checked_bytes(*shape, binding.dtype);
      if (!needed.has_value() || *needed > binding.max_bytes) return refuse(binding, *shape);
      const auto bytes = static_cast<size_t>(*needed);
      const auto memory = binding.is_input ? zeros(bytes) : reserve(MemoryKind::kDevice, bytes);
      if (!memory.ok()) return memory.error();
      const Error error = context.set_tensor_address(i, *memory, bytes);
      if (error != Error::Ok) return error;
    }
    if (const Error error = bind_state(context); error != Error::Ok) return error;
    const auto lock = lock_enqueue(device);
    return context.enqueue(stream);
  }
};

}  // namespace

Error warm_up(ContextSet& contexts, const Engine& engine, const DelegateBlob& blob, Device& device,
              InFlight& in_flight, Stream stream) {
  const bool has_shape_tensors = std::any_of(blob.bindings.begin(), blob.bindings.end(),
                                             [](const Binding& b) { return b.is_shape_tensor; });
  if (has_shape_tensors || !engine.knows_shapes_before_enqueue()) return Error::Ok;

  WarmUp work{blob, device, in_flight, stream, {}, {}, {}};
  Completion completion(in_flight, stream);  // on every way out before the tensors go
  if (const Error error = work.reserve_state(); error != Error::Ok) return error;
  std::set<uint32_t> warm;
  // The first profile last, so that a single context is on it when the first call comes.
  for (auto it = blob.profiles.rbegin(); it != blob.profiles.rend(); ++it) {
    const Profile& profile = *it;
    if (!warm.insert(profile.engine_profile).second) continue;
    const auto slot = contexts.on_profile(profile.engine_profile, stream);
    if (!slot.ok()) return slot.error();
    (*slot)->forget_shapes();  // which the first call sets anew
    const Error error = work.enqueue(profile, *(*slot)->context);
    if (error != Error::Ok) return error;
  }
  return completion.wait();
}

}  // namespace executorch_tensorrt
