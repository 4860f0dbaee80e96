#include <executorch_tensorrt/stream_guard.h>

#include "thread_state.h"

namespace executorch_tensorrt {

namespace {
thread_local std::optional<Stream> current_stream;
}  // namespace

StreamGuard::StreamGuard(void* stream) noexcept
    : had_outer_(current_stream.has_value()), outer_(current_stream.value_or(nullptr)) {
  current_stream = stream;
}

StreamGuard::~StreamGuard() {
  if (had_outer_) {
    current_stream = outer_;
  } else {
    current_stream.reset();
  }
}

std::optional<Stream> callers_stream() noexcept { return current_stream; }

}  // namespace executorch_tensorrt
