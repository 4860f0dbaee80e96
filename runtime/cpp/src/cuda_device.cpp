// A GPU as a Device, through the CUDA driver and the GPU's primary context (the CUDA runtime's, so
// that memory and streams of PyTorch's or the application's are at home in it).
#include "cuda_device.h"

#include <executorch/runtime/platform/log.h>

#include <array>
#include <map>
#include <mutex>
#include <sstream>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(const CudaDriver& driver, int index, CUdevice handle, CUcontext context)
      : driver_(driver),
        index_(index),
        handle_(handle),
        context_(context),
        name_("cuda:" + std::to_string(index)) {}

  std::string name() const override { return name_; }
  int index() const override { return index_; }
  bool reads_host_memory() const override { return false; }

  /// 0 bytes are a null pointer.
  Result<void*> allocate(size_t bytes) override {
    CUdeviceptr memory = 0;
    if (bytes > 0) {
      const CUresult result = while_current([&] { return driver_.cuMemAlloc(&memory, bytes); });
      if (result != CUDA_SUCCESS) return allocation_failure(result, "device memory", bytes);
    }
    return reinterpret_cast<void*>(memory);
  }

  void free(void* memory) noexcept override {
    if (memory == nullptr) return;
    log_failure("cuMemFree", while_current([&] { return driver_.cuMemFree(pointer(memory)); }));
  }

  /// Page-locked in every context of the process. 0 bytes are a null pointer.
  Result<void*> allocate_host(size_t bytes) override {
    void* memory = nullptr;
    if (bytes > 0) {
      const CUresult result = while_current(
          [&] { return driver_.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE); });
      if (result != CUDA_SUCCESS) return allocation_failure(result, "page-locked memory", bytes);
    }
    return memory;
  }

  void free_host(void* memory) noexcept override {
    if (memory == nullptr) return;
    log_failure("cuMemFreeHost", while_current([&] { return driver_.cuMemFreeHost(memory); }));
  }

  /// Memory that CUDA does not know is pageable host memory. Managed memory counts as this GPU's,
  /// as every GPU of the process reads and writes it where it lies: it is bound, not staged.
  Result<PointerInfo> pointer_info(const void* address) override {
    unsigned int memory_type = 0;  // stays 0 for memory that CUDA does not know
    unsigned int managed = 0;
    int ordinal = 0;
    std::array<CUpointer_attribute, 3> attributes = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                     CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                                     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    std::array<void*, 3> values = {&memory_type, &managed, &ordinal};
    const CUresult result = while_current([&] {
      return driver_.cuPointerGetAttributes(attributes.size(), attributes.data(), values.data(),
                                            pointer(address));
    });
    if (result != CUDA_SUCCESS) return failure(result, "cuPointerGetAttributes");
    if (managed != 0) return PointerInfo{true, index_};
    if (memory_type == CU_MEMORYTYPE_DEVICE) return PointerInfo{true, ordinal};
    return PointerInfo{false, 0, memory_type == CU_MEMORYTYPE_HOST};
  }

  Error copy_async(void* destination, const void* source, size_t bytes, CopyKind kind,
                   Stream stream) override {
    if (bytes == 0) return Error::Ok;
    const CUresult result = while_current([&] {
      switch (kind) {
        case CopyKind::kHostToDevice:
          return driver_.cuMemcpyHtoDAsync(pointer(destination), source, bytes, of(stream));
        case CopyKind::kDeviceToHost:
          return driver_.cuMemcpyDtoHAsync(destination, pointer(source), bytes, of(stream));
        case CopyKind::kDeviceToDevice:
          break;
      }
      return driver_.cuMemcpyDtoDAsync(pointer(destination), pointer(source), bytes, of(stream));
    });
    if (result == CUDA_SUCCESS) return Error::Ok;
    return failure(result, "a copy of " + std::to_string(bytes) + " bytes");
  }

  Error zero_async(void* memory, size_t bytes, Stream stream) override {
    if (bytes == 0) return Error::Ok;
    const CUresult result = while_current(
        [&] { return driver_.cuMemsetD8Async(pointer(memory), 0, bytes, of(stream)); });
    if (result == CUDA_SUCCESS) return Error::Ok;
    return failure(result, "zeroing " + std::to_string(bytes) + " bytes");
  }

  Result<Stream> create_stream() override {
    CUstream stream = nullptr;
    const CUresult result =
        while_current([&] { return driver_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING); });
    if (result != CUDA_SUCCESS) return failure(result, "cuStreamCreate");
    return Stream{stream};
  }

  void destroy_stream(Stream stream) noexcept override {
    if (stream == nullptr) return;
    log_failure("cuStreamDestroy",
                while_current([&] { return driver_.cuStreamDestroy(of(stream)); }));
  }

  Error check_stream(Stream stream) override;

  Error synchronize_stream(Stream stream) override {
    return check("cuStreamSynchronize",
                 while_current([&] { return driver_.cuStreamSynchronize(of(stream)); }));
  }

  Error synchronize() override {
    return check("cuCtxSynchronize", while_current([&] { return driver_.cuCtxSynchronize(); }));
  }

  Result<Event> create_event() override {
    CUevent event = nullptr;
    const CUresult result =
        while_current([&] { return driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING); });
    if (result != CUDA_SUCCESS) return failure(result, "cuEventCreate");
    return Event{event};
  }

  void destroy_event(Event event) noexcept override {
    if (event == nullptr) return;
    log_failure("cuEventDestroy",
                while_current([&] { return driver_.cuEventDestroy(static_cast<CUevent>(event)); }));
  }

  Error record_event(Event event, Stream stream) override {
    return check("cuEventRecord", while_current([&] {
                   return driver_.cuEventRecord(static_cast<CUevent>(event), of(stream));
                 }));
  }

  Error wait_event(Stream stream, Event event) override {
    return check("cuStreamWaitEvent", while_current([&] {
                   return driver_.cuStreamWaitEvent(of(stream), static_cast<CUevent>(event), 0);
                 }));
  }

  Error synchronize_event(Event event) override {
    return check("cuEventSynchronize", while_current([&] {
                   return driver_.cuEventSynchronize(static_cast<CUevent>(event));
                 }));
  }

  Error begin_capture(Stream stream) override {
    return check("cuStreamBeginCapture", while_current([&] {
                   return driver_.cuStreamBeginCapture(of(stream),
                                                       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
                 }));
  }

  Result<Graph> end_capture(Stream stream) override {
    CUgraph graph = nullptr;
    const auto end = [&] { return driver_.cuStreamEndCapture(of(stream), &graph); };
    CUresult ended = while_current(end);
    // A stream that went on capturing, as the context could not be made current, would take all
    // that is put on it later and run none. One that has ended answers with an error again.
    if (ended != CUDA_SUCCESS && while_current(end) == CUDA_SUCCESS) ended = CUDA_SUCCESS;
    if (ended != CUDA_SUCCESS) return failure(ended, "cuStreamEndCapture");
    CUgraphExec executable = nullptr;
    const CUresult instantiated =
        while_current([&] { return driver_.cuGraphInstantiateWithFlags(&executable, graph, 0); });
    log_failure("cuGraphDestroy", while_current([&] { return driver_.cuGraphDestroy(graph); }));
    if (instantiated != CUDA_SUCCESS) return failure(instantiated, "cuGraphInstantiate");
    return Graph{executable};
  }

  Result<bool> is_capturing(Stream stream) override {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result =
        while_current([&] { return driver_.cuStreamIsCapturing(of(stream), &status); });
    // The legacy default stream cannot be asked while another stream captures; it never does.
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return false;
    if (result != CUDA_SUCCESS) return failure(result, "cuStreamIsCapturing");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }

  Error launch_graph(Graph graph, Stream stream) override {
    return check("cuGraphLaunch", while_current([&] {
                   return driver_.cuGraphLaunch(static_cast<CUgraphExec>(graph), of(stream));
                 }));
  }

  void destroy_graph(Graph graph) noexcept override {
    log_failure("cuGraphExecDestroy", while_current([&] {
                  return driver_.cuGraphExecDestroy(static_cast<CUgraphExec>(graph));
                }));
  }

  Error push_current() noexcept override {
    return check("cuCtxPushCurrent", driver_.cuCtxPushCurrent(context_));
  }

  void pop_current() noexcept override {
    CUcontext popped = nullptr;
    log_failure("cuCtxPopCurrent", driver_.cuCtxPopCurrent(&popped));
  }

 private:
  static CUstream of(Stream stream) { return static_cast<CUstream>(stream); }
  static CUdeviceptr pointer(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

  /// Calls the driver with this GPU's context on top of the thread's stack of contexts, so that
  /// the one below is current again afterwards, whatever `call` returned. None below is fine too.
  template <typename Call>
  CUresult while_current(const Call& call) {
    const CUresult pushed = driver_.cuCtxPushCurrent(context_);
    if (pushed != CUDA_SUCCESS) return pushed;
    const CUresult result = call();
    pop_current();
    return result;
  }

  Error failure(CUresult result, const std::string& what) const {
    return driver_.report_failure(result, what + " on " + name_);
  }
  Error allocation_failure(CUresult result, const char* what, size_t bytes) const {
    return failure(result, "allocating " + std::to_string(bytes) + " bytes of " + what);
  }
  Error check(const char* what, CUresult result) const {
    return result == CUDA_SUCCESS ? Error::Ok : failure(result, what);
  }
  /// For calls that give something back. Nothing is left to free once the process is exiting.
  void log_failure(const char* what, CUresult result) const noexcept {
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;
    const char* text = nullptr;
    driver_.cuGetErrorName(result, &text);
    ET_LOG(Error, "%s on %s failed with %s (%d)", what, name_.c_str(),
           text == nullptr ? "CUDA error" : text, static_cast<int>(result));
  }

  const CudaDriver& driver_;
  const int index_;
  const CUdevice handle_;
  const CUcontext context_;
  const std::string name_;
};

Error CudaDevice::check_stream(Stream stream) {
  // The default streams are those of whichever context is current, which is always this one here.
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    return Error::Ok;
  }
  CUcontext context = nullptr;
  CUresult result = while_current([&] { return driver_.cuStreamGetCtx(of(stream), &context); });
  if (result == CUDA_SUCCESS && context == context_) return Error::Ok;

  std::ostringstream text;
  text << "stream " << stream << " can not be used on " << name_ << ": ";
  CUdevice device = handle_;
  if (result == CUDA_SUCCESS) result = driver_.cuCtxPushCurrent(context);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuCtxGetDevice(&device);
    pop_current();
  }
  if (result != CUDA_SUCCESS) {
    text << "CUDA says " << driver_.describe(result);
  } else if (device != handle_) {
    text << "it belongs to cuda:" << device;
  } else {
    text << "it belongs to another context than the GPU's primary one, which the CUDA runtime uses";
  }
  return report(Error::InvalidArgument, text.str());
}

/// "this process sees 2: cuda:0 NVIDIA H200, cuda:1 NVIDIA H200".
std::string describe_gpus(const CudaDriver& driver, int count) {
  std::string text = "this process sees " + std::to_string(count);
  for (int i = 0; i < count; ++i) {
    const Result<GpuProperties> gpu = gpu_properties(driver, i);
    text += (i == 0 ? ": cuda:" : ", cuda:") + std::to_string(i);
    if (gpu.ok()) text += " " + gpu->name;
  }
  return text + visible_devices();
}

}  // namespace

Result<GpuProperties> gpu_properties(const CudaDriver& driver, int index) {
  CUdevice handle = 0;
  std::array<char, 256> name{};
  GpuProperties gpu;
  CUresult result = driver.cuDeviceGet(&handle, index);
  if (result == CUDA_SUCCESS) {
    result = driver.cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), handle);
  }
  if (result == CUDA_SUCCESS) {
    result = driver.cuDeviceGetAttribute(&gpu.compute_capability_major,
                                         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle);
  }
  if (result == CUDA_SUCCESS) {
    result = driver.cuDeviceGetAttribute(&gpu.compute_capability_minor,
                                         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle);
  }
  if (result != CUDA_SUCCESS) {
    return driver.report_failure(result, "reading the properties of GPU " + std::to_string(index));
  }
  gpu.name = name.data();
  return gpu;
}

Result<std::shared_ptr<Device>> create_cuda_device(const CudaDriver& driver, int index) {
  int count = 0;
  CUresult result = driver.cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) return driver.report_failure(result, "cuDeviceGetCount");
  if (index < 0 || index >= count) {
    return report(Error::NotFound,
                  "no GPU " + std::to_string(index) + ": " + describe_gpus(driver, count));
  }
  CUdevice handle = 0;
  CUcontext context = nullptr;
  result = driver.cuDeviceGet(&handle, index);
  // Never released: the primary context is shared with the CUDA runtime, and with the device
  // object.
  if (result == CUDA_SUCCESS) result = driver.cuDevicePrimaryCtxRetain(&context, handle);
  if (result != CUDA_SUCCESS) {
    return driver.report_failure(result, "opening cuda:" + std::to_string(index));
  }
  return std::shared_ptr<Device>(new CudaDevice(driver, index, handle, context));
}

int gpu_count() noexcept {
  const UnloggedErrors quiet;
  const Result<const CudaDriver*> driver = cuda_driver();
  int count = 0;
  return driver.ok() && (*driver)->cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 0;
}

Result<std::shared_ptr<Device>> cuda_device(int index) {
  // Never destroyed, as what is destroyed late at exit may still need its device.
  static std::mutex& mutex = *new std::mutex;
  static auto& devices = *new std::map<int, std::shared_ptr<Device>>;
  const Result<const CudaDriver*> driver = cuda_driver();
  if (!driver.ok()) return driver.error();
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = devices.find(index);
  if (found != devices.end()) return found->second;
  Result<std::shared_ptr<Device>> device = create_cuda_device(*driver.get(), index);
  if (device.ok()) devices[index] = device.get();
  return device;
}

}  // namespace executorch_tensorrt
