// The CUDA driver's functions, from libcuda.so.1, which is loaded when first needed: this library
// links to no CUDA library, so that it loads on machines without a GPU.
#pragma once

#include <cuda.h>
#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/result.h>

#include <string>

namespace executorch_tensorrt {

// cuda.h maps some of these names to the version of their ABI that its types fit (cuMemAlloc to
// cuMemAlloc_v2). The list is always used through those macros, so the type, the member and the
// symbol looked up are the same version, whichever CUDA headers this is built with.
#define EXECUTORCH_TENSORRT_CUDA_FUNCTIONS(X) \
  X(cuInit)                                   \
  X(cuGetErrorName)                           \
  X(cuGetErrorString)                         \
  X(cuDeviceGetCount)                         \
  X(cuDeviceGet)                              \
  X(cuDeviceGetName)                          \
  X(cuDeviceGetAttribute)                     \
  X(cuDevicePrimaryCtxRetain)                 \
  X(cuCtxPushCurrent)                         \
  X(cuCtxPopCurrent)                          \
  X(cuCtxGetDevice)                           \
  X(cuCtxSynchronize)                         \
  X(cuMemAlloc)                               \
  X(cuMemFree)                                \
  X(cuMemHostAlloc)                           \
  X(cuMemFreeHost)                            \
  X(cuPointerGetAttributes)                   \
  X(cuMemcpyHtoDAsync)                        \
  X(cuMemcpyDtoHAsync)                        \
  X(cuMemcpyDtoDAsync)                        \
  X(cuMemsetD8Async)                          \
  X(cuStreamCreate)                           \
  X(cuStreamDestroy)                          \
  X(cuStreamGetCtx)                           \
  X(cuStreamSynchronize)                      \
  X(cuStreamWaitEvent)                        \
  X(cuEventCreate)                            \
  X(cuEventDestroy)                           \
  X(cuEventRecord)                            \
  X(cuEventSynchronize)                       \
  X(cuStreamBeginCapture)                     \
  X(cuStreamEndCapture)                       \
  X(cuStreamIsCapturing)                      \
  X(cuGraphInstantiateWithFlags)              \
  X(cuGraphDestroy)                           \
  X(cuGraphLaunch)                            \
  X(cuGraphExecDestroy)

struct CudaDriver {
#define EXECUTORCH_TENSORRT_MEMBER(function) decltype(&::function) function = nullptr;
  EXECUTORCH_TENSORRT_CUDA_FUNCTIONS(EXECUTORCH_TENSORRT_MEMBER)
#undef EXECUTORCH_TENSORRT_MEMBER

  /// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
  std::string describe(CUresult result) const;

  /// Reports that `what` failed with `result`: MemoryAllocationFailed if memory ran out, else
  /// Internal.
  [[nodiscard]] executorch::runtime::Error report_failure(CUresult result,
                                                          const std::string& what) const;
};

/// " (CUDA_VISIBLE_DEVICES is '1')", the usual reason for not seeing a GPU; "" where it is not set.
std::string visible_devices();

/// The driver, loaded and initialized at the first call that succeeds; it stays for the life of the
/// process. NotFound, naming libcuda.so.1 and what to install, where there is none or it sees no
/// GPU.
executorch::runtime::Result<const CudaDriver*> cuda_driver();

/// The same from a library of another name, without keeping it; for tests.
executorch::runtime::Result<CudaDriver> load_cuda_driver(const char* library);

}  // namespace executorch_tensorrt
