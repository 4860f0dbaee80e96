// What the guards set on a thread: the pinned profile and the caller's stream. The thread-local
// variables live in the shared library alone, so that every program and module sees the same ones.
#pragma once

#include <optional>

#include "device.h"
#include "profile_table.h"

namespace executorch_tensorrt {

/// The innermost OptimizationProfileGuard's request on this thread; nullptr without a guard.
const ProfileRequest* pinned_profile() noexcept;

/// The innermost StreamGuard's stream on this thread; empty without a guard.
std::optional<Stream> callers_stream() noexcept;

}  // namespace executorch_tensorrt
