#include <executorch_tensorrt/optimization_profile_guard.h>

#include <string>

#include "last_error.h"
#include "thread_stack.h"
#include "thread_state.h"

namespace executorch_tensorrt {

namespace internal {
struct ProfilePin {
  ProfileRequest request;
  ProfilePin* outer;
};
}  // namespace internal

namespace {
thread_local ThreadStack<internal::ProfilePin> pins;
}  // namespace

OptimizationProfileGuard::OptimizationProfileGuard(std::string_view name)
    : pin_(pins.push<ProfileRequest>(std::string(name))) {}

OptimizationProfileGuard::OptimizationProfileGuard(IndexTag, int64_t index)
    : pin_(pins.push<ProfileRequest>(index)) {}

OptimizationProfileGuard::OptimizationProfileGuard(AutomaticTag)
    : pin_(pins.push<ProfileRequest>(Automatic{})) {}

OptimizationProfileGuard::~OptimizationProfileGuard() {
  if (pins.remove(pin_)) return;
  (void)report(
      Error::InvalidState,
      "an OptimizationProfileGuard was destroyed on another thread than it was made on; its "
      "pin stays there");
}

const ProfileRequest* pinned_profile() noexcept {
  return pins.innermost() == nullptr ? nullptr : &pins.innermost()->request;
}

}  // namespace executorch_tensorrt
