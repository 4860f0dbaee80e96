// What an engine costs without ExecuTorch and without the delegate: a graph launch and a wait.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "delegate_blob.h"
#include "device.h"
#include "engine.h"

namespace executorch_tensorrt::benchmark {

/// Bytes that stand for a tensor's values: 0, 1, ... 511, again and again, for int64, which are
/// token ids or positions; zeros for others.
std::vector<uint8_t> values_for(executorch::aten::ScalarType dtype, size_t bytes);

/// Where tensors lie.
enum class Memory { kDevice, kPageLocked, kPageable };

/// One profile of an engine in its opt shapes, captured into a graph. Copies from and to host
/// memory are part of the graph where that is page-locked, and put around it where it is not.
class Floor {
 public:
  Floor(const DelegateBlob& blob, size_t profile, Memory memory, Engine& engine, Device& device,
        Stream stream, void* activations);
  ~Floor();
  Floor(const Floor&) = delete;
  Floor& operator=(const Floor&) = delete;

  /// Launches the graph, with the copies, and waits for it.
  void run();
  void launch();
  void wait();

 private:
  void bind_states();
  void submit();
  void copy_inputs();
  void copy_outputs();

  const DelegateBlob& blob_;
  const Memory memory_;
  Device& device_;
  std::unique_ptr<ExecutionContext> context_;
  Stream stream_;
  Graph graph_ = nullptr;
  std::vector<void*> device_memory_, host_memory_;  // one a binding
  std::vector<void*> state_memory_;
  std::vector<std::vector<uint8_t>> pageable_;  // behind host_memory_ where it is pageable
  std::vector<size_t> bytes_;
};

/// A .pte and its first delegate, whose sections lie in its bytes.
struct ProgramFile {
  std::vector<uint8_t> bytes;
  DelegateBlob blob;
};

/// Exits with a message, and `usage`, where there is no such file, or no delegate in it.
ProgramFile read_program(const std::string& path, const char* usage);

/// Exits with the last error's text unless the call went well.
void require(executorch::runtime::Error error, const char* what);

}  // namespace executorch_tensorrt::benchmark
