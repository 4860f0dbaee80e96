// One execution on a StateMemory.
#include "last_error.h"
#include "state_memory.h"

namespace executorch_tensorrt {

Error StateUse::begin(StateMemory& memory, const StateBindings& bindings) {
  if (memory.layout_ != bindings.layout) {
    return report(Error::InvalidArgument,
                  "the state that was selected for this call is not of this method: create it from "
                  "the method's own, or load the methods so that they share their state");
  }
  std::unique_lock<std::mutex> lock(memory.mutex_);
  for (size_t i = 0; i < bindings.slots.size(); ++i) {
    const size_t place = bindings.slots[i];
    if (place >= memory.slots_.size() ||
        (bindings.modes[i] == StateMode::kPingPong && !memory.slots_[place].is_double())) {
      return report(Error::InvalidArgument,
                    "the state that was selected for this call was created before this method was "
                    "loaded; create it afterwards");
    }
  }
  if (const Error error = memory.refuse_lost(); error != Error::Ok) return error;
  lock_ = std::move(lock);
  memory_ = &memory;
  bindings_ = &bindings;
  return Error::Ok;
}

StateUse::~StateUse() {
  if (memory_ == nullptr || committed_) return;
  // The execution failed. A drained one has left the values alone but for those written in place.
  const bool drained = !in_flight_.is_broken();
  if (!drained) memory_->broken_ = true;
  for (size_t i = 0; i < bindings_->slots.size(); ++i) {
    if (!drained || (touched_ && bindings_->modes[i] == StateMode::kAlias)) {
      memory_->lose(slot(i));
    }
  }
}

void* StateUse::input(size_t state) const { return slot(state).value(); }

void* StateUse::output(size_t state) const {
  return bindings_->modes[state] == StateMode::kAlias ? slot(state).value() : slot(state).other();
}

Error StateUse::order(Stream stream) {
  // What this delegate put on a stream, it has ordered the stream after itself.
  if (!memory_->recorded_ || memory_->user_ == bindings_) return Error::Ok;
  return memory_->device().wait_event(stream, *memory_->done_);
}

Error StateUse::record(Stream stream) {
  const Error error = memory_->device().record_event(*memory_->done_, stream);
  if (error != Error::Ok) return error;
  memory_->recorded_ = true;
  memory_->user_ = bindings_;
  return Error::Ok;
}

void StateUse::waited() { memory_->recorded_ = false; }

void StateUse::commit() {
  for (size_t i = 0; i < bindings_->slots.size(); ++i) {
    if (bindings_->modes[i] == StateMode::kPingPong) slot(i).current ^= 1;
  }
  committed_ = true;
}

}  // namespace executorch_tensorrt
