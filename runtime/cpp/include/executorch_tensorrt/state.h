// The mutable state of loaded methods, such as a KV cache, which their delegates keep.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/result.h>
#include <executorch_tensorrt/api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace executorch_tensorrt {

struct StateInfo {
  std::string name;  // fully qualified, of the buffer in the module that was exported
  executorch::aten::ScalarType dtype;
  std::vector<int64_t> shape;
  size_t bytes;
};

namespace internal {
struct StatePin;
}

/// The values of a method's states, on the method's device: those that its TensorRT delegates own.
/// Buffers that stayed outside of them belong to the ExecuTorch program and are not here.
///
/// A loaded method has one, DelegateInfo::state(), which its executions read and update. More of
/// them, for sessions that are independent of each other over the same weights, are made by
/// create() and selected by StateGuard.
///
/// Safe from any thread; executions on one set take turns. A set may outlive its method. It is
/// lost, and refuses executions with InvalidState, after one that failed when it may have been
/// writing in place; reset() it then, or write() all that is lost.
class EXECUTORCH_TENSORRT_API StateSet {
 public:
  virtual ~StateSet();
  StateSet(const StateSet&) = delete;
  StateSet& operator=(const StateSet&) = delete;

  virtual std::vector<StateInfo> states() const = 0;

  /// Every state to its initial value.
  [[nodiscard]] virtual executorch::runtime::Error reset() = 0;

  /// Copies a state's value, row-major, to or from `bytes` bytes in host memory or on the set's
  /// device; they must be the state's. On the thread's StreamGuard's stream where there is one,
  /// and done when it returns. InvalidArgument for a name that is none, another size or another
  /// device.
  [[nodiscard]] virtual executorch::runtime::Error read(std::string_view name, void* destination,
                                                        size_t bytes) = 0;
  [[nodiscard]] virtual executorch::runtime::Error write(std::string_view name, const void* source,
                                                         size_t bytes) = 0;

  /// An independent set of the same states, with their initial values.
  [[nodiscard]] virtual executorch::runtime::Result<std::shared_ptr<StateSet>> create() const = 0;

 private:
  friend class StateMemory;  // the only implementation
  StateSet() = default;
};

/// While it lives, executions on this thread are on that set: of the method whose state() it was
/// created from, or of those that share theirs with it (option::kStateGroup). Executions of other
/// methods that have states are refused with InvalidArgument; those without any do not mind.
///
/// Guards nest and restore what they found, on the thread that made them. nullptr: each method's
/// own state, inside an outer guard.
class EXECUTORCH_TENSORRT_API StateGuard {
 public:
  explicit StateGuard(std::shared_ptr<StateSet> state);
  ~StateGuard();
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

 private:
  internal::StatePin* pin_;
};

}  // namespace executorch_tensorrt
