// Memory of a Device that frees itself.
#pragma once

#include <memory>
#include <utility>

#include "device.h"

namespace executorch_tensorrt {

enum class MemoryKind { kDevice, kHost };

/// Starts empty; reserve() gives it memory once, at an address that then stays.
class DeviceBuffer {
 public:
  DeviceBuffer(Device& device, MemoryKind kind) : device_(&device), kind_(kind) {}
  ~DeviceBuffer() { release(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(other.device_), kind_(other.kind_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  /// Allocates `bytes` bytes, at least one, unless it holds memory already.
  [[nodiscard]] Error reserve(size_t bytes) {
    if (data_ != nullptr) return Error::Ok;
    if (bytes == 0) bytes = 1;
    auto memory =
        kind_ == MemoryKind::kDevice ? device_->allocate(bytes) : device_->allocate_host(bytes);
    if (!memory.ok()) return memory.error();
    data_ = *memory;
    return Error::Ok;
  }

  void* data() const { return data_; }

 private:
  void release() {
    if (data_ == nullptr) return;
    if (kind_ == MemoryKind::kDevice) {
      device_->free(data_);
    } else {
      device_->free_host(data_);
    }
  }

  Device* device_;
  MemoryKind kind_;
  void* data_ = nullptr;
};

}  // namespace executorch_tensorrt
