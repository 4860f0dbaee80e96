// Where the tensors of a call lie, and how they get where the engine can use them.
#include <cstring>
#include <string>

#include "delegate.h"
#include "last_error.h"

namespace executorch_tensorrt {

/// From here on the driver copies to pageable memory quicker than through page-locked staging: it
/// overlaps its own two copies (benchmarks/RESULTS.md).
constexpr size_t kDirectCopyBytes = size_t{2} << 20;

Result<TensorRTDelegate::Place> TensorRTDelegate::place_of(size_t binding) const {
  Device& device = *parts_.device;
  if (device.reads_host_memory()) return Place::kBound;
  const void* data = arguments_.tensor(binding).const_data_ptr();
  const auto info = device.pointer_info(data);
  if (!info.ok()) return info.error();
  if (!info->on_device) return info->page_locked ? Place::kPageLocked : Place::kPageable;
  if (info->device_index != device.index()) {
    return report(Error::InvalidArgument, "tensor '" + parts_.blob.bindings[binding].name +
                                              "' is on cuda:" + std::to_string(info->device_index) +
                                              "; this program was loaded on " + device.name());
  }
  const bool aligned = reinterpret_cast<uintptr_t>(data) % kTensorAlignment == 0;
  return aligned ? Place::kBound : Place::kUnaligned;
}

Result<TensorRTDelegate::Staged> TensorRTDelegate::stage(size_t binding, Place place, void* data,
                                                         Call& call) {
  if (call.capturing) return refuse_in_capture(binding);
  const size_t max_bytes = parts_.blob.bindings[binding].max_bytes;
  Staging& staging = staging_[binding];
  if (const Error error = staging.device.reserve(max_bytes); error != Error::Ok) return error;
  if (place == Place::kUnaligned) return Staged{binding, nullptr};
  call.synchronous = true;  // before host memory is read, or written again
  if (place == Place::kPageLocked) return Staged{binding, data};
  if (const Error error = staging.host.reserve(max_bytes); error != Error::Ok) return error;
  return Staged{binding, staging.host.data()};
}

Result<TensorRTDelegate::Staged> TensorRTDelegate::stage_output(size_t binding, Place place,
                                                                Call& call) {
  const auto& tensor = arguments_.tensor(binding);
  if (place != Place::kPageable || tensor.nbytes() < kDirectCopyBytes) {
    return stage(binding, place, tensor.mutable_data_ptr(), call);
  }
  const auto staged = stage(binding, Place::kUnaligned, nullptr, call);
  if (!staged.ok()) return staged.error();
  call.synchronous = true;
  return Staged{binding, nullptr, CopyKind::kDeviceToHost};
}

Error TensorRTDelegate::bind_staged(const Staged& staged, size_t bytes, Call& call) {
  const Error error =
      set_address(staged.binding, staging_[staged.binding].device.data(), bytes, call);
  // What a graph copies from or to counts among its addresses. It does not copy unaligned tensors.
  if (staged.host != nullptr) addresses_[staged.binding] = staged.host;
  return error;
}

Error TensorRTDelegate::set_address(size_t binding, void* address, size_t bytes, Call& call) {
  if (bytes == 0) address = placeholder_.data();
  addresses_[binding] = address;
  return call.slot->context->set_tensor_address(binding, address, bytes);
}

Error TensorRTDelegate::bind_input(size_t binding, Call& call) {
  const auto& tensor = arguments_.tensor(binding);
  const size_t bytes = tensor.nbytes();
  // The engine reads inputs alone, whatever its signature says.
  void* data = const_cast<void*>(tensor.const_data_ptr());
  if (bytes == 0) return set_address(binding, data, bytes, call);
  if (data == nullptr) return refuse_without_memory(binding);
  const auto place = place_of(binding);
  if (!place.ok()) return place.error();
  if (*place == Place::kBound) return set_address(binding, data, bytes, call);

  const auto staged = stage(binding, *place, data, call);
  if (!staged.ok()) return staged.error();
  if (*place == Place::kUnaligned) {
    const Error error = parts_.device->copy_async(staging_[binding].device.data(), data, bytes,
                                                  CopyKind::kDeviceToDevice, call.stream);
    if (error != Error::Ok) return error;
  } else {
    if (*place == Place::kPageable) std::memcpy(staged->host, data, bytes);
    staged_inputs_.push_back(*staged);
    parts_.record->count_staged(bytes);
  }
  return bind_staged(*staged, bytes, call);
}

Error TensorRTDelegate::refuse_without_memory(size_t binding) const {
  return report(Error::InvalidArgument,
                "input '" + parts_.blob.bindings[binding].name + "' has no memory");
}

Error TensorRTDelegate::refuse_in_capture(size_t binding) const {
  return report(Error::InvalidArgument,
                "tensor '" + parts_.blob.bindings[binding].name +
                    "' would be copied; while the caller's stream is being captured, all tensors "
                    "must be on " +
                    parts_.device->name() + ", at multiples of " +
                    std::to_string(kTensorAlignment) + " bytes");
}

Error TensorRTDelegate::bind_shape_tensor(size_t binding, Call& call) {
  const auto& tensor = arguments_.tensor(binding);
  const size_t bytes = tensor.nbytes();
  DeviceBuffer& values = staging_[binding].host;
  const Error reserved = values.reserve(parts_.blob.bindings[binding].max_bytes);
  if (reserved != Error::Ok) return reserved;
  void* host = values.data();
  if (bytes == 0) return call.slot->context->set_tensor_address(binding, host, bytes);
  if (tensor.const_data_ptr() == nullptr) return refuse_without_memory(binding);
  const auto place = place_of(binding);
  if (!place.ok()) return place.error();
  call.synchronous = true;  // before the next call writes the page-locked memory again
  if (*place == Place::kPageable || *place == Place::kPageLocked ||
      parts_.device->reads_host_memory()) {
    std::memcpy(host, tensor.const_data_ptr(), bytes);
  } else {
    const Error error = parts_.device->copy_async(host, tensor.const_data_ptr(), bytes,
                                                  CopyKind::kDeviceToHost, call.stream);
    if (error != Error::Ok) return error;
    const Error waited = parts_.device->synchronize_stream(call.stream);
    if (waited != Error::Ok) return waited;
    parts_.record->count_host_synchronization();
    parts_.record->count_staged(bytes);
  }
  return call.slot->context->set_tensor_address(binding, host, bytes);
}

Error TensorRTDelegate::resize_output(size_t binding, const Dims& shape) {
  if (const Error error = arguments_.resize_output(binding, shape); error != Error::Ok)
    return error;
  const size_t bytes = arguments_.tensor(binding).nbytes();
  const Binding& description = parts_.blob.bindings[binding];
  if (bytes > description.max_bytes) {
    return report(Error::Internal, "output '" + description.name + "' takes " +
                                       std::to_string(bytes) + " bytes; the blob foresees " +
                                       std::to_string(description.max_bytes));
  }
  if (bytes == 0 || arguments_.tensor(binding).const_data_ptr() != nullptr) return Error::Ok;
  // The program neither planned memory for it nor was given any: it gets the delegate's own.
  DeviceBuffer& own = own_outputs_[binding];
  if (const Error error = own.reserve(description.max_bytes); error != Error::Ok) return error;
  return arguments_.set_memory(binding, own.data(), description.max_bytes);
}

Error TensorRTDelegate::bind_output(size_t binding, Call& call) {
  const Dims& shape = call.slot->output_shapes[binding - parts_.blob.num_inputs];
  if (const Error error = resize_output(binding, shape); error != Error::Ok) return error;
  const auto& tensor = arguments_.tensor(binding);
  const size_t bytes = tensor.nbytes();
  if (bytes == 0) return set_address(binding, nullptr, bytes, call);
  const auto place = place_of(binding);
  if (!place.ok()) return place.error();
  if (*place == Place::kBound) return set_address(binding, tensor.mutable_data_ptr(), bytes, call);

  const auto staged = stage_output(binding, *place, call);
  if (!staged.ok()) return staged.error();
  staged_outputs_.push_back(*staged);
  return bind_staged(*staged, bytes, call);
}

Error TensorRTDelegate::submit(ContextSlot& slot, Stream stream) {
  Device& device = *parts_.device;
  for (const auto& [binding, host, _] : staged_inputs_) {
    const Error error =
        device.copy_async(staging_[binding].device.data(), host,
                          arguments_.tensor(binding).nbytes(), CopyKind::kHostToDevice, stream);
    if (error != Error::Ok) return error;
  }
  if (const Error error = bind_state(slot); error != Error::Ok) return error;
  if (const Error error = slot.context->enqueue(stream); error != Error::Ok) return error;
  if (const Error error = copy_guard(stream); error != Error::Ok) return error;
  for (const auto& [binding, host, _] : staged_outputs_) {
    if (host == nullptr) continue;
    const Error error =
        device.copy_async(host, staging_[binding].device.data(),
                          arguments_.tensor(binding).nbytes(), CopyKind::kDeviceToHost, stream);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

Error TensorRTDelegate::collect_outputs(Call& call) {
  const DelegateBlob& blob = parts_.blob;
  for (const auto& [binding, host, kind] : staged_outputs_) {
    const auto& tensor = arguments_.tensor(binding);
    if (host != nullptr || kind == CopyKind::kDeviceToHost) {
      parts_.record->count_staged(tensor.nbytes());
    }
    if (host != nullptr) continue;
    const Error error =
        parts_.device->copy_async(tensor.mutable_data_ptr(), staging_[binding].device.data(),
                                  tensor.nbytes(), kind, call.stream);
    if (error != Error::Ok) return error;
  }
  if (parts_.engine->knows_shapes_before_enqueue()) return Error::Ok;

  for (size_t i = blob.num_inputs; i < blob.bindings.size(); ++i) {
    const auto shape = call.slot->context->output_shape(i);
    if (!shape.ok()) return shape.error();
    if (const Error error = resize_output(i, *shape); error != Error::Ok) return error;
    const auto& tensor = arguments_.tensor(i);
    if (tensor.nbytes() == 0) continue;
    const Error error =
        call.slot->context->copy_output(i, tensor.mutable_data_ptr(), tensor.nbytes(), call.stream);
    if (error != Error::Ok) return error;
  }
  return collect_state(call);
}

void TensorRTDelegate::deliver_host_outputs() {
  for (const auto& [binding, host, _] : staged_outputs_) {
    if (host != staging_[binding].host.data() || host == nullptr) continue;
    const auto& tensor = arguments_.tensor(binding);
    std::memcpy(tensor.mutable_data_ptr(), host, tensor.nbytes());
  }
}

}  // namespace executorch_tensorrt
