#include <executorch_tensorrt/state.h>

#include <utility>

#include "last_error.h"
#include "thread_stack.h"
#include "thread_state.h"

namespace executorch_tensorrt {

namespace internal {
struct StatePin {
  std::shared_ptr<StateSet> state;
  StatePin* outer;
};
}  // namespace internal

namespace {
thread_local ThreadStack<internal::StatePin> states;
}  // namespace

StateSet::~StateSet() = default;

StateGuard::StateGuard(std::shared_ptr<StateSet> state) : pin_(states.push(std::move(state))) {}

StateGuard::~StateGuard() {
  if (states.remove(pin_)) return;
  (void)report(Error::InvalidState,
               "a StateGuard was destroyed on another thread than it was made on; its state stays "
               "there");
}

StateSet* pinned_state() noexcept {
  return states.innermost() == nullptr ? nullptr : states.innermost()->state.get();
}

}  // namespace executorch_tensorrt
