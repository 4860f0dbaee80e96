// Keeps enqueues of TensorRT and captures of CUDA graphs apart.
#pragma once

#include <mutex>
#include <shared_mutex>

#include "device.h"

namespace executorch_tensorrt {

/// Held shared by whoever enqueues, exclusively by whoever captures, from the capture's begin to
/// its end: TensorRT-RTX takes the events between its streams from a pool of the process, and CUDA
/// crashes in a thread that records an event which another thread's unfinished capture has recorded
/// (driver 580, with events of one's own too). One for all devices, as it is not known whether the
/// pool is.
inline std::shared_mutex& enqueue_mutex() {
  static auto* mutex = new std::shared_mutex;  // outlives static delegates
  return *mutex;
}

/// To be held around an enqueue. Locks nothing where the host computes, which captures nothing.
inline std::shared_lock<std::shared_mutex> lock_enqueue(const Device& device) {
  std::shared_lock<std::shared_mutex> lock(enqueue_mutex(), std::defer_lock);
  if (!device.reads_host_memory()) lock.lock();
  return lock;
}

}  // namespace executorch_tensorrt
