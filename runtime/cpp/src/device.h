// The first seam: where tensors live and what orders the work on them. CUDA, or the host.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/result.h>

#include <cstddef>
#include <memory>
#include <string>

namespace executorch_tensorrt {

using executorch::runtime::Error;
using executorch::runtime::Result;

/// A CUDA stream or event (CUstream, CUevent); on the host nothing stands behind them.
using Stream = void*;
using Event = void*;
/// A CUDA graph that is ready to launch (CUgraphExec).
using Graph = void*;

enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

struct PointerInfo {
  bool on_device = false;    // else it is host memory
  int device_index = 0;      // which device, where on_device
  bool page_locked = false;  // host memory that the device copies from and to by itself
};

/// Every call that can fail reports its own cause through report() and returns the code.
/// All are safe from any thread; none changes the device that the caller finds current.
class Device {
 public:
  virtual ~Device() = default;

  /// "cuda:0", "cpu".
  virtual std::string name() const = 0;
  /// CUDA's ordinal, 0 on the host.
  virtual int index() const = 0;
  /// Whether a host pointer can be bound as it is, so that nothing is ever staged.
  virtual bool reads_host_memory() const = 0;

  virtual Result<void*> allocate(size_t bytes) = 0;  // device memory, at least 256-aligned
  virtual void free(void* memory) noexcept = 0;
  virtual Result<void*> allocate_host(size_t bytes) = 0;  // page-locked where that means something
  virtual void free_host(void* memory) noexcept = 0;
  virtual Result<PointerInfo> pointer_info(const void* pointer) = 0;

  virtual Error copy_async(void* destination, const void* source, size_t bytes, CopyKind kind,
                           Stream stream) = 0;

  /// Sets device memory to zeros.
  virtual Error zero_async(void* memory, size_t bytes, Stream stream) = 0;

  virtual Result<Stream> create_stream() = 0;  // non-blocking with the legacy default stream
  virtual void destroy_stream(Stream stream) noexcept = 0;
  /// Checks that a stream of the caller's belongs to this device.
  virtual Error check_stream(Stream stream) = 0;
  virtual Error synchronize_stream(Stream stream) = 0;

  /// Waits for all work on the device, whoever put it there.
  virtual Error synchronize() = 0;

  virtual Result<Event> create_event() = 0;  // without timing
  virtual void destroy_event(Event event) noexcept = 0;
  virtual Error record_event(Event event, Stream stream) = 0;
  virtual Error wait_event(Stream stream, Event event) = 0;
  virtual Error synchronize_event(Event event) = 0;

  /// What is put on the stream from now on is noted down, not run; other threads are not affected.
  virtual Error begin_capture(Stream stream) = 0;
  /// Ends it, also behind an error, and makes a graph of what was noted down.
  virtual Result<Graph> end_capture(Stream stream) = 0;
  virtual Result<bool> is_capturing(Stream stream) = 0;
  virtual Error launch_graph(Graph graph, Stream stream) = 0;
  virtual void destroy_graph(Graph graph) noexcept = 0;  // not one in flight

  /// Makes this device current on the calling thread, for libraries that work on the current one;
  /// pop_current undoes it. Through DeviceScope, so that they pair up.
  virtual Error push_current() noexcept { return Error::Ok; }
  virtual void pop_current() noexcept {}
};

/// The device is current on this thread while this lives; then it is again as it was found.
class DeviceScope {
 public:
  explicit DeviceScope(Device& device) noexcept : device_(device), error_(device.push_current()) {}
  ~DeviceScope() {
    if (error_ == Error::Ok) device_.pop_current();
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  /// Not Ok: the device could not be made current, and nothing may be done on it.
  [[nodiscard]] Error error() const { return error_; }

 private:
  Device& device_;
  const Error error_;
};

/// The host: every call completes before it returns.
std::shared_ptr<Device> host_device();

/// GPU `index` through the CUDA driver, which is loaded at the first call. One object a GPU for
/// the life of the process. NotFound, naming what is missing, where there is no driver or no such
/// GPU.
Result<std::shared_ptr<Device>> cuda_device(int index);

/// The GPUs that this process sees; 0 where there is no driver. May change the last error's text.
int gpu_count() noexcept;

}  // namespace executorch_tensorrt
