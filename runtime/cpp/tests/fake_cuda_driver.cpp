#include "fake_cuda_driver.h"

#ifdef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include <cstdio>
#include <cstring>

namespace executorch_tensorrt::test {

namespace {

FakeCuda* fake = nullptr;
int handles[3];  // their addresses serve as contexts, and offset by 1 byte as streams
char some_memory[256];

int gpu_of(CUcontext context) { return context == FakeCuda::primary(1) ? 1 : 0; }

/// Notes the call with the GPU that is current, and says how it goes.
CUresult call(const char* function) {
  const std::string where =
      fake->contexts.empty() ? "none" : std::to_string(gpu_of(fake->contexts.back()));
  fake->calls.push_back(std::string(function) + " in " + where);
  return fake->failing == function ? fake->failure : CUDA_SUCCESS;
}

template <typename Handle>
CUresult create(const char* function, Handle* handle) {
  const CUresult result = call(function);
  if (result != CUDA_SUCCESS) return result;
  ++fake->live;
  std::memset(handle, 0, sizeof *handle);
  void* address = some_memory;
  std::memcpy(handle, &address, sizeof address);
  return result;
}

CUresult destroy(const char* function) {
  const CUresult result = call(function);
  if (result == CUDA_SUCCESS) --fake->live;
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
    if (fake->failing == "cuCtxPushCurrent") return fake->failure;
    fake->contexts.push_back(context);
    return CUDA_SUCCESS;
  };
  driver.cuCtxPopCurrent = [](CUcontext* context) {
    if (fake->contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    *context = fake->contexts.back();
    fake->contexts.pop_back();
    return CUDA_SUCCESS;
  };
  driver.cuCtxGetDevice = [](CUdevice* device) {
    *device = gpu_of(fake->contexts.back());
    return call("cuCtxGetDevice");
  };
  driver.cuCtxSynchronize = [] { return call("cuCtxSynchronize"); };
}

void fake_memory(CudaDriver& driver) {
  driver.cuMemAlloc = [](CUdeviceptr* memory, size_t) { return create("cuMemAlloc", memory); };
  driver.cuMemFree = [](CUdeviceptr) { return destroy("cuMemFree"); };
  driver.cuMemHostAlloc = [](void** memory, size_t, unsigned int) {
    return create("cuMemHostAlloc", memory);
  };
  driver.cuMemFreeHost = [](void*) { return destroy("cuMemFreeHost"); };
  driver.cuPointerGetAttributes = [](unsigned int count, CUpointer_attribute* attributes,
                                     void** values, CUdeviceptr) {
    for (unsigned int i = 0; i < count; ++i) {
      if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
        *static_cast<unsigned int*>(values[i]) = fake->pointer.memory_type;
      } else if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
        *static_cast<unsigned int*>(values[i]) = fake->pointer.managed ? 1 : 0;
      } else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
        *static_cast<int*>(values[i]) = fake->pointer.ordinal;
      }
    }
    return call("cuPointerGetAttributes");
  };
  driver.cuMemcpyHtoDAsync = [](CUdeviceptr, const void*, size_t, CUstream) {
    return call("cuMemcpyHtoDAsync");
  };
  driver.cuMemcpyDtoHAsync = [](void*, CUdeviceptr, size_t, CUstream) {
    return call("cuMemcpyDtoHAsync");
  };
  driver.cuMemcpyDtoDAsync = [](CUdeviceptr, CUdeviceptr, size_t, CUstream) {
    return call("cuMemcpyDtoDAsync");
  };
}

void fake_streams_and_events(CudaDriver& driver) {
  driver.cuStreamCreate = [](CUstream* stream, unsigned int flags) {
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    return create("cuStreamCreate", stream);
  };
  driver.cuStreamDestroy = [](CUstream) { return destroy("cuStreamDestroy"); };
  driver.cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(reinterpret_cast<char*>(stream) - 1);
    return call("cuStreamGetCtx");
  };
  driver.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode mode) {
    // Other threads must not be affected.
    if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_INVALID_VALUE;
    return call("cuStreamBeginCapture");
  };
  driver.cuStreamEndCapture = [](CUstream, CUgraph* graph) {
    *graph = nullptr;
    return call("cuStreamEndCapture");
  };
  driver.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return call("cuStreamIsCapturing");
  };
  driver.cuGraphInstantiateWithFlags = [](CUgraphExec* graph, CUgraph, unsigned long long) {
    *graph = nullptr;
    return call("cuGraphInstantiate");
  };
  driver.cuGraphDestroy = [](CUgraph) { return call("cuGraphDestroy"); };
  driver.cuGraphLaunch = [](CUgraphExec, CUstream) { return call("cuGraphLaunch"); };
  driver.cuGraphExecDestroy = [](CUgraphExec) { return call("cuGraphExecDestroy"); };
  driver.cuStreamSynchronize = [](CUstream) { return call("cuStreamSynchronize"); };
  driver.cuStreamWaitEvent = [](CUstream, CUevent, unsigned int) {
    return call("cuStreamWaitEvent");
  };
  driver.cuEventCreate = [](CUevent* event, unsigned int flags) {
    if (flags != CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_VALUE;
    return create("cuEventCreate", event);
  };
  driver.cuEventDestroy = [](CUevent) { return destroy("cuEventDestroy"); };
  driver.cuEventRecord = [](CUevent, CUstream) { return call("cuEventRecord"); };
  driver.cuEventSynchronize = [](CUevent) { return call("cuEventSynchronize"); };
}

}  // namespace

FakeCuda::FakeCuda() {
  fake = this;
  fake_errors_and_gpus(driver);
  fake_contexts(driver);
  fake_memory(driver);
  fake_streams_and_events(driver);
}

FakeCuda::~FakeCuda() { fake = nullptr; }

CUcontext FakeCuda::primary(int gpu) { return reinterpret_cast<CUcontext>(&handles[gpu]); }
CUcontext FakeCuda::other_context() { return reinterpret_cast<CUcontext>(&handles[2]); }
CUstream FakeCuda::stream_of(CUcontext context) {
  return reinterpret_cast<CUstream>(reinterpret_cast<char*>(context) + 1);
}

}  // namespace executorch_tensorrt::test

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
