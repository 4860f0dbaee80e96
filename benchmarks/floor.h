// What an engine costs without ExecuTorch and without the delegate: a graph launch and a wait.
#pragma once

#include <memory>
#include <vector>

#include "delegate_blob.h"
#include "device.h"
#include "engine.h"

namespace executorch_tensorrt::benchmark {

/// One profile of an engine in its opt shapes, captured into a graph; with copies from and to
/// page-locked host memory in the graph, or without.
class Floor {
 public:
  Floor(const DelegateBlob& blob, size_t profile, bool host, Engine& engine, Device& device,
        void* activations);
  ~Floor();
  Floor(const Floor&) = delete;
  Floor& operator=(const Floor&) = delete;

  /// Launches the graph and waits for it.
  void run();
  void launch();
  void wait();

 private:
  void submit();
  void* allocate(size_t bytes, bool on_host);

  const DelegateBlob& blob_;
  const bool host_;
  Device& device_;
  std::unique_ptr<ExecutionContext> context_;
  Stream stream_;
  Graph graph_ = nullptr;
  std::vector<void*> device_memory_, host_memory_;  // one a binding
  std::vector<size_t> bytes_;
};

/// The bytes of the first delegate blob in a .pte; exits with a message where there is none.
Section find_blob(const std::vector<uint8_t>& program);

/// Exits with the last error's text unless the call went well.
void require(executorch::runtime::Error error, const char* what);

}  // namespace executorch_tensorrt::benchmark
