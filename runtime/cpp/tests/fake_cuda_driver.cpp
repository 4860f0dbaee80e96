#include "fake_cuda_driver.h"

#ifdef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace executorch_tensorrt::test {

namespace {

constexpr int kMaxGpus = 8;
FakeCuda* fake = nullptr;
int handles[kMaxGpus + 1];  // their addresses serve as contexts, and offset by 1 byte as streams

/// Memory, a stream, an event or a graph.
struct Thing {
  int gpu = 0;                              // where it belongs
  size_t bytes = 1;                         // from its address on
  unsigned int memory_type = 0;             // of memory
  bool capturing = false;                   // a stream
  std::vector<std::function<void()>> work;  // noted down by a stream, or in a graph
};
std::map<uintptr_t, Thing>& things = *new std::map<uintptr_t, Thing>;  // by address
std::recursive_mutex& mutex = *new std::recursive_mutex;  // contexts are created on threads

int gpu_of(CUcontext context) {
  const auto index = static_cast<int>(reinterpret_cast<int*>(context) - handles);
  return index < kMaxGpus ? index : 0;
}
int current_gpu() { return fake->contexts.empty() ? -1 : gpu_of(fake->contexts.back()); }

CUresult outcome(const char* function) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const bool its_turn = ++fake->made == fake->fails_at;
  if (its_turn) fake->failed = function;
  return its_turn || fake->failing == function ? fake->failure : CUDA_SUCCESS;
}

/// Notes the call with the GPU that is current, and says how it goes.
CUresult call(const char* function) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const int gpu = current_gpu();
  fake->calls.push_back(std::string(function) + " in " + (gpu < 0 ? "none" : std::to_string(gpu)));
  return outcome(function);
}

/// What a pointer or handle belongs to; nullptr where this driver did not give it out.
template <typename Pointer>
Thing* find(Pointer pointer) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  uintptr_t address = 0;
  std::memcpy(&address, &pointer, sizeof address);
  auto after = things.upper_bound(address);
  if (after == things.begin()) return nullptr;
  const auto& [start, thing] = *std::prev(after);
  return address < start + thing.bytes ? &std::prev(after)->second : nullptr;
}

/// A call that works on these things: each must be of the GPU that is current, but for page-locked
/// memory, which is every GPU's.
template <typename... Pointers>
CUresult call_on(const char* function, Pointers... pointers) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  for (const Thing* thing : {static_cast<const Thing*>(find(pointers))...}) {
    if (thing == nullptr || thing->memory_type == CU_MEMORYTYPE_HOST) continue;
    if (thing->gpu == current_gpu()) continue;
    fake->misplaced.push_back(std::string(function) + " on a thing of GPU " +
                              std::to_string(thing->gpu) + " in " + std::to_string(current_gpu()));
  }
  return call(function);
}

template <typename Handle>
CUresult create(const char* function, Handle* handle, Thing thing = {}) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  *handle = Handle{};
  const CUresult result = call(function);
  if (result != CUDA_SUCCESS) return result;
  void* memory = std::aligned_alloc(256, (thing.bytes + 255) / 256 * 256);
  std::memcpy(handle, &memory, sizeof memory);
  thing.gpu = current_gpu();
  things[reinterpret_cast<uintptr_t>(memory)] = std::move(thing);
  ++fake->live;
  return result;
}

/// It is gone also where the call fails, as after a fault that the device does not recover from.
template <typename Handle>
CUresult destroy(const char* function, Handle handle) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const CUresult result = call_on(function, handle);
  if (find(handle) == nullptr) return result;
  --fake->live;
  void* memory = nullptr;
  std::memcpy(&memory, &handle, sizeof memory);
  things.erase(reinterpret_cast<uintptr_t>(memory));
  std::free(memory);
  return result;
}

/// Done at once, or noted down by a stream that is being captured.
void put(CUstream stream, std::function<void()> work) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  Thing* thing = find(stream);
  if (thing != nullptr && thing->capturing) return thing->work.push_back(std::move(work));
  work();
}

template <typename Destination, typename Source>
CUresult copy(const char* function, Destination destination, Source source, size_t bytes,
              CUstream stream) {
  const CUresult result = call_on(function, destination, source, stream);
  if (result != CUDA_SUCCESS) return result;
  void* to = nullptr;
  const void* from = nullptr;
  std::memcpy(&to, &destination, sizeof to);
  std::memcpy(&from, &source, sizeof from);
  put(stream, [=] { std::memmove(to, from, bytes); });
  return result;
}

CUresult end_capture(CUstream stream, CUgraph* graph) {
  Thing captured;
  if (Thing* thing = find(stream)) {
    if (!thing->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    thing->capturing = false;
    captured.work = std::exchange(thing->work, {});
  } else {
    *graph = nullptr;
    return call("cuStreamEndCapture");
  }
  return create("cuStreamEndCapture", graph, std::move(captured));
}

CUresult launch(CUgraphExec graph, CUstream stream) {
  const CUresult result = call_on("cuGraphLaunch", graph, stream);
  const Thing* thing = find(graph);
  if (result != CUDA_SUCCESS || thing == nullptr) return result;
  for (const auto& work : thing->work) put(stream, work);
  return result;
}

void fake_errors_and_gpus(CudaDriver& driver) {
  driver.cuGetErrorName = [](CUresult result, const char** name) {
    *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
  };
  driver.cuGetErrorString = [](CUresult, const char** text) {
    *text = "the fake was told to";
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetCount = [](int* count) {
    *count = fake->gpu_count;
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGet = [](CUdevice* device, int ordinal) {
    *device = ordinal;
    return call("cuDeviceGet");
  };
  driver.cuDeviceGetName = [](char* name, int size, CUdevice device) {
    std::snprintf(name, static_cast<size_t>(size), "Fake GPU %c", 'A' + device);
    return CUDA_SUCCESS;
  };
  driver.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 8 : 6;
    return CUDA_SUCCESS;
  };
}

void fake_contexts(CudaDriver& driver) {
  driver.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice device) {
    *context = FakeCuda::primary(device);
    return call("cuDevicePrimaryCtxRetain");
  };
  driver.cuCtxPushCurrent = [](CUcontext context) {
    const CUresult result = outcome("cuCtxPushCurrent");
    if (result == CUDA_SUCCESS) fake->contexts.push_back(context);
    return result;
  };
  driver.cuCtxPopCurrent = [](CUcontext* context) {
    if (fake->contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    *context = fake->contexts.back();
    fake->contexts.pop_back();
    return CUDA_SUCCESS;
  };
  driver.cuCtxGetDevice = [](CUdevice* device) {
    *device = current_gpu();
    return call("cuCtxGetDevice");
  };
  driver.cuCtxSynchronize = [] { return call("cuCtxSynchronize"); };
}

void fake_memory(CudaDriver& driver) {
  driver.cuMemAlloc = [](CUdeviceptr* memory, size_t bytes) {
    return create("cuMemAlloc", memory, {0, bytes, CU_MEMORYTYPE_DEVICE, false, {}});
  };
  driver.cuMemFree = [](CUdeviceptr memory) { return destroy("cuMemFree", memory); };
  driver.cuMemHostAlloc = [](void** memory, size_t bytes, unsigned int flags) {
    if (flags != CU_MEMHOSTALLOC_PORTABLE) return CUDA_ERROR_INVALID_VALUE;
    return create("cuMemHostAlloc", memory, {0, bytes, CU_MEMORYTYPE_HOST, false, {}});
  };
  driver.cuMemFreeHost = [](void* memory) { return destroy("cuMemFreeHost", memory); };
  driver.cuPointerGetAttributes = [](unsigned int count, CUpointer_attribute* attributes,
                                     void** values, CUdeviceptr address) {
    FakePointer pointer = fake->pointer;
    if (const Thing* memory = find(address)) pointer = {memory->memory_type, false, memory->gpu};
    for (unsigned int i = 0; i < count; ++i) {
      if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
        *static_cast<unsigned int*>(values[i]) = pointer.memory_type;
      } else if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
        *static_cast<unsigned int*>(values[i]) = pointer.managed ? 1 : 0;
      } else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
        *static_cast<int*>(values[i]) = pointer.ordinal;
      }
    }
    return call("cuPointerGetAttributes");
  };
  driver.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    return copy("cuMemcpyHtoDAsync", to, from, bytes, stream);
  };
  driver.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy("cuMemcpyDtoHAsync", to, from, bytes, stream);
  };
  driver.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy("cuMemcpyDtoDAsync", to, from, bytes, stream);
  };
  driver.cuMemsetD8Async = [](CUdeviceptr, unsigned char, size_t, CUstream) {
    return call("cuMemsetD8Async");
  };
}

void fake_streams_and_events(CudaDriver& driver) {
  driver.cuStreamCreate = [](CUstream* stream, unsigned int flags) {
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    return create("cuStreamCreate", stream);
  };
  driver.cuStreamDestroy = [](CUstream stream) { return destroy("cuStreamDestroy", stream); };
  driver.cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
    const Thing* known = find(stream);
    *context = known != nullptr ? FakeCuda::primary(known->gpu)
                                : reinterpret_cast<CUcontext>(reinterpret_cast<char*>(stream) - 1);
    return call("cuStreamGetCtx");
  };
  driver.cuStreamSynchronize = [](CUstream stream) {
    const CUresult result = call_on("cuStreamSynchronize", stream);
    const Thing* thing = find(stream);
    return thing != nullptr && thing->capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : result;
  };
  driver.cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned int) {
    return call_on("cuStreamWaitEvent", stream, event);
  };
  driver.cuEventCreate = [](CUevent* event, unsigned int flags) {
    if (flags != CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_VALUE;
    return create("cuEventCreate", event);
  };
  driver.cuEventDestroy = [](CUevent event) { return destroy("cuEventDestroy", event); };
  driver.cuEventRecord = [](CUevent event, CUstream stream) {
    return call_on("cuEventRecord", event, stream);
  };
  driver.cuEventSynchronize = [](CUevent event) { return call_on("cuEventSynchronize", event); };
}

void fake_graphs(CudaDriver& driver) {
  driver.cuStreamBeginCapture = [](CUstream stream, CUstreamCaptureMode mode) {
    // Other threads must not be affected.
    if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = call_on("cuStreamBeginCapture", stream);
    Thing* thing = find(stream);
    if (result == CUDA_SUCCESS && thing != nullptr) thing->capturing = true;
    return result;
  };
  driver.cuStreamEndCapture = end_capture;
  driver.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    const Thing* thing = find(stream);
    *status = thing == nullptr || thing->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                   : CU_STREAM_CAPTURE_STATUS_NONE;
    return call_on("cuStreamIsCapturing", stream);
  };
  driver.cuGraphInstantiateWithFlags = [](CUgraphExec* made, CUgraph graph, unsigned long long) {
    Thing ready;
    if (const Thing* thing = find(graph)) ready.work = thing->work;
    return create("cuGraphInstantiate", made, std::move(ready));
  };
  driver.cuGraphDestroy = [](CUgraph graph) { return destroy("cuGraphDestroy", graph); };
  driver.cuGraphLaunch = launch;
  driver.cuGraphExecDestroy = [](CUgraphExec graph) {
    return destroy("cuGraphExecDestroy", graph);
  };
}

}  // namespace

FakeCuda::FakeCuda() {
  fake = this;
  contexts.clear();
  fake_errors_and_gpus(driver);
  fake_contexts(driver);
  fake_memory(driver);
  fake_streams_and_events(driver);
  fake_graphs(driver);
}

FakeCuda::~FakeCuda() {
  for (const auto& [address, thing] : things) std::free(reinterpret_cast<void*>(address));
  things.clear();
  fake = nullptr;
}

CUcontext FakeCuda::primary(int gpu) { return reinterpret_cast<CUcontext>(&handles[gpu]); }
CUcontext FakeCuda::other_context() { return reinterpret_cast<CUcontext>(&handles[kMaxGpus]); }
CUstream FakeCuda::stream_of(CUcontext context) {
  return reinterpret_cast<CUstream>(reinterpret_cast<char*>(context) + 1);
}

}  // namespace executorch_tensorrt::test

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
