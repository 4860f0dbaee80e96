#include "floor.h"

#include <executorch_tensorrt/error.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "arguments.h"

namespace executorch_tensorrt::benchmark {

void require(Error error, const char* what) {
  if (error == Error::Ok) return;
  std::fprintf(stderr, "%s: %s (%s)\n", what, last_error_message(),
               executorch::runtime::to_string(error));
  std::exit(1);
}

namespace {

template <typename T>
T take(Result<T> result, const char* what) {
  require(result.error(), what);
  return std::move(*result);
}

}  // namespace

std::vector<uint8_t> values_for(executorch::aten::ScalarType dtype, size_t bytes) {
  std::vector<uint8_t> values(bytes);
  if (dtype == executorch::aten::ScalarType::Long) {
    auto* numbers = reinterpret_cast<int64_t*>(values.data());
    for (size_t i = 0; i < bytes / sizeof(int64_t); ++i) numbers[i] = i % 512;
  }
  return values;
}

Floor::Floor(const DelegateBlob& blob, size_t profile, Memory memory, Engine& engine,
             Device& device, Stream stream, void* activations)
    : blob_(blob),
      memory_(memory),
      device_(device),
      context_(take(engine.create_execution_context(), "creating a context")),
      stream_(stream) {
  const Profile& chosen = blob.profiles[profile];
  require(context_->set_optimization_profile(chosen.engine_profile, stream_), "setting a profile");
  require(
      context_->set_activation_memory(activations, engine.activation_bytes(chosen.engine_profile)),
      "setting activations");
  for (size_t i = 0; i < blob.bindings.size(); ++i) {
    const Binding& binding = blob.bindings[i];
    Dims shape;
    if (binding.is_input) {
      shape = chosen.inputs[i].opt;
      require(context_->set_input_shape(i, shape), "setting a shape");
    } else {
      shape = take(context_->output_shape(i), "finding an output's shape");
    }
    bytes_.push_back(bytes_of(binding, shape));
    device_memory_.push_back(take(device.allocate(bytes_.back()), "allocating"));
    if (memory == Memory::kPageable) {
      host_memory_.push_back(pageable_.emplace_back(bytes_.back()).data());
    } else {
      host_memory_.push_back(take(device.allocate_host(bytes_.back()), "allocating"));
    }
    const auto values = values_for(binding.dtype, bytes_.back());
    std::memcpy(host_memory_.back(), values.data(), values.size());
    require(device.copy_async(device_memory_.back(), host_memory_.back(), bytes_.back(),
                              CopyKind::kHostToDevice, stream_),
            "copying");
    require(context_->set_tensor_address(i, device_memory_.back(), bytes_.back()), "binding");
  }
  bind_states();
  submit();
  require(device.synchronize_stream(stream_), "executing");
  require(device.begin_capture(stream_), "capturing");
  submit();
  graph_ = take(device.end_capture(stream_), "capturing");
}

Floor::~Floor() {
  device_.destroy_graph(graph_);
  for (void* memory : device_memory_) device_.free(memory);
  for (void* memory : state_memory_) device_.free(memory);
  if (memory_ == Memory::kPageable) return;
  for (void* memory : host_memory_) device_.free_host(memory);
}

void Floor::bind_states() {
  const auto allocated = [this](size_t bytes) {
    return state_memory_.emplace_back(take(device_.allocate(bytes), "allocating"));
  };
  const auto tensors = blob_.tensors();
  const auto bind = [&](size_t tensor, void* memory) {
    require(context_->set_tensor_address(tensor, memory, tensors[tensor].max_bytes), "binding");
  };
  for (size_t i = 0; i < blob_.states.size(); ++i) {
    const size_t bytes = tensors[blob_.state_input(i)].max_bytes;
    void* memory = allocated(bytes);
    bind(blob_.state_input(i), memory);
    bind(blob_.state_output(i),
         blob_.states[i].mode == StateMode::kAlias ? memory : allocated(bytes));
  }
  if (!blob_.guard.empty()) bind(blob_.guard_output(), allocated(1));
}

void Floor::submit() {
  if (memory_ == Memory::kPageLocked) copy_inputs();
  require(context_->enqueue(stream_), "enqueueing");
  if (memory_ == Memory::kPageLocked) copy_outputs();
}

void Floor::copy_inputs() {
  for (size_t i = 0; i < blob_.num_inputs; ++i) {
    require(device_.copy_async(device_memory_[i], host_memory_[i], bytes_[i],
                               CopyKind::kHostToDevice, stream_),
            "copying");
  }
}

void Floor::copy_outputs() {
  for (size_t i = blob_.num_inputs; i < bytes_.size(); ++i) {
    require(device_.copy_async(host_memory_[i], device_memory_[i], bytes_[i],
                               CopyKind::kDeviceToHost, stream_),
            "copying");
  }
}

void Floor::run() {
  if (memory_ == Memory::kPageable) copy_inputs();
  launch();
  if (memory_ == Memory::kPageable) copy_outputs();
  wait();
}

void Floor::launch() { require(device_.launch_graph(graph_, stream_), "launching"); }

void Floor::wait() { require(device_.synchronize_stream(stream_), "waiting"); }

namespace {

/// The bytes of the first delegate blob.
Section find_blob(const std::vector<uint8_t>& program) {
  constexpr uint8_t kMagic[] = {'E', 'T', 'R', 'T', 1, 0};
  auto read = [](const uint8_t* at) {
    uint64_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  auto at = program.begin();
  while ((at = std::search(at, program.end(), std::begin(kMagic), std::end(kMagic))) !=
         program.end()) {
    const size_t rest = program.end() - at;
    if (rest >= 64) {
      const uint8_t* header = &*at;
      const uint64_t size = read(header + 56) > 0 ? read(header + 48) + read(header + 56)
                                                  : read(header + 32) + read(header + 40);
      if (size <= rest) return {header, size};
    }
    ++at;
  }
  std::fprintf(stderr, "the program has no TensorRT delegate\n");
  std::exit(1);
}

}  // namespace

ProgramFile read_program(const std::string& path, const char* usage) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("cannot read " + path, usage);
  ProgramFile program{{std::istreambuf_iterator<char>(file), {}}, {}};
  const Section bytes = find_blob(program.bytes);
  program.blob = take(DelegateBlob::parse(bytes.data, bytes.size), "reading the delegate blob");
  return program;
}

}  // namespace executorch_tensorrt::benchmark
