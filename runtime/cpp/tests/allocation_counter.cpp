#include "allocation_counter.h"

#include <cstdlib>
#include <new>

namespace {

thread_local size_t allocations = 0;
thread_local bool failing = false;

}  // namespace

void* operator new(size_t size) {
  ++allocations;
  void* memory = failing ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace executorch_tensorrt::test {

AllocationCounter::AllocationCounter() : before_(allocations) {}
size_t AllocationCounter::count() const { return allocations - before_; }

FailingAllocations::FailingAllocations() { failing = true; }
FailingAllocations::~FailingAllocations() { failing = false; }

}  // namespace executorch_tensorrt::test
