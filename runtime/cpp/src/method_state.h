// What the delegates of one loaded method have in common of its state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "state_memory.h"

namespace executorch_tensorrt {

/// Held by the delegates of a method, or of the methods that were loaded with the same state_group.
struct MethodState {
  /// Which methods' delegates belong together: those of one loaded method are told by the allocator
  /// that ExecuTorch gives it and its name; those of a group by the group's name alone.
  struct Key {
    const void* allocator;
    std::string method;
    std::string group;  // empty: none
  };

  /// The method's, or a new one for the first of its delegates. InvalidArgument if the group is on
  /// another device.
  static Result<std::shared_ptr<MethodState>> join(const Key& key,
                                                   const std::shared_ptr<Device>& device,
                                                   const std::vector<State>& states);
  static Result<std::shared_ptr<MethodState>> create(std::shared_ptr<Device> device);

  /// Adds a delegate's states, with memory in the method's own set. `double_buffered`: for an
  /// engine that writes all of them to other memory, whatever their mode.
  Result<StateBindings> add(const std::vector<State>& states, bool double_buffered);

  std::shared_ptr<StateLayout> layout;
  std::shared_ptr<StateMemory> own;
};

}  // namespace executorch_tensorrt
