// Runs the executions of one thread on a CUDA stream of the caller's.
#pragma once

#include <executorch_tensorrt/api.h>

namespace executorch_tensorrt {

/// While it lives, TensorRT delegates that execute on this thread enqueue on `stream`.
///
/// With device tensors alone, an execution then returns as soon as its work is on the stream,
/// without a host synchronization: the outputs are ready when the stream reaches that point. With
/// a host tensor among them it returns when its outputs are there, as it does without a guard.
/// Guards nest and restore what they found, on the thread that made them.
class EXECUTORCH_TENSORRT_API StreamGuard {
 public:
  /// `stream` is a cudaStream_t (CUstream), nullptr for the legacy default stream. It must belong
  /// to the program's device and outlive the work put on it.
  explicit StreamGuard(void* stream) noexcept;
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  bool had_outer_;
  void* outer_;
};

}  // namespace executorch_tensorrt
