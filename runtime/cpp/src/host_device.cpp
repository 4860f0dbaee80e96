// The host as a Device: memory is memory, and a stream is the calling thread.
#include <cstdlib>
#include <cstring>

#include "device.h"
#include "last_error.h"

namespace executorch_tensorrt {

namespace {

constexpr size_t kAlignment = 256;

class HostDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  int index() const override { return 0; }
  bool reads_host_memory() const override { return true; }

  Result<void*> allocate(size_t bytes) override {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded + kAlignment);
    if (memory == nullptr) {
      return report(Error::MemoryAllocationFailed,
                    "out of host memory: " + std::to_string(bytes) + " bytes");
    }
    return memory;
  }
  void free(void* memory) noexcept override { std::free(memory); }
  Result<void*> allocate_host(size_t bytes) override { return allocate(bytes); }
  void free_host(void* memory) noexcept override { std::free(memory); }
  Result<PointerInfo> pointer_info(const void*) override { return PointerInfo{}; }

  Error copy_async(void* destination, const void* source, size_t bytes, CopyKind, Stream) override {
    std::memcpy(destination, source, bytes);
    return Error::Ok;
  }

  Error zero_async(void* memory, size_t bytes, Stream) override {
    std::memset(memory, 0, bytes);
    return Error::Ok;
  }

  Result<Stream> create_stream() override { return Stream{nullptr}; }
  void destroy_stream(Stream) noexcept override {}
  Error check_stream(Stream) override { return Error::Ok; }
  Error synchronize_stream(Stream) override { return Error::Ok; }

  Error synchronize() override { return Error::Ok; }

  Result<Event> create_event() override { return Event{nullptr}; }
  void destroy_event(Event) noexcept override {}
  Error record_event(Event, Stream) override { return Error::Ok; }
  Error wait_event(Stream, Event) override { return Error::Ok; }
  Error synchronize_event(Event) override { return Error::Ok; }

  Error begin_capture(Stream) override {
    return report(Error::NotSupported, "the host captures no graphs");
  }
  Result<Graph> end_capture(Stream) override { return Graph{nullptr}; }
  Result<bool> is_capturing(Stream) override { return false; }
  Error launch_graph(Graph, Stream) override {
    return report(Error::NotSupported, "the host launches no graphs");
  }
  void destroy_graph(Graph) noexcept override {}
};

}  // namespace

std::shared_ptr<Device> host_device() {
  static const auto device = std::make_shared<HostDevice>();
  return device;
}

}  // namespace executorch_tensorrt
