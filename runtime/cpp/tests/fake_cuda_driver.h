// A CUDA driver with several GPUs that keeps books, fails on demand, and runs anywhere: what is put
// on a stream is done at once, in host memory.
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

/// What the fake driver knows. One at a time.
struct FakeCuda {
  FakeCuda();
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  /// The primary context of a GPU, 0 to 7, and one that is nobody's primary context, of GPU 0.
  static CUcontext primary(int gpu);
  static CUcontext other_context();
  /// A stream that cuStreamGetCtx finds in `context`.
  static CUstream stream_of(CUcontext context);

  CudaDriver driver;
  int gpu_count = 2;
  std::string failing;  // the function that fails, if it is called
  CUresult failure = CUDA_ERROR_UNKNOWN;
  int fails_at = 0;                // the count of the call that fails, whichever it is; 0: none
  int made = 0;                    // calls that can fail, so far
  std::string failed;              // the one that was to
  FakePointer pointer;             // what cuPointerGetAttributes says of addresses not given out
  std::vector<std::string> calls;  // "cuMemAlloc in 0", with the GPU current then
  std::vector<std::string> misplaced;  // calls on what belongs to another GPU than the current one
  int live = 0;                        // allocations, streams, events and graphs not given back
  inline static thread_local std::vector<CUcontext> contexts;  // the stack, the current one last
};

}  // namespace executorch_tensorrt::test

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
