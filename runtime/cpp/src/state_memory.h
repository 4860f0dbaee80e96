// The memory behind a StateSet: one session's values of a method's states.
#pragma once

#include <executorch_tensorrt/state.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "completion.h"
#include "delegate_blob.h"
#include "device.h"
#include "device_buffer.h"

namespace executorch_tensorrt {

/// The states that a method, or a group of methods, has in all. It only grows.
class StateLayout {
 public:
  struct Entry {
    StateInfo info;
    std::shared_ptr<const std::vector<uint8_t>> initial;  // nullptr: zeros
    bool double_buffered;  // some delegate writes it to other memory than it reads it from
  };

  explicit StateLayout(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  const std::shared_ptr<Device>& device() const { return device_; }
  /// Whether one of these is there already.
  bool has_any(const std::vector<State>& states) const;
  /// The places of a delegate's states, old or new. `double_buffered`: all of them, whatever their
  /// mode. InvalidArgument, and nothing is added, for one that is there with another dtype, shape
  /// or initial value.
  Result<std::vector<size_t>> add(const std::vector<State>& states, bool double_buffered);
  std::vector<Entry> entries() const;

 private:
  const Entry* find(const std::string& name) const;

  const std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

class StateMemory final : public StateSet {
 public:
  static Result<std::shared_ptr<StateMemory>> create(std::shared_ptr<StateLayout> layout);
  /// Waits for what is in flight.
  ~StateMemory() override;

  std::vector<StateInfo> states() const override;
  Error reset() override;
  Error read(std::string_view name, void* destination, size_t bytes) override;
  Error write(std::string_view name, const void* source, size_t bytes) override;
  Result<std::shared_ptr<StateSet>> create() const override;

  /// Takes up what was added to the layout, with its initial values.
  Error extend();

 private:
  friend class StateUse;

  struct Slot {
    Slot(StateLayout::Entry entry, Device& device)
        : entry(std::move(entry)),
          buffers{DeviceBuffer(device, MemoryKind::kDevice),
                  DeviceBuffer(device, MemoryKind::kDevice)} {}

    StateLayout::Entry entry;
    std::array<DeviceBuffer, 2> buffers;  // the second only where it is double-buffered
    size_t current = 0;                   // the buffer that holds the value
    bool lost = false;

    bool is_double() const { return buffers[1].data() != nullptr; }
    void* value() const { return buffers[current].data(); }
    void* other() const { return buffers[1 - current].data(); }
  };

  explicit StateMemory(std::shared_ptr<StateLayout> layout) : layout_(std::move(layout)) {}
  Device& device() const { return *layout_->device(); }

  Error extend_locked();
  Error initialize(Slot& slot, Stream stream);
  Result<Slot*> find(std::string_view name, size_t bytes);
  Result<Stream> choose_stream() const;
  /// The stream to work on, put behind the last recorded use and what could not be waited for.
  Result<Stream> ordered_stream();
  Result<CopyKind> copy_kind(const void* pointer, bool to_state) const;
  Error copy(void* destination, const void* source, size_t bytes, CopyKind kind, Stream stream);
  Error finish(Stream stream);
  void lose(Slot& slot) noexcept;
  Error refuse_lost() const;

  const std::shared_ptr<StateLayout> layout_;
  mutable std::mutex mutex_;  // over all below
  std::vector<Slot> slots_;   // in the layout's order
  std::optional<Stream> stream_;
  std::optional<Event> done_;   // of the last recorded use
  bool recorded_ = false;       // done_ marks the end of work that may still run
  bool broken_ = false;         // there may be work in flight that could not be waited for
  const void* user_ = nullptr;  // the delegate that recorded it
  std::string lost_because_;
};

/// A delegate's states: their places in its method's layout, and how it writes each.
struct StateBindings {
  std::shared_ptr<StateLayout> layout;
  std::vector<size_t> slots;
  std::vector<StateMode> modes;
};

/// One execution's hold on a StateMemory, from before it looks at the values on. Ends by commit(),
/// or with the values as they were, or with those lost that may have been written in place.
class StateUse {
 public:
  explicit StateUse(const InFlight& in_flight) : in_flight_(in_flight) {}
  ~StateUse();
  StateUse(const StateUse&) = delete;
  StateUse& operator=(const StateUse&) = delete;

  /// InvalidArgument if the set is not one of the delegate's, InvalidState if it is lost.
  [[nodiscard]] Error begin(StateMemory& memory, const StateBindings& bindings);
  bool begun() const { return memory_ != nullptr; }

  /// The memory of a delegate's state: of its value, and of what the engine writes.
  void* input(size_t state) const;
  void* output(size_t state) const;
  /// Whether the addresses stay as they are, whoever executes on the set.
  bool is_fixed(size_t state) const { return !slot(state).is_double(); }

  /// Orders the stream after the last recorded use by another delegate.
  [[nodiscard]] Error order(Stream stream);
  /// From now on, states are written.
  void touch() { touched_ = true; }
  /// Marks the end of the use on its stream, without waiting for it.
  [[nodiscard]] Error record(Stream stream);
  /// The use, ordered after those before it, has been waited for.
  void waited();
  /// The execution went through: what it wrote is the value now.
  void commit();

 private:
  StateMemory::Slot& slot(size_t state) const { return memory_->slots_[bindings_->slots[state]]; }

  const InFlight& in_flight_;
  std::unique_lock<std::mutex> lock_;
  StateMemory* memory_ = nullptr;
  const StateBindings* bindings_ = nullptr;
  bool touched_ = false, committed_ = false;
};

}  // namespace executorch_tensorrt
