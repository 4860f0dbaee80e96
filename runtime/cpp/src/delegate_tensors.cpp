// Where the tensors of a call lie, and how they get where the engine can use them.
#include <cstring>
#include <string>

#include "delegate.h"
#include "last_error.h"

namespace executorch_tensorrt {

Result<TensorRTDelegate::Place> TensorRTDelegate::place_of(size_t binding) const {
  Device& device = *parts_.device;
  if (device.reads_host_memory()) return Place::kBound;
  const void* data = arguments_.tensor(binding).const_data_ptr();
  const auto info = device.pointer_info(data);
  if (!info.ok()) return info.error();
  if (!info->on_device) return Place::kHost;
  if (info->device_index != device.index()) {
    return report(Error::InvalidArgument, "tensor '" + parts_.blob.bindings[binding].name +
                                              "' is on cuda:" + std::to_string(info->device_index) +
                                              "; this program was loaded on " + device.name());
  }
  const bool aligned = reinterpret_cast<uintptr_t>(data) % kTensorAlignment == 0;
  return aligned ? Place::kBound : Place::kUnaligned;
}

Error TensorRTDelegate::reserve_staging(size_t binding, bool on_host) {
  const size_t bytes = parts_.blob.bindings[binding].max_bytes;
  if (const Error error = staging_[binding].device.reserve(bytes); error != Error::Ok) return error;
  return on_host ? staging_[binding].host.reserve(bytes) : Error::Ok;
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
  if (data == nullptr) {
    return report(Error::InvalidArgument,
                  "input '" + parts_.blob.bindings[binding].name + "' has no memory");
  }
  const auto place = place_of(binding);
  if (!place.ok()) return place.error();
  if (*place == Place::kBound) return set_address(binding, data, bytes, call);

  const bool on_host = *place == Place::kHost;
  if (on_host && call.capturing) return refuse_in_capture(binding);
  if (const Error error = reserve_staging(binding, on_host); error != Error::Ok) return error;
  const Staging& staging = staging_[binding];
  if (on_host) {
    call.synchronous = true;  // before the next call writes the page-locked memory again
    std::memcpy(staging.host.data(), data, bytes);
    staged_inputs_.push_back(binding);
    parts_.record->count_staged(bytes);
  } else {
    const Error error = parts_.device->copy_async(staging.device.data(), data, bytes,
                                                  CopyKind::kDeviceToDevice, call.stream);
    if (error != Error::Ok) return error;
  }
  return set_address(binding, staging.device.data(), bytes, call);
}

Error TensorRTDelegate::refuse_in_capture(size_t binding) const {
  return report(Error::InvalidArgument,
                "tensor '" + parts_.blob.bindings[binding].name +
                    "' is in host memory; while the caller's stream is being captured, all tensors "
                    "must be on " +
                    parts_.device->name());
}

Error TensorRTDelegate::bind_shape_tensor(size_t binding, Call& call) {
  const auto& tensor = arguments_.tensor(binding);
  const size_t bytes = tensor.nbytes();
  const auto place = place_of(binding);
  if (!place.ok()) return place.error();
  if (const Error error = reserve_staging(binding, true); error != Error::Ok) return error;
  void* host = staging_[binding].host.data();
  if (*place == Place::kHost || parts_.device->reads_host_memory()) {
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

  const bool on_host = *place == Place::kHost;
  if (on_host && call.capturing) return refuse_in_capture(binding);
  call.synchronous |= on_host;
  if (const Error error = reserve_staging(binding, on_host); error != Error::Ok) return error;
  staged_outputs_.push_back({binding, on_host});
  return set_address(binding, staging_[binding].device.data(), bytes, call);
}

Error TensorRTDelegate::submit(ContextSlot& slot, Stream stream) {
  Device& device = *parts_.device;
  for (const size_t binding : staged_inputs_) {
    const Staging& staging = staging_[binding];
    const Error error =
        device.copy_async(staging.device.data(), staging.host.data(),
                          arguments_.tensor(binding).nbytes(), CopyKind::kHostToDevice, stream);
    if (error != Error::Ok) return error;
  }
  if (const Error error = slot.context->enqueue(stream); error != Error::Ok) return error;
  for (const auto& [binding, on_host] : staged_outputs_) {
    if (!on_host) continue;
    const Staging& staging = staging_[binding];
    const Error error =
        device.copy_async(staging.host.data(), staging.device.data(),
                          arguments_.tensor(binding).nbytes(), CopyKind::kDeviceToHost, stream);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

Error TensorRTDelegate::collect_outputs(Call& call) {
  const DelegateBlob& blob = parts_.blob;
  for (const auto& [binding, on_host] : staged_outputs_) {
    const auto& tensor = arguments_.tensor(binding);
    if (on_host) {
      parts_.record->count_staged(tensor.nbytes());
      continue;
    }
    const Error error =
        parts_.device->copy_async(tensor.mutable_data_ptr(), staging_[binding].device.data(),
                                  tensor.nbytes(), CopyKind::kDeviceToDevice, call.stream);
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
  return Error::Ok;
}

void TensorRTDelegate::deliver_host_outputs() {
  for (const auto& [binding, on_host] : staged_outputs_) {
    if (!on_host) continue;
    const auto& tensor = arguments_.tensor(binding);
    std::memcpy(tensor.mutable_data_ptr(), staging_[binding].host.data(), tensor.nbytes());
  }
}

}  // namespace executorch_tensorrt
