#include "method_state.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

StateInfo info_of(const State& state) {
  return {state.name,
          state.dtype,
          {state.shape.size.begin(), state.shape.size.begin() + state.shape.rank},
          state.bytes()};
}

bool same_value(const std::shared_ptr<const std::vector<uint8_t>>& a,
                const std::shared_ptr<const std::vector<uint8_t>>& b) {
  if (a == nullptr || b == nullptr) return a == b;
  return *a == *b;
}

}  // namespace

const StateLayout::Entry* StateLayout::find(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&name](const Entry& entry) { return entry.info.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

bool StateLayout::has_any(const std::vector<State>& states) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(states.begin(), states.end(),
                     [this](const State& state) { return find(state.name) != nullptr; });
}

std::vector<StateLayout::Entry> StateLayout::entries() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_;
}

Result<std::vector<size_t>> StateLayout::add(const std::vector<State>& states,
                                             bool double_buffered) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const State& state : states) {
    const Entry* known = find(state.name);
    if (known == nullptr) continue;
    const StateInfo info = info_of(state);
    const char* differs = known->info.dtype != info.dtype              ? "dtype"
                          : known->info.shape != info.shape            ? "shape"
                          : !same_value(known->initial, state.initial) ? "initial value"
                                                                       : nullptr;
    if (differs == nullptr) continue;
    return report(Error::InvalidArgument,
                  "state '" + state.name + "' can not be shared: its " + differs +
                      " is another in a method that was loaded before; load them without sharing");
  }
  std::vector<size_t> places;
  for (const State& state : states) {
    const bool twice = double_buffered || state.mode == StateMode::kPingPong;
    const Entry* known = find(state.name);
    if (known == nullptr) {
      places.push_back(entries_.size());
      entries_.push_back({info_of(state), state.initial, twice});
    } else {
      places.push_back(static_cast<size_t>(known - entries_.data()));
      entries_[places.back()].double_buffered |= twice;
    }
  }
  return places;
}

Result<std::shared_ptr<MethodState>> MethodState::create(std::shared_ptr<Device> device) {
  auto state = std::make_shared<MethodState>();
  state->layout = std::make_shared<StateLayout>(std::move(device));
  auto own = StateMemory::create(state->layout);
  if (!own.ok()) return own.error();
  state->own = std::move(*own);
  return state;
}

Result<std::shared_ptr<MethodState>> MethodState::join(const Key& key,
                                                       const std::shared_ptr<Device>& device,
                                                       const std::vector<State>& states) {
  static std::mutex mutex;
  using Known =
      std::map<std::tuple<const void*, std::string, std::string>, std::weak_ptr<MethodState>>;
  static auto* known = new Known;  // outlives static delegates

  const bool grouped = !key.group.empty();
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto entry = known->begin(); entry != known->end();) {
    entry = entry->second.expired() ? known->erase(entry) : std::next(entry);
  }
  auto& entry = (*known)[grouped ? Known::key_type(nullptr, "", key.group)
                                 : Known::key_type(key.allocator, key.method, "")];
  auto state = entry.lock();
  if (state != nullptr && grouped && state->layout->device() != device) {
    return report(Error::InvalidArgument, "methods can not share their state on " +
                                              state->layout->device()->name() + " and " +
                                              device->name() + "; load them on one device");
  }
  // A method has each state once: this is a second load of it, from the same allocator.
  if (state != nullptr && !grouped && state->layout->has_any(states)) state = nullptr;
  if (state != nullptr) return state;
  auto created = create(device);
  if (created.ok()) entry = *created;
  return created;
}

Result<StateBindings> MethodState::add(const std::vector<State>& states, bool double_buffered) {
  auto slots = layout->add(states, double_buffered);
  if (!slots.ok()) return slots.error();
  if (const Error error = own->extend(); error != Error::Ok) return error;
  StateBindings bindings{layout, std::move(*slots), {}};
  for (const State& state : states) {
    bindings.modes.push_back(double_buffered ? StateMode::kPingPong : state.mode);
  }
  return bindings;
}

}  // namespace executorch_tensorrt
