// What guards set on a thread. The thread-local variables live in the shared library alone, so that
// every program and module sees the same ones.
#pragma once

#include <executorch_tensorrt/state.h>

#include "profile_table.h"

namespace executorch_tensorrt {

/// The innermost OptimizationProfileGuard's request on this thread; nullptr without a guard.
const ProfileRequest* pinned_profile() noexcept;

/// The innermost StateGuard's set on this thread; nullptr without a guard, or with one of none.
StateSet* pinned_state() noexcept;

}  // namespace executorch_tensorrt
