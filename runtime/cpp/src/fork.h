// Whether this process is the child of one that used this library before it forked.
#pragma once

#include <executorch/runtime/core/error.h>

namespace executorch_tensorrt {

/// To be called before anything is loaded: from then on a child that is forked knows what it is.
void watch_for_forks();

/// Whether this process was forked from one that had loaded programs. CUDA does not work in it, and
/// the threads that the CPU's kernels wait for are not there.
bool was_forked() noexcept;

/// InvalidState, saying what to do instead, if it was.
[[nodiscard]] executorch::runtime::Error refuse_if_forked();

}  // namespace executorch_tensorrt
