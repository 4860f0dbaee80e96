// What stands at the library's borders, which no exception crosses.
#pragma once

#include <exception>
#include <new>

#include "last_error.h"

namespace executorch_tensorrt {

/// What `function` returns, an Error or a Result; an exception becomes an error.
template <typename Function>
auto without_exceptions(Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return report(Error::MemoryAllocationFailed, "out of host memory");
  } catch (const std::exception& exception) {
    return report(Error::Internal, exception.what());
  } catch (...) {
    return report(Error::Internal, "an exception of an unknown type");
  }
}

}  // namespace executorch_tensorrt
