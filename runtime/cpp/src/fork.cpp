#include "fork.h"

#include <pthread.h>

#include <atomic>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

std::atomic<bool> forked{false};

}  // namespace

void watch_for_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  (void)registered;  // out of memory: forks are then not noticed
}

bool was_forked() noexcept { return forked; }

Error refuse_if_forked() {
  if (!forked) return Error::Ok;
  return report(Error::InvalidState,
                "this process was forked from one that had loaded TensorRT programs; neither CUDA "
                "nor the CPU's threads work in it. Load programs behind the fork, or start the "
                "process afresh (Python: multiprocessing's 'spawn' or 'forkserver')");
}

}  // namespace executorch_tensorrt
