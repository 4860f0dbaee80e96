// Runs the executions of one thread on a CUDA stream of the caller's.
#pragma once

#include <executorch_tensorrt/api.h>

#include <optional>

namespace executorch_tensorrt {

namespace internal {
struct StreamPin;
}

/// While it lives, TensorRT delegates that execute on this thread enqueue on `stream`.
///
/// With device tensors alone, an execution then returns as soon as its work is on the stream,
/// without a host synchronization: the outputs are ready when the stream reaches that point. With
/// a host tensor among them it returns when its outputs are there, as it does without a guard.
/// Guards nest and restore what they found, on the thread that made them.
///
/// `stream` may be one that the caller is capturing into a CUDA graph of its own. Executions then
/// only add to the capture; they take device tensors alone, in shapes that the delegate executed
/// before, and are refused with InvalidArgument otherwise. Such a graph holds until the profile is
/// executed in another shape, or the method unloaded, and its launches are not ordered with other
/// executions of the method, whose memory for activations they share: that is up to the caller.
class EXECUTORCH_TENSORRT_API StreamGuard {
 public:
  /// `stream` is a cudaStream_t (CUstream), nullptr for the legacy default stream. It must belong
  /// to the program's device and outlive the work put on it.
  explicit StreamGuard(void* stream);
  ~StreamGuard();

  /// The stream of the innermost guard on this thread; empty without one.
  static std::optional<void*> current() noexcept;
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  internal::StreamPin* pin_;
};

}  // namespace executorch_tensorrt
