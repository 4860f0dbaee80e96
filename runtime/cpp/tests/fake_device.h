// A device that does everything late: what is put on a stream runs only when something waits for
// it, in memory of its own, so that a missing wait, a wrong order or memory that goes too early
// shows. Any call can be made to fail. Several, with an index each, know one another's memory and
// streams, as GPUs of one host do, and take none but their own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "device.h"
#include "last_error.h"

namespace executorch_tensorrt::test {

/// Makes the k-th seam call from now on fail, and some or all after it. Shared by device and
/// engine.
class Faults {
 public:
  static constexpr Error kFault = Error::AccessFailed;  // that nothing else returns
  static constexpr int kForGood = 1 << 30;

  void fail_call(int k, int times = 1) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    first_ = k;
    times_ = times;
    calls_ = 0;
  }
  void clear() { fail_call(0); }
  int calls() const {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return calls_;
  }
  bool fired() const {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return first_ > 0 && calls_ >= first_;
  }
  /// A device that fails for good does no more work.
  bool lost() const {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return times_ == kForGood && fired();
  }

  /// To be asked once by every call that can fail.
  Error next(const char* call) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    ++calls_;
    if (!fired() || calls_ - first_ >= times_) return Error::Ok;
    return report(kFault, std::string("injected fault in ") + call);
  }

 private:
  mutable std::recursive_mutex mutex_;
  int first_ = 0, times_ = 1, calls_ = 0;
};

class FakeDevice final : public Device {
 public:
  struct Range {
    const void* data;
    size_t bytes;
  };

  explicit FakeDevice(int index = 0) : index_(index) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    host_.push_back(this);
  }
  ~FakeDevice() override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    host_.erase(std::find(host_.begin(), host_.end(), this));
    EXPECT_TRUE(memory_.empty()) << memory_.size() << " allocations leaked";
    EXPECT_EQ(live_events_, 0) << "events leaked";
    EXPECT_TRUE(graphs_.empty()) << graphs_.size() << " graphs leaked";
    for (const auto& [stream, state] : streams_) EXPECT_TRUE(state.callers) << "a stream leaked";
  }

  Faults faults;

  std::string name() const override { return "cuda:" + std::to_string(index_); }
  int index() const override { return index_; }
  bool reads_host_memory() const override { return false; }

  Result<void*> allocate(size_t bytes) override { return new_memory(bytes, true); }
  void free(void* memory) noexcept override { drop_memory(memory, true); }
  Result<void*> allocate_host(size_t bytes) override { return new_memory(bytes, false); }
  void free_host(void* memory) noexcept override { drop_memory(memory, false); }

  Result<PointerInfo> pointer_info(const void* pointer) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("pointer_info"); error != Error::Ok) return error;
    for (const FakeDevice* device : host_) {
      const Block* block = device->find(pointer);
      if (block == nullptr) continue;
      return PointerInfo{block->on_device, device->index_, !block->on_device};
    }
    return PointerInfo{};
  }

  Error copy_async(void* destination, const void* source, size_t bytes, CopyKind,
                   Stream stream) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("copy_async"); error != Error::Ok) return error;
    put(stream, {{destination, bytes}, {source, bytes}},
        [=] { std::memcpy(destination, source, bytes); });
    return Error::Ok;
  }

  Error zero_async(void* memory, size_t bytes, Stream stream) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("zero_async"); error != Error::Ok) return error;
    put(stream, {{memory, bytes}}, [=] { std::memset(memory, 0, bytes); });
    return Error::Ok;
  }

  Result<Stream> create_stream() override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("create_stream"); error != Error::Ok) return error;
    return new_stream(false);
  }
  void destroy_stream(Stream stream) noexcept override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    EXPECT_EQ(pending(stream), 0u) << "a stream was destroyed with work on it";
    streams_.erase(stream);
  }
  Error check_stream(Stream stream) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("check_stream"); error != Error::Ok) return error;
    if (streams_.count(stream) > 0) return Error::Ok;
    std::ostringstream text;
    text << "stream " << stream << " can not be used on " << name();
    for (const FakeDevice* device : host_) {
      if (device->streams_.count(stream) > 0) text << ": it belongs to " << device->name();
    }
    return report(Error::InvalidArgument, text.str());
  }
  Error synchronize_stream(Stream stream) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    EXPECT_FALSE(streams_.at(stream).capturing) << "a capturing stream was waited for";
    const Error error = faults.next("synchronize_stream");
    if (faults.lost()) drop_all_work();
    if (error != Error::Ok) return error;
    run(stream, streams_.at(stream).put);
    return Error::Ok;
  }
  Error synchronize() override {
    if (const Error error = faults.next("synchronize"); error != Error::Ok) return error;
    finish();
    return Error::Ok;
  }

  Result<Event> create_event() override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("create_event"); error != Error::Ok) return error;
    ++live_events_;
    return Event{new Mark{this}};
  }
  void destroy_event(Event event) noexcept override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    --live_events_;
    delete static_cast<Mark*>(event);
  }
  Error record_event(Event event, Stream stream) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("record_event"); error != Error::Ok) return error;
    EXPECT_EQ(static_cast<Mark*>(event)->device, this) << "an event of another device";
    *static_cast<Mark*>(event) = {this, stream, streams_.at(stream).put};
    return Error::Ok;
  }
  Error wait_event(Stream stream, Event event) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("wait_event"); error != Error::Ok) return error;
    const Mark mark = *static_cast<Mark*>(event);
    put(stream, {}, [this, mark] { run(mark.stream, mark.position); });
    return Error::Ok;
  }
  Error synchronize_event(Event event) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("synchronize_event"); error != Error::Ok) return error;
    const Mark mark = *static_cast<Mark*>(event);
    run(mark.stream, mark.position);
    return Error::Ok;
  }

  Error begin_capture(Stream stream) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("begin_capture"); error != Error::Ok) return error;
    EXPECT_FALSE(streams_.at(stream).capturing);
    streams_.at(stream).capturing = true;
    return Error::Ok;
  }
  Result<Graph> end_capture(Stream stream) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    StreamState& state = streams_.at(stream);
    EXPECT_TRUE(state.capturing);
    state.capturing = false;
    const auto captured = std::exchange(state.captured, {});
    if (const Error error = faults.next("end_capture"); error != Error::Ok) return error;
    const Graph graph = reinterpret_cast<Graph>(++last_handle_);
    graphs_[graph] = captured;
    return graph;
  }
  Result<bool> is_capturing(Stream stream) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("is_capturing"); error != Error::Ok) return error;
    return streams_.at(stream).capturing;
  }
  Error launch_graph(Graph graph, Stream stream) override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (const Error error = faults.next("launch_graph"); error != Error::Ok) return error;
    for (const auto& [touches, make] : graphs_.at(graph)) put_made(stream, touches, make, graph);
    return Error::Ok;
  }
  void destroy_graph(Graph graph) noexcept override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    for (const auto& [stream, state] : streams_) {
      for (const auto& [position, work] : state.work) {
        EXPECT_NE(work.graph, graph) << "a graph was destroyed in flight";
      }
    }
    EXPECT_EQ(graphs_.erase(graph), 1u);
  }

  // ---- for tests and the fake engine

  /// A stream that belongs to the test, as a caller's would.
  Stream new_callers_stream() { return new_stream(true); }

  using Run = std::function<void()>;
  /// Makes what runs, at the moment when it is put on a stream to run.
  using Make = std::function<Run()>;

  /// Puts work that touches these ranges on a stream.
  void put(Stream stream, std::vector<Range> touches, Run work) {
    put_made(stream, std::move(touches), [work] { return work; });
  }
  void put_made(Stream stream, std::vector<Range> touches, const Make& make,
                Graph graph = nullptr) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    StreamState& state = streams_.at(stream);
    for (const FakeDevice* device : host_) {
      for (const Range& range : touches) {
        const Block* block = device == this ? nullptr : device->find(range.data);
        EXPECT_TRUE(block == nullptr || !block->on_device)
            << name() << " works on memory of " << device->name();
      }
    }
    if (state.capturing) {
      state.captured.push_back({std::move(touches), make});
    } else {
      state.work[state.put++] = {std::move(touches), make(), graph};
    }
  }
  size_t live_graphs() const { return graphs_.size(); }

  /// How much put on the stream has not run yet.
  size_t pending(Stream stream) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return streams_.at(stream).work.size();
  }
  size_t pending() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    size_t total = 0;
    for (const auto& [stream, state] : streams_) total += state.work.size();
    return total;
  }
  /// Runs everything, without being a seam call.
  void finish() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    for (auto& [stream, state] : streams_) run(stream, state.put);
  }

  size_t device_bytes() const { return bytes(true); }
  size_t host_bytes() const { return bytes(false); }  // page-locked

 private:
  struct Work {
    std::vector<Range> touches;
    Run run;
    Graph graph;  // that it is part of
  };
  using Captured = std::vector<std::pair<std::vector<Range>, Make>>;
  struct StreamState {
    bool callers = false;
    size_t put = 0;
    std::map<size_t, Work> work;
    bool capturing = false;
    Captured captured;
  };
  struct Mark {
    FakeDevice* device;
    Stream stream = nullptr;
    size_t position = 0;  // all before it
  };
  struct Block {
    size_t bytes;
    bool on_device;
  };

  static bool within(const void* pointer, const void* start, size_t bytes) {
    const auto* p = static_cast<const char*>(pointer);
    const auto* s = static_cast<const char*>(start);
    return p >= s && p < s + bytes;
  }

  /// The allocation that a pointer points into, nullptr where there is none.
  const Block* find(const void* pointer) const {
    for (const auto& [start, block] : memory_) {
      if (within(pointer, start, block.bytes)) return &block;
    }
    return nullptr;
  }

  size_t bytes(bool on_device) const {
    size_t total = 0;
    for (const auto& [start, block] : memory_) {
      total += block.on_device == on_device ? block.bytes : 0;
    }
    return total;
  }

  Result<void*> new_memory(size_t bytes, bool on_device) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    const Error error = faults.next(on_device ? "allocate" : "allocate_host");
    if (error != Error::Ok) return error;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(memory, 0x7f, bytes);
    memory_[memory] = {bytes, on_device};
    return memory;
  }
  void drop_memory(void* memory, bool on_device) noexcept {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    const auto block = memory_.find(memory);
    ASSERT_TRUE(block != memory_.end() && block->second.on_device == on_device);
    for (const auto& [stream, state] : streams_) {
      for (const auto& [position, work] : state.work) {
        for (const Range& range : work.touches) {
          EXPECT_FALSE(within(range.data, memory, block->second.bytes)) << "memory freed in flight";
        }
      }
    }
    memory_.erase(block);
    std::free(memory);
  }

  Stream new_stream(bool callers) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    Stream stream = reinterpret_cast<Stream>(++last_handle_);
    streams_[stream].callers = callers;
    return stream;
  }

  void drop_all_work() {
    for (auto& [stream, state] : streams_) state.work.clear();
  }

  void run(Stream stream, size_t up_to) {
    const auto state = streams_.find(stream);
    if (state == streams_.end()) return;  // destroyed: it was empty then
    auto& work = state->second.work;
    while (!work.empty() && work.begin()->first < up_to) {
      const Work next = std::move(work.begin()->second);
      work.erase(work.begin());
      next.run();
    }
  }

  const int index_;
  // One for all, as they look at one another.
  inline static std::recursive_mutex mutex_;
  inline static std::vector<const FakeDevice*> host_;  // those that are alive
  inline static uintptr_t last_handle_ = 0;
  std::map<void*, Block> memory_;
  std::map<Stream, StreamState> streams_;
  std::map<Graph, Captured> graphs_;
  int live_events_ = 0;
};

}  // namespace executorch_tensorrt::test
