// The states of a delegate, in one of its calls.
#include <algorithm>
#include <string>

#include "delegate.h"
#include "index_checks.h"
#include "last_error.h"
#include "thread_state.h"

namespace executorch_tensorrt {

Error TensorRTDelegate::prepare_state() {
  const DelegateBlob& blob = parts_.blob;
  for (const IndexCheck& check : blob.index_checks) {
    const bool known =
        std::any_of(checked_inputs_.begin(), checked_inputs_.end(),
                    [&check](const CheckedInput& input) { return input.binding == check.binding; });
    if (known) continue;
    checked_inputs_.push_back({check.binding, DeviceBuffer(*parts_.device, MemoryKind::kHost)});
  }
  if (blob.states.empty()) return Error::Ok;
  const std::vector<Binding> tensors = blob.tensors();
  for (size_t i = blob.bindings.size(); i < tensors.size(); ++i) {
    state_bytes_.push_back(tensors[i].max_bytes);
  }
  if (!blob.guard.empty()) {
    if (const Error error = guard_.reserve(1); error != Error::Ok) return error;
    if (const Error error = guard_on_host_.reserve(1); error != Error::Ok) return error;
  }
  // Outputs that are copied once they are computed need the old value until then.
  const bool copied = !parts_.engine->knows_shapes_before_enqueue();
  auto bindings = parts_.state->add(blob.states, copied);
  if (!bindings.ok()) return bindings.error();
  state_bindings_ = std::move(*bindings);
  return Error::Ok;
}

Error TensorRTDelegate::begin_state(StateUse& use) const {
  StateSet* pinned = pinned_state();
  StateMemory& memory = pinned == nullptr ? *parts_.state->own : *static_cast<StateMemory*>(pinned);
  return use.begin(memory, state_bindings_);
}

Error TensorRTDelegate::check_state_capture(const Call& call) const {
  if (!call.capturing || call.state == nullptr) return Error::Ok;
  const DelegateBlob& blob = parts_.blob;
  for (size_t i = 0; i < blob.states.size(); ++i) {
    if (call.state->is_fixed(i)) continue;
    return report(Error::InvalidArgument,
                  "state '" + blob.states[i].name +
                      "' lies in other memory after each call, which a graph that the caller "
                      "captures can not follow: execute without capturing");
  }
  if (blob.guard.empty()) return Error::Ok;
  return report(Error::InvalidArgument,
                "whether this method writes within its state is known only once it was executed: "
                "it can not be captured");
}

/// Finds the positions that this call writes at. Those in host memory are checked at once.
Error TensorRTDelegate::find_indices(Call& call) {
  const bool device_reads_host = parts_.device->reads_host_memory();
  for (CheckedInput& input : checked_inputs_) {
    input.values = arguments_.tensor(input.binding).const_data_ptr();
    input.on_device = false;
    // What has no memory is refused where it is bound.
    if (arguments_.tensor(input.binding).nbytes() == 0 || input.values == nullptr) continue;
    const auto place = place_of(input.binding);
    if (!place.ok()) return place.error();
    input.on_device =
        !device_reads_host && (*place == Place::kUnaligned || *place == Place::kBound);
    call.reads_indices |= input.on_device;
    if (input.on_device && call.capturing) {
      return report(
          Error::InvalidArgument,
          "input '" + parts_.blob.bindings[input.binding].name +
              "' says where state is written, which is checked before each call: a method that "
              "takes it can not be captured");
    }
  }
  return call.reads_indices ? Error::Ok : check_indices();
}

/// From the device: first on the stream, so that the copies run while the call is made ready.
Error TensorRTDelegate::read_indices(const Call& call) {
  for (CheckedInput& input : checked_inputs_) {
    if (!input.on_device) continue;
    const size_t max_bytes = parts_.blob.bindings[input.binding].max_bytes;
    if (const Error error = input.copy.reserve(max_bytes); error != Error::Ok) return error;
    const Error error = parts_.device->copy_async(input.copy.data(), input.values,
                                                  arguments_.tensor(input.binding).nbytes(),
                                                  CopyKind::kDeviceToHost, call.stream);
    if (error != Error::Ok) return error;
    input.values = input.copy.data();
  }
  return Error::Ok;
}

/// Nothing of the call is in flight where one is out of bounds.
Error TensorRTDelegate::wait_for_indices(Completion& completion) {
  parts_.record->count_host_synchronization();
  if (const Error error = completion.wait(); error != Error::Ok) return error;
  if (const Error error = check_indices(); error != Error::Ok) return error;
  completion.go_on();
  return Error::Ok;
}

Error TensorRTDelegate::check_indices() const {
  for (const IndexCheck& check : parts_.blob.index_checks) {
    const auto input =
        std::find_if(checked_inputs_.begin(), checked_inputs_.end(),
                     [&check](const CheckedInput& each) { return each.binding == check.binding; });
    if (input->values == nullptr) continue;
    const Error error =
        check_index_values(parts_.blob, check, arguments_.input_shapes(), input->values);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

void TensorRTDelegate::note_state_addresses(const Call& call) {
  const DelegateBlob& blob = parts_.blob;
  for (size_t i = 0; i < blob.states.size(); ++i) {
    addresses_[blob.state_input(i)] = call.state->input(i);
    addresses_[blob.state_output(i)] = call.state->output(i);
  }
  if (!blob.guard.empty()) addresses_[blob.guard_output()] = guard_.data();
}

Error TensorRTDelegate::bind_state(ContextSlot& slot) {
  const size_t first = parts_.blob.bindings.size();
  for (size_t i = 0; i < state_bytes_.size(); ++i) {
    const Error error =
        slot.context->set_tensor_address(first + i, addresses_[first + i], state_bytes_[i]);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

Error TensorRTDelegate::copy_guard(Stream stream) {
  if (parts_.blob.guard.empty() || !parts_.engine->knows_shapes_before_enqueue()) return Error::Ok;
  return parts_.device->copy_async(guard_on_host_.data(), guard_.data(), 1, CopyKind::kDeviceToHost,
                                   stream);
}

/// From an engine whose outputs are copied once they are computed.
Error TensorRTDelegate::collect_state(Call& call) {
  const DelegateBlob& blob = parts_.blob;
  ExecutionContext& context = *call.slot->context;
  for (size_t i = 0; i < blob.states.size(); ++i) {
    const Error error = context.copy_output(blob.state_output(i), call.state->output(i),
                                            state_bytes_[i], call.stream);
    if (error != Error::Ok) return error;
  }
  if (blob.guard.empty()) return Error::Ok;
  return context.copy_output(blob.guard_output(), guard_on_host_.data(), 1, call.stream);
}

Error TensorRTDelegate::check_guard() const {
  const DelegateBlob& blob = parts_.blob;
  if (blob.guard.empty() || *static_cast<const uint8_t*>(guard_on_host_.data()) != 0) {
    return Error::Ok;
  }
  std::string names;
  bool in_place = false;
  for (size_t i = 0; i < blob.states.size(); ++i) {
    names += (i == 0 ? "'" : ", '") + blob.states[i].name + "'";
    in_place |= state_bindings_.modes[i] == StateMode::kAlias;
  }
  return report(Error::InvalidArgument,
                "write out of bounds: this call would have written outside of its state, one of " +
                    names +
                    (in_place ? "; what is written in place is lost" : "; it is as it was before") +
                    ", and the outputs are not valid");
}

}  // namespace executorch_tensorrt
