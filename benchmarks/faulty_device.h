// Faults at the seam to CUDA, for programs that are linked with the wraps of
// benchmarks/CMakeLists.txt: each device that the runtime finds is then one whose calls fail when
// they are told to.
#pragma once

#include <cstdint>

namespace executorch_tensorrt::benchmark {

/// What the error of an injected fault says.
inline constexpr char kInjected[] = "injected fault";

/// Makes the `skip`-th call from now on, of whichever thread, fail.
void inject_fault(int skip);

/// How many calls have failed so.
uint64_t injected_faults();

}  // namespace executorch_tensorrt::benchmark
