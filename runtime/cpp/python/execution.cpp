#include "execution.h"

#include <executorch_tensorrt/stream_guard.h>
#include <pthread.h>

#include <chrono>
#include <thread>

namespace executorch_tensorrt::python {

namespace nb = nanobind;

using executorch::runtime::Error;
using executorch::runtime::EValue;

namespace {
bool exiting = false;
int running = 0;
bool forked = false;

/// A child has neither the threads that were in a call nor those that kernels wait for, and a mutex
/// that was held stays so.
void watch_for_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    running = 0;
    forked = true;
  });
  (void)registered;  // out of memory: forks are then not noticed
}
}  // namespace

std::unique_ptr<OptimizationProfileGuard> pin(const Profile& profile) {
  if (const auto* index = std::get_if<int64_t>(&profile)) {
    return std::make_unique<OptimizationProfileGuard>(*index);
  }
  return std::make_unique<OptimizationProfileGuard>(std::get<std::string>(profile));
}

Unlocked::Unlocked() {
  if (exiting) throw RuntimeFailure(Error::InvalidState, "the interpreter is exiting");
  if (forked) {
    throw RuntimeFailure(
        Error::InvalidState,
        "this process was forked from one that had loaded programs, which do not work in it: load "
        "them behind the fork, or use multiprocessing's 'spawn' or 'forkserver'");
  }
  watch_for_forks();
  ++running;
  released_.emplace();
}

Unlocked::~Unlocked() {
  released_.reset();
  --running;
}

void Unlocked::wait_for_all_at_exit() {
  exiting = true;
  while (running > 0) {
    const nb::gil_scoped_release released;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::vector<Output> execute_unlocked(LoadedMethod& method, const std::vector<EValue>& inputs,
                                     const std::vector<GivenMemory>& given,
                                     const CallOptions& options) {
  const auto profile = options.profile ? pin(*options.profile) : nullptr;
  std::optional<StreamGuard> stream;
  if (options.stream) stream.emplace(reinterpret_cast<void*>(*options.stream));
  const Unlocked unlocked;
  return method.execute(inputs, given);
}

}  // namespace executorch_tensorrt::python
