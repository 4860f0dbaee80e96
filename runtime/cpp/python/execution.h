// One execution of a method with the GIL released.
#pragma once

#include <executorch_tensorrt/optimization_profile_guard.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "loaded_program.h"

namespace executorch_tensorrt::python {

/// A profile by name or by index.
using Profile = std::variant<int64_t, std::string>;

std::unique_ptr<OptimizationProfileGuard> pin(const Profile& profile);

/// Lets go of the GIL for the life of it. A thread that asks for the GIL when the interpreter is
/// gone is ended in the middle of our frames, which terminates the process; so the interpreter's
/// exit waits for those that will, and later ones are refused. All is read and written under the
/// GIL.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  static void wait_for_all_at_exit();

 private:
  std::optional<nanobind::gil_scoped_release> released_;
};

/// What holds for one call alone.
struct CallOptions {
  std::optional<Profile> profile;   // pinned; none: as the thread and the program say
  std::optional<uintptr_t> stream;  // a CUDA stream's handle, likewise
};

std::vector<Output> execute_unlocked(LoadedMethod& method,
                                     const std::vector<executorch::runtime::EValue>& inputs,
                                     const std::vector<GivenMemory>& given,
                                     const CallOptions& options);

}  // namespace executorch_tensorrt::python
