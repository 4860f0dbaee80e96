// Counts allocations through operator new, which allocation_counter.cpp replaces in the tests.
#pragma once

#include <cstddef>

namespace executorch_tensorrt::test {

/// The calling thread's allocations since construction.
class AllocationCounter {
 public:
  AllocationCounter();
  size_t count() const;

 private:
  size_t before_;
};

/// While it lives, allocations of the calling thread throw std::bad_alloc.
class FailingAllocations {
 public:
  FailingAllocations();
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
};

}  // namespace executorch_tensorrt::test
