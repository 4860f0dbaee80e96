#include "faulty_device.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "device.h"
#include "last_error.h"

namespace executorch_tensorrt::benchmark {

namespace {

std::atomic<int> calls_left{-1};  // below 0: none fails
std::atomic<uint64_t> injected{0};

/// To be asked once by every call that can fail.
Error next(const char* call) {
  if (calls_left.load(std::memory_order_relaxed) < 0) return Error::Ok;
  if (calls_left.fetch_sub(1) != 0) return Error::Ok;
  ++injected;
  return report(Error::Internal, std::string(kInjected) + " in " + call);
}

/// Passes every call on, but for those that fail.
class FaultyDevice final : public Device {
 public:
  explicit FaultyDevice(std::shared_ptr<Device> real) : real_(std::move(real)) {}

  std::string name() const override { return real_->name(); }
  int index() const override { return real_->index(); }
  bool reads_host_memory() const override { return real_->reads_host_memory(); }

  Result<void*> allocate(size_t bytes) override {
    return made("allocate", [&] { return real_->allocate(bytes); });
  }
  void free(void* memory) noexcept override { real_->free(memory); }
  Result<void*> allocate_host(size_t bytes) override {
    return made("allocate_host", [&] { return real_->allocate_host(bytes); });
  }
  void free_host(void* memory) noexcept override { real_->free_host(memory); }
  Result<PointerInfo> pointer_info(const void* pointer) override {
    return made("pointer_info", [&] { return real_->pointer_info(pointer); });
  }
  Error copy_async(void* destination, const void* source, size_t bytes, CopyKind kind,
                   Stream stream) override {
    return done("copy_async",
                [&] { return real_->copy_async(destination, source, bytes, kind, stream); });
  }
  Error zero_async(void* memory, size_t bytes, Stream stream) override {
    return done("zero_async", [&] { return real_->zero_async(memory, bytes, stream); });
  }
  Result<Stream> create_stream() override {
    return made("create_stream", [&] { return real_->create_stream(); });
  }
  void destroy_stream(Stream stream) noexcept override { real_->destroy_stream(stream); }
  Error check_stream(Stream stream) override {
    return done("check_stream", [&] { return real_->check_stream(stream); });
  }
  Error synchronize_stream(Stream stream) override {
    return done("synchronize_stream", [&] { return real_->synchronize_stream(stream); });
  }
  Error synchronize() override {
    return done("synchronize", [&] { return real_->synchronize(); });
  }
  Result<Event> create_event() override {
    return made("create_event", [&] { return real_->create_event(); });
  }
  void destroy_event(Event event) noexcept override { real_->destroy_event(event); }
  Error record_event(Event event, Stream stream) override {
    return done("record_event", [&] { return real_->record_event(event, stream); });
  }
  Error wait_event(Stream stream, Event event) override {
    return done("wait_event", [&] { return real_->wait_event(stream, event); });
  }
  Error synchronize_event(Event event) override {
    return done("synchronize_event", [&] { return real_->synchronize_event(event); });
  }
  Error begin_capture(Stream stream) override {
    return done("begin_capture", [&] { return real_->begin_capture(stream); });
  }
  Result<Graph> end_capture(Stream stream) override {
    // A capture that fails at its end has ended all the same.
    auto graph = real_->end_capture(stream);
    const Error error = next("end_capture");
    if (error == Error::Ok || !graph.ok()) return graph;
    if (*graph != nullptr) real_->destroy_graph(*graph);
    return error;
  }
  Result<bool> is_capturing(Stream stream) override {
    return made("is_capturing", [&] { return real_->is_capturing(stream); });
  }
  Error launch_graph(Graph graph, Stream stream) override {
    return done("launch_graph", [&] { return real_->launch_graph(graph, stream); });
  }
  void destroy_graph(Graph graph) noexcept override { real_->destroy_graph(graph); }
  Error push_current() noexcept override { return real_->push_current(); }
  void pop_current() noexcept override { real_->pop_current(); }

 private:
  template <typename Call>
  static Error done(const char* name, Call call) {
    const Error error = next(name);
    return error == Error::Ok ? call() : error;
  }
  template <typename Call>
  static auto made(const char* name, Call call) -> decltype(call()) {
    if (const Error error = next(name); error != Error::Ok) return error;
    return call();
  }

  const std::shared_ptr<Device> real_;
};

/// One object a device for the life of the process, as the runtime asks for.
std::shared_ptr<Device> faulty(std::shared_ptr<Device> real) {
  static std::mutex mutex;
  static auto* devices = new std::map<Device*, std::shared_ptr<Device>>;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& device = (*devices)[real.get()];
  if (device == nullptr) device = std::make_shared<FaultyDevice>(std::move(real));
  return device;
}

}  // namespace

void inject_fault(int skip) { calls_left = skip; }

uint64_t injected_faults() { return injected; }

}  // namespace executorch_tensorrt::benchmark

// --- What the linker puts in the place of the runtime's own (ld --wrap) --------------------------

namespace executorch_tensorrt {

Result<std::shared_ptr<Device>> real_cuda_device(int index) __asm__(
    "__real__ZN19executorch_tensorrt11cuda_deviceEi");
Result<std::shared_ptr<Device>> wrapped_cuda_device(int index) __asm__(
    "__wrap__ZN19executorch_tensorrt11cuda_deviceEi");
std::shared_ptr<Device> real_host_device() __asm__(
    "__real__ZN19executorch_tensorrt11host_deviceEv");
std::shared_ptr<Device> wrapped_host_device() __asm__(
    "__wrap__ZN19executorch_tensorrt11host_deviceEv");

Result<std::shared_ptr<Device>> wrapped_cuda_device(int index) {
  auto device = real_cuda_device(index);
  if (!device.ok()) return device.error();
  return benchmark::faulty(std::move(*device));
}

std::shared_ptr<Device> wrapped_host_device() { return benchmark::faulty(real_host_device()); }

}  // namespace executorch_tensorrt
