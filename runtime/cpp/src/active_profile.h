// The profile that a loaded method ran last, which `sticky` selection keeps while it fits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "delegate_blob.h"

namespace executorch_tensorrt {

/// Shared by the delegates of one loaded method that declare the same profiles, so that a delegate
/// whose inputs fit several of them follows the one that came before it.
class ActiveProfile {
 public:
  std::optional<size_t> get() const {
    const int64_t index = index_.load(std::memory_order_relaxed);
    return index < 0 ? std::nullopt : std::optional<size_t>(index);
  }
  void set(size_t index) { index_.store(static_cast<int64_t>(index), std::memory_order_relaxed); }

  /// The one of a loaded method, told by the allocator that ExecuTorch gives it, its name and the
  /// names of its profiles.
  static std::shared_ptr<ActiveProfile> of_method(const void* allocator, const char* method,
                                                  const std::vector<Profile>& profiles);

 private:
  std::atomic<int64_t> index_{-1};
};

}  // namespace executorch_tensorrt
