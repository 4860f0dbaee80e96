#include <executorch_tensorrt/stream_guard.h>

#include "device.h"
#include "last_error.h"
#include "thread_stack.h"
#include "thread_state.h"

namespace executorch_tensorrt {

namespace internal {
struct StreamPin {
  Stream stream;
  StreamPin* outer;
};
}  // namespace internal

namespace {
thread_local ThreadStack<internal::StreamPin> streams;
}  // namespace

StreamGuard::StreamGuard(void* stream) : pin_(streams.push<Stream>(stream)) {}

StreamGuard::~StreamGuard() {
  if (streams.remove(pin_)) return;
  (void)report(Error::InvalidState,
               "a StreamGuard was destroyed on another thread than it was made on; its stream "
               "stays there");
}

std::optional<void*> StreamGuard::current() noexcept {
  if (streams.innermost() == nullptr) return std::nullopt;
  return streams.innermost()->stream;
}

}  // namespace executorch_tensorrt
