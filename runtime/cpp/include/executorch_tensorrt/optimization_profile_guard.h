// Pins an optimization profile for the executions of one thread.
#pragma once

#include <executorch_tensorrt/api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace executorch_tensorrt {

namespace internal {
struct ProfilePin;
}

/// While it lives, every TensorRT delegate that executes on this thread uses the profile it names.
///
/// Profiles are declared when a method is exported, over the whole method: all its delegates have
/// the same names in the same order, each with ranges over its own inputs. So a name means one
/// thing with several delegates, and so does an index, which follows the declared order. A program
/// that another exporter made need not be so: there each delegate looks in its own list.
///
/// A pin that names no profile of a delegate, or one that the inputs do not fit, makes the
/// execution fail with InvalidArgument before that delegate touched anything; it is never clamped
/// and never ignored.
///
/// Guards nest: the innermost counts, and each restores what it found. They belong to the thread
/// that made them: destroy them there, in the reverse order, and do not hold one across a
/// coroutine's suspension, which may resume on another thread. Threads do not see each other's
/// pins.
class EXECUTORCH_TENSORRT_API OptimizationProfileGuard {
 public:
  /// Pins the profile called `name`; the text is copied.
  explicit OptimizationProfileGuard(std::string_view name);
  /// Pins the profile at `index`, counted from 0 in declared order.
  template <typename Integer, typename = std::enable_if_t<std::is_integral_v<Integer> &&
                                                          !std::is_same_v<Integer, bool>>>
  explicit OptimizationProfileGuard(Integer index)
      : OptimizationProfileGuard(IndexTag{}, static_cast<int64_t>(index)) {}
  /// A truth value names no profile. (A template, so that a string literal does not decay to it.)
  template <typename Bool, std::enable_if_t<std::is_same_v<Bool, bool>, int> = 0>
  explicit OptimizationProfileGuard(Bool) = delete;
  /// A null pointer names no profile.
  OptimizationProfileGuard(std::nullptr_t) = delete;

  /// Selects by input shape, inside an outer pin and whatever the program's default profile is.
  static OptimizationProfileGuard automatic() { return OptimizationProfileGuard(AutomaticTag{}); }

  ~OptimizationProfileGuard();
  OptimizationProfileGuard(const OptimizationProfileGuard&) = delete;
  OptimizationProfileGuard& operator=(const OptimizationProfileGuard&) = delete;

 private:
  struct IndexTag {};
  struct AutomaticTag {};
  OptimizationProfileGuard(IndexTag, int64_t index);
  explicit OptimizationProfileGuard(AutomaticTag);

  internal::ProfilePin* pin_;
};

}  // namespace executorch_tensorrt
