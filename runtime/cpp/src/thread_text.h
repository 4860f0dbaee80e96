// A text of each thread's.
#pragma once

#include <string>

namespace executorch_tensorrt {

/// The calling thread's text for `Tag`, nullptr once it is gone: a thread's texts go with it, and
/// the main thread's static objects, which may still report errors, are destroyed after them.
template <typename Tag>
std::string* thread_text() {
  static thread_local bool gone = false;
  struct Text {
    std::string value;
    ~Text() { gone = true; }
  };
  if (gone) return nullptr;
  static thread_local Text text;
  return &text.value;
}

}  // namespace executorch_tensorrt
