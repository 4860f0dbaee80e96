// What guards put on their thread, innermost first.
#pragma once

#include <utility>

namespace executorch_tensorrt {

/// For one thread_local variable. Node: a struct with a pointer `outer`. Nodes whose guards ended
/// on another thread stay, and go with their own.
template <typename Node>
class ThreadStack {
 public:
  ThreadStack() = default;
  ~ThreadStack() {
    while (innermost_ != nullptr) delete std::exchange(innermost_, innermost_->outer);
  }
  ThreadStack(const ThreadStack&) = delete;
  ThreadStack& operator=(const ThreadStack&) = delete;

  const Node* innermost() const { return innermost_; }

  template <typename Value>
  Node* push(Value value) {
    innermost_ = new Node{std::move(value), innermost_};
    return innermost_;
  }

  /// Usually the innermost; another one where guards end out of order. False where it is not of
  /// this thread, which must then leave it alone.
  bool remove(Node* node) {
    for (Node** link = &innermost_; *link != nullptr; link = &(*link)->outer) {
      if (*link == node) {
        *link = node->outer;
        delete node;
        return true;
      }
    }
    return false;
  }

 private:
  Node* innermost_ = nullptr;
};

}  // namespace executorch_tensorrt
