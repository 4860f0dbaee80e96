#include "state_memory.h"

#include <executorch_tensorrt/stream_guard.h>

#include <algorithm>
#include <new>
#include <utility>

#include "last_error.h"
#include "thread_state.h"
#include "without_exceptions.h"

namespace executorch_tensorrt {

namespace {

std::string quoted(std::string_view name) { return "state '" + std::string(name) + "'"; }

}  // namespace

Result<std::shared_ptr<StateMemory>> StateMemory::create(std::shared_ptr<StateLayout> layout) {
  std::shared_ptr<StateMemory> memory(new StateMemory(std::move(layout)));
  const auto stream = memory->device().create_stream();
  if (!stream.ok()) return stream.error();
  memory->stream_ = *stream;
  const auto done = memory->device().create_event();
  if (!done.ok()) return done.error();
  memory->done_ = *done;
  if (const Error error = memory->extend(); error != Error::Ok) return error;
  return memory;
}

StateMemory::~StateMemory() {
  // A failure is reported; nothing is left to return it to.
  if (broken_) {
    (void)device().synchronize();
  } else if (recorded_) {
    (void)device().synchronize_event(*done_);
  }
  if (done_) device().destroy_event(*done_);
  if (stream_) device().destroy_stream(*stream_);
}

std::vector<StateInfo> StateMemory::states() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<StateInfo> infos;
  for (const Slot& slot : slots_) infos.push_back(slot.entry.info);
  return infos;
}

Error StateMemory::extend() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return extend_locked();
}

Error StateMemory::extend_locked() {
  std::vector<StateLayout::Entry> entries = layout_->entries();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!entries[i].double_buffered) continue;
    const Error error = slots_[i].buffers[1].reserve(slots_[i].entry.info.bytes);
    if (error != Error::Ok) return error;
  }
  std::vector<Slot> added;
  for (size_t i = slots_.size(); i < entries.size(); ++i) {
    Slot& slot = added.emplace_back(std::move(entries[i]), device());
    const size_t count = slot.entry.double_buffered ? 2 : 1;
    for (size_t b = 0; b < count; ++b) {
      const Error error = slot.buffers[b].reserve(slot.entry.info.bytes);
      if (error != Error::Ok) return error;
    }
  }
  slots_.reserve(slots_.size() + added.size());
  Error error = Error::Ok;
  for (Slot& slot : added) {
    if (error == Error::Ok) error = initialize(slot, *stream_);
  }
  // Also behind an error, before the memory goes.
  const Error finished = finish(*stream_);
  if (error == Error::Ok) error = finished;
  if (error != Error::Ok) {
    // Where the stream could not be waited for, all of the device is.
    if (broken_) (void)device().synchronize();
    return error;
  }
  for (Slot& slot : added) slots_.push_back(std::move(slot));
  return Error::Ok;
}

Error StateMemory::initialize(Slot& slot, Stream stream) {
  const size_t bytes = slot.entry.info.bytes;
  if (bytes == 0) return Error::Ok;
  if (slot.entry.initial == nullptr) return device().zero_async(slot.value(), bytes, stream);
  return device().copy_async(slot.value(), slot.entry.initial->data(), bytes,
                             CopyKind::kHostToDevice, stream);
}

/// Waits for what this set put on the stream. Where that fails, it is tried once more, so that
/// nothing runs any more behind the error; where that fails too, it may.
Error StateMemory::finish(Stream stream) {
  const Error error = device().synchronize_stream(stream);
  if (error == Error::Ok) return Error::Ok;
  const std::string cause = last_error_message();
  if (device().synchronize() == Error::Ok) return report(error, cause);
  broken_ = true;
  return error;
}

void StateMemory::lose(Slot& slot) noexcept {
  slot.lost = true;
  try {
    lost_because_ = last_error_message();
  } catch (const std::bad_alloc&) {
    lost_because_.clear();
  }
}

Error StateMemory::refuse_lost() const {
  for (const Slot& slot : slots_) {
    if (!slot.lost) continue;
    return report(Error::InvalidState, quoted(slot.entry.info.name) +
                                           " is lost: a failed call may have written part of it (" +
                                           lost_because_ +
                                           "); reset the state, or write all that is lost");
  }
  return Error::Ok;
}

Result<Stream> StateMemory::choose_stream() const {
  const auto callers = StreamGuard::current();
  if (!callers) return *stream_;
  if (const Error error = device().check_stream(*callers); error != Error::Ok) return error;
  const auto capturing = device().is_capturing(*callers);
  if (!capturing.ok()) return capturing.error();
  if (*capturing) {
    return report(Error::InvalidArgument,
                  "state can not be read, written or reset while the caller's stream is captured");
  }
  return *callers;
}

Result<Stream> StateMemory::ordered_stream() {
  const auto stream = choose_stream();
  if (!stream.ok()) return stream.error();
  if (broken_) {
    // What could not be waited for may still write the states, on whatever stream.
    if (const Error error = device().synchronize(); error != Error::Ok) return error;
    broken_ = recorded_ = false;
  }
  if (recorded_) {
    const Error error = device().wait_event(*stream, *done_);
    if (error != Error::Ok) return error;
  }
  return Stream{*stream};
}

Error StateMemory::reset() {
  return without_exceptions([this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto stream = ordered_stream();
    if (!stream.ok()) return stream.error();
    Error error = Error::Ok;
    for (Slot& slot : slots_) {
      if (error == Error::Ok) error = initialize(slot, *stream);
    }
    const Error finished = finish(*stream);  // also behind an error
    if (finished == Error::Ok) recorded_ = false;
    if (error == Error::Ok) error = finished;
    for (Slot& slot : slots_) {
      if (error == Error::Ok) {
        slot.lost = false;
      } else {
        lose(slot);
      }
    }
    return error;
  });
}

Result<StateMemory::Slot*> StateMemory::find(std::string_view name, size_t bytes) {
  std::string known;
  for (Slot& slot : slots_) {
    if (slot.entry.info.name != name) {
      known += (known.empty() ? "" : ", ") + slot.entry.info.name;
      continue;
    }
    if (slot.entry.info.bytes == bytes) return &slot;
    return report(Error::InvalidArgument, quoted(name) + " has " +
                                              std::to_string(slot.entry.info.bytes) +
                                              " bytes; it was given " + std::to_string(bytes));
  }
  return report(Error::InvalidArgument,
                "there is no " + quoted(name) + "; states are " + (known.empty() ? "none" : known));
}

Result<CopyKind> StateMemory::copy_kind(const void* pointer, bool to_state) const {
  if (device().reads_host_memory()) return CopyKind::kDeviceToDevice;
  const auto info = device().pointer_info(pointer);
  if (!info.ok()) return info.error();
  if (!info->on_device) return to_state ? CopyKind::kHostToDevice : CopyKind::kDeviceToHost;
  if (info->device_index == device().index()) return CopyKind::kDeviceToDevice;
  return report(Error::InvalidArgument,
                "the memory is on cuda:" + std::to_string(info->device_index) +
                    "; the state is on " + device().name());
}

Error StateMemory::copy(void* destination, const void* source, size_t bytes, CopyKind kind,
                        Stream stream) {
  const Error error = device().copy_async(destination, source, bytes, kind, stream);
  const Error finished = finish(stream);  // also behind an error
  if (finished == Error::Ok) recorded_ = false;
  return error != Error::Ok ? error : finished;
}

Error StateMemory::read(std::string_view name, void* destination, size_t bytes) {
  return without_exceptions([&]() -> Error {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto slot = find(name, bytes);
    if (!slot.ok()) return slot.error();
    if ((*slot)->lost) return refuse_lost();
    if (bytes == 0) return Error::Ok;
    const auto kind = copy_kind(destination, /*to_state=*/false);
    if (!kind.ok()) return kind.error();
    const auto stream = ordered_stream();
    if (!stream.ok()) return stream.error();
    return copy(destination, (*slot)->value(), bytes, *kind, *stream);
  });
}

Error StateMemory::write(std::string_view name, const void* source, size_t bytes) {
  return without_exceptions([&]() -> Error {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto slot = find(name, bytes);
    if (!slot.ok()) return slot.error();
    if (bytes > 0) {
      const auto kind = copy_kind(source, /*to_state=*/true);
      if (!kind.ok()) return kind.error();
      const auto stream = ordered_stream();
      if (!stream.ok()) return stream.error();
      const Error error = copy((*slot)->value(), source, bytes, *kind, *stream);
      if (error != Error::Ok) {
        lose(**slot);
        return error;
      }
    }
    (*slot)->lost = false;
    return Error::Ok;
  });
}

Result<std::shared_ptr<StateSet>> StateMemory::create() const {
  return without_exceptions([this]() -> Result<std::shared_ptr<StateSet>> {
    auto memory = create(layout_);
    if (!memory.ok()) return memory.error();
    return std::shared_ptr<StateSet>(std::move(*memory));
  });
}

}  // namespace executorch_tensorrt
