#include <executorch_tensorrt/optimization_profile_guard.h>

#include <string>
#include <utility>

#include "last_error.h"
#include "thread_state.h"

namespace executorch_tensorrt {

namespace internal {
struct ProfilePin {
  ProfileRequest request;
  ProfilePin* outer;
};
}  // namespace internal

namespace {

/// A thread's pins; those whose guards ended elsewhere go with the thread.
struct PinStack {
  internal::ProfilePin* innermost = nullptr;

  ~PinStack() {
    while (innermost != nullptr) delete std::exchange(innermost, innermost->outer);
  }
};

thread_local PinStack pins;

internal::ProfilePin* push(ProfileRequest request) {
  pins.innermost = new internal::ProfilePin{std::move(request), pins.innermost};
  return pins.innermost;
}

}  // namespace

OptimizationProfileGuard::OptimizationProfileGuard(std::string_view name)
    : pin_(push(std::string(name))) {}

OptimizationProfileGuard::OptimizationProfileGuard(IndexTag, int64_t index) : pin_(push(index)) {}

OptimizationProfileGuard::OptimizationProfileGuard(AutomaticTag) : pin_(push(Automatic{})) {}

OptimizationProfileGuard::~OptimizationProfileGuard() {
  // Usually the innermost; another one where guards end out of order.
  for (internal::ProfilePin** link = &pins.innermost; *link != nullptr; link = &(*link)->outer) {
    if (*link == pin_) {
      *link = pin_->outer;
      delete pin_;
      return;
    }
  }
  // Made on another thread, which still reads it: leave it to that thread, and say so.
  (void)report(
      Error::InvalidState,
      "an OptimizationProfileGuard was destroyed on another thread than it was made on; its "
      "pin stays there");
}

const ProfileRequest* pinned_profile() noexcept {
  return pins.innermost == nullptr ? nullptr : &pins.innermost->request;
}

}  // namespace executorch_tensorrt
