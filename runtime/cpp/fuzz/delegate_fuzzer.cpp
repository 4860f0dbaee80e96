// Load and execute, as ExecuTorch does, over the host device: any metadata around a fallback
// program that executes, or around an engine that touches all of its memory; then calls with
// arguments that fit or do not, sessions, and states that are read, written and reset in between.
// The bytes behind the blob choose them; without any, the first profile's smallest shapes are
// executed once.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>
#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/optimization_profile_guard.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "../tests/captured_log.h"
#include "call_arguments.h"
#include "delegate_blob.h"
#include "fuzzed_delegate.h"
#include "sealed_blob.h"
#include "state_values.h"
#include "touching_engine.h"

namespace executorch_tensorrt::fuzz {
namespace {

constexpr size_t kMostDelegates = 2, kMostSets = 4;

/// Printed at the end, as a target that gets nowhere finds nothing.
struct Counts {
  ~Counts() {
    std::fprintf(stderr, "%ld loads, %ld calls, %ld of them on states, and %ld resets went well\n",
                 loads, calls, on_states, resets);
  }
  long loads = 0, calls = 0, on_states = 0, resets = 0;
} counts;

/// A set of states, and the one that its method has: executions of other methods must refuse it.
struct Session {
  std::shared_ptr<StateSet> set, family;
};

class Run {
 public:
  Run(const Bytes& data, const DelegateBlob& blob, FuzzedDataProvider& script)
      : data_(data), blob_(blob), script_(script), way_(script) {}

  void all() {
    load();
    for (int i = script_.ConsumeIntegralInRange(1, 10); i > 0 && !delegates_.empty(); --i) step();
  }

 private:
  void step() {
    switch (script_.ConsumeIntegralInRange(0, 11)) {
      case 1:
        return load();
      case 2:
        return unload();
      case 3:
        return create_session();
      case 4:
        return reset();
      case 5:
        return write();
      case 6:
        return misname();
      default:
        return execute();
    }
  }

  void load() {
    if (delegates_.size() == kMostDelegates) return;
    clear_last_error();
    auto delegate = FuzzedDelegate::load(data_, blob_, way_);
    if (delegate == nullptr) {
      require(last_error_message()[0] != '\0', "a load failed without a word");
      return;
    }
    ++counts.loads;
    require(delegate->own() == nullptr || !blob_.states.empty(), "states that the blob has not");
    if (delegate->own() != nullptr) sessions_.push_back({delegate->own(), delegate->own()});
    delegates_.push_back(std::move(delegate));
  }

  void unload() { delegates_.erase(delegates_.begin() + choose(delegates_.size())); }

  void create_session() {
    if (sessions_.empty() || sessions_.size() >= kMostSets) return;
    const Session& from = any_session();
    auto made = from.set->create();
    require(made.ok(), "a session could not be made");
    require(read_states(**made, blob_) == initial_values(blob_), "a session began with others");
    sessions_.push_back({*made, from.family});
  }

  void reset() {
    if (sessions_.empty()) return;
    StateSet& set = *any_session().set;
    require(set.reset() == Error::Ok, "a reset failed");
    require(read_states(set, blob_) == initial_values(blob_), "a reset gave other values");
    ++counts.resets;
  }

  void write() {
    if (sessions_.empty() || blob_.states.empty()) return;
    StateSet& set = *any_session().set;
    const State& state = blob_.states[choose(blob_.states.size())];
    const Bytes value(state.bytes(), script_.ConsumeIntegral<uint8_t>());
    const Error error = set.write(state.name, value.data(), value.size());
    require(error == Error::Ok, "a write failed");
    Bytes read(value.size());
    if (set.read(state.name, read.data(), read.size()) == Error::Ok) {
      require(read == value, "a write is not what is read");
    }
  }

  void misname() {
    if (sessions_.empty() || blob_.states.empty()) return;
    StateSet& set = *any_session().set;
    const StateValues before = read_states(set, blob_);
    const State& state = blob_.states[choose(blob_.states.size())];
    Bytes value(state.bytes() + 1);
    const Error wrong_size = script_.ConsumeBool()
                                 ? set.write(state.name, value.data(), value.size())
                                 : set.read(state.name, value.data(), value.size());
    require(wrong_size == Error::InvalidArgument, "another size was taken");
    const Error none = set.write(state.name + '\0', value.data(), state.bytes());
    require(none == Error::InvalidArgument, "another name was taken");
    require(read_states(set, blob_) == before, "what was refused was written");
  }

  void execute() {
    FuzzedDelegate& delegate = *delegates_[choose(delegates_.size())];
    std::unique_ptr<OptimizationProfileGuard> pin;
    if (script_.ConsumeIntegralInRange(0, 3) == 1) {
      pin = std::make_unique<OptimizationProfileGuard>(script_.ConsumeIntegralInRange(-1, 4));
    }
    Session on{delegate.own(), delegate.own()};
    std::unique_ptr<StateGuard> state;
    if (!sessions_.empty() && script_.ConsumeBool()) {
      on = any_session();
      state = std::make_unique<StateGuard>(on.set);
    }
    Arguments arguments(blob_, script_);
    if (!arguments.fits()) return;
    Behaviour& behaviour = delegate.behaviour();
    behaviour.failure =
        static_cast<Behaviour::Failure>(std::max(0, script_.ConsumeIntegralInRange(-4, 2)));
    behaviour.fill = script_.ConsumeIntegral<uint8_t>();
    behaviour.in_bounds = script_.ConsumeIntegralInRange(0, 3) != 1;
    behaviour.dynamic_size = script_.ConsumeIntegralInRange(0, 20);

    const StateValues before = on.set == nullptr ? StateValues() : read_states(*on.set, blob_);
    clear_last_error();
    const Error error = delegate.execute(arguments.span());
    require(error == Error::Ok || last_error_message()[0] != '\0', "a call failed without a word");
    if (error == Error::Ok) {
      ++counts.calls;
      require(indices_hold(blob_, arguments), "a position out of bounds was let through");
    }
    if (on.set == nullptr) return;
    const StateValues after = read_states(*on.set, blob_);
    if (error == Error::Ok) {
      ++counts.on_states;
      require(on.family == delegate.own(), "a call took the states of another method");
      require(!has_lost(before) && !has_lost(after), "a call ran on states that are lost");
      if (delegate.touches()) {
        require(all_hold(after, behaviour.fill), "a state is not what the engine wrote");
      }
    } else {
      expect_as_before(before, after, delegate.touches());
    }
  }

  /// As they were; those that are written in place may be lost.
  void expect_as_before(const StateValues& before, const StateValues& after, bool in_place) {
    for (size_t i = 0; i < blob_.states.size(); ++i) {
      const bool may_lose = in_place && blob_.states[i].mode == StateMode::kAlias;
      require(after[i] == before[i] || (may_lose && !after[i].has_value()),
              "a call that failed changed a state");
    }
  }

  size_t choose(size_t count) { return script_.ConsumeIntegralInRange<size_t>(0, count - 1); }
  const Session& any_session() { return sessions_[choose(sessions_.size())]; }

  const Bytes& data_;
  const DelegateBlob& blob_;
  FuzzedDataProvider& script_;
  const Way way_;
  std::vector<std::unique_ptr<FuzzedDelegate>> delegates_;
  std::vector<Session> sessions_;
};

/// A blob may ask for as much memory as it likes; loading it then takes that.
bool fits(const DelegateBlob& blob) {
  size_t bytes = 0;
  for (const State& state : blob.states) bytes += std::min(state.bytes(), kMostBytes + 1);
  for (const Binding& each : blob.bindings) bytes += std::min<size_t>(each.max_bytes, kMostBytes);
  return bytes < kMostBytes;
}

void load_and_execute(const Bytes& data, FuzzedDataProvider& script) {
  const auto blob = DelegateBlob::parse(data.data(), data.size());
  if (!blob.ok()) {
    require(FuzzedDelegate::load(data, DelegateBlob(), Way()) == nullptr,
            "a blob was loaded that does not parse");
    return;
  }
  if (fits(*blob)) Run(data, *blob, script).all();
}

}  // namespace
}  // namespace executorch_tensorrt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace executorch_tensorrt::fuzz;
  static auto* const log = [] {
    executorch::runtime::runtime_init();
    return new executorch_tensorrt::test::CapturedLog;  // kept out of sight
  }();
  log->text().clear();
  const auto parts = take_apart(data, size);
  const size_t rest = parts ? parts->rest.size() : 0;
  FuzzedDataProvider script(data + size - rest, rest);
  load_and_execute(Bytes(data, data + size - rest), script);
  return 0;
}
