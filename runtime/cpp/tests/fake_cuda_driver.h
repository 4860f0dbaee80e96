// A CUDA driver with two GPUs that keeps books, fails on demand, and runs anywhere.
#pragma once

#ifdef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include <string>
#include <vector>

#include "cuda_driver.h"

namespace executorch_tensorrt::test {

struct FakePointer {
  unsigned int memory_type = 0;  // a CUmemorytype; 0 for memory that CUDA does not know
  bool managed = false;
  int ordinal = 0;
};

/// What the fake driver knows. One at a time, and on one thread.
struct FakeCuda {
  FakeCuda();
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  /// The primary contexts of GPU 0 and 1, and one that is nobody's primary context, of GPU 0.
  static CUcontext primary(int gpu);
  static CUcontext other_context();
  /// A stream that cuStreamGetCtx finds in `context`.
  static CUstream stream_of(CUcontext context);

  CudaDriver driver;
  int gpu_count = 2;
  std::string failing;  // the function that fails, if it is called
  CUresult failure = CUDA_ERROR_UNKNOWN;
  FakePointer pointer;              // what cuPointerGetAttributes says of every address
  std::vector<CUcontext> contexts;  // the thread's stack, the current one last
  std::vector<std::string> calls;   // "cuMemAlloc in 0", with the GPU current then
  int live = 0;                     // allocations, streams and events not given back
};

}  // namespace executorch_tensorrt::test

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
