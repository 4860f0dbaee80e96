// Random sequences of loads, unloads, executions, sessions, resets, reads and writes of states,
// with streams, graphs and faults, beside a model of what the states then are.
#include <iostream>
#include <list>
#include <optional>

#include "model_runs.h"
#include "state_fixture.h"
#include "state_model.h"

namespace executorch_tensorrt::test {
namespace {

constexpr int kSteps = 100;

class StateWorld : public ModelWorld<StateWorld> {
 public:
  explicit StateWorld(unsigned seed) : ModelWorld(seed) {
    for (int i = 0; i < 3; ++i) pool_.push_back(std::make_unique<CallTensors>(*device_, i));
  }

  void step() {
    const int kind = below(24);
    if (loaded_.empty() || kind == 0) return load();
    if (kind == 1) return unload();
    if (kind == 2) return finish();
    if (kind == 3) return create_session();
    if (kind == 4) return drop_session();
    if (kind == 5 && !sets_.empty()) return reset(any(sets_));
    if (kind <= 7) return write();
    if (kind <= 9) return read();
    execute();
  }

  void end() {
    for (ModelSet& set : sets_) probe(set);
    while (!loaded_.empty()) unload();
    finish();
    for (ModelSet& set : sets_) probe(set);
  }

  static int states_lost;

 private:
  struct Loaded {
    std::unique_ptr<TensorRTDelegate> delegate;
    StateKind kind;
    std::shared_ptr<ModelFamily> family;
    bool broken = false;  // it met a fault that could not be drained
    uint64_t executions = 0, failures = 0;
  };

  /// Alone, or in the family of one that is there.
  void load() {
    if (loaded_.size() == 3) return unload();
    Loaded made;
    made.kind = {one_in(2), one_in(4), one_in(2), one_in(2)};
    if (!loaded_.empty() && one_in(2)) made.family = any(loaded_).family;
    const bool joins = made.family != nullptr;
    const int graphs = below(4);
    say("load " + made.kind.name() + (made.kind.alias_count ? " alias count" : "") + " graphs " +
        std::to_string(graphs) + (joins ? " in a family" : "") + plan_fault(30));
    auto state = joins ? made.family->state.lock() : nullptr;
    if (!joins) {
      made.family = std::make_shared<ModelFamily>();
      auto created = MethodState::create(device_);
      if (created.ok()) state = *created;
    }
    std::unique_ptr<TensorRTDelegate> delegate;
    Error error = Faults::kFault;
    if (state != nullptr) {
      auto loaded = make_state_delegate(device_, made.kind, graphs, state);
      error = loaded.error();
      if (loaded.ok()) delegate = std::move(*loaded);
    }
    const std::string text = last_error_message();
    const bool fired = end_faults();
    if (state != nullptr) made.family->try_load(made.kind, delegate != nullptr);
    if (delegate == nullptr) {
      EXPECT_TRUE(fired && error == Faults::kFault) << text;
      EXPECT_FALSE(text.empty());
      return;
    }
    if (!joins) {
      made.family->state = state;
      sets_.push_back({state->own, made.family, /*is_own=*/true});
    }
    for (ModelSet& set : sets_) {
      if (set.family == made.family && set.is_own) set.take_up_layout();
    }
    made.delegate = std::move(delegate);
    loaded_.push_back(std::move(made));
  }

  void unload() {
    auto it = loaded_.begin();
    std::advance(it, below(static_cast<int>(loaded_.size())));
    say("unload");
    const DelegateStatistics counts = it->delegate->record()->statistics();
    EXPECT_EQ(counts.executions, it->executions);
    EXPECT_EQ(counts.failures, it->failures);
    loaded_.erase(it);
  }

  /// All that was put on streams runs; what went well must have come out right.
  void finish() {
    say("finish");
    device_->finish();
    for (CallTensors* each : started_) each->expect_answer();
    for (const auto& tensors : pool_) tensors->in_use = false;
    started_.clear();
    own_.clear();
    kept_.clear();
  }

  void create_session() {
    if (sets_.empty() || sets_.size() >= 8) return drop_session();
    ModelSet& from = any(sets_);
    say("create a session" + plan_fault(10));
    auto made = from.set->create();
    const std::string text = last_error_message();
    const bool fired = end_faults();
    if (made.ok()) {
      sets_.push_back({*made, from.family, /*is_own=*/false});
      sets_.back().take_up_layout();
      return;
    }
    EXPECT_TRUE(fired && made.error() == Faults::kFault) << text;
  }

  /// Also the one of a method that is still loaded, which then holds it alone.
  void drop_session() {
    if (sets_.empty()) return;
    auto it = sets_.begin();
    std::advance(it, below(static_cast<int>(sets_.size())));
    if (it->is_own && !it->family->state.expired()) return;
    say("drop a session");
    sets_.erase(it);
  }

  void reset(ModelSet& set) {
    say("reset" + plan_fault(8));
    const Error error = on_some_stream([&] { return set.set->reset(); });
    const bool fired = end_faults();
    if (error == Error::Ok) {
      set.values = Expected();
      set.lost = {};
    } else {
      EXPECT_TRUE(fired && error == Faults::kFault) << last_error_message();
      set.may_have_lost({true, true});
    }
    probe(set);
  }

  void write() {
    if (sets_.empty()) return;
    ModelSet& set = any(sets_);
    const bool cache = one_in(2);
    say(std::string("write ") + (cache ? "cache" : "count") + plan_fault(6));
    Expected& written = kept_.emplace_back(set.values);
    if (cache) written.cache.fill(static_cast<float>(below(1000)));
    if (!cache) written.count = static_cast<float>(below(1000));
    const Error error = on_some_stream([&] {
      return cache ? set.set->write("cache", written.cache.data(), sizeof(written.cache))
                   : set.set->write("count", &written.count, sizeof(written.count));
    });
    const bool fired = end_faults();
    if (error == Error::Ok) {
      set.values = written;
      set.lost[cache ? 0 : 1] = false;
    } else {
      EXPECT_TRUE(fired && error == Faults::kFault) << last_error_message();
      set.may_have_lost({cache, !cache});
    }
    probe(set);
  }

  void read() {
    if (sets_.empty()) return;
    ModelSet& set = any(sets_);
    say("read" + plan_fault(6));
    float& count = kept_.emplace_back().count;
    const Error error =
        on_some_stream([&] { return set.set->read("count", &count, sizeof(count)); });
    const bool fired = end_faults();
    EXPECT_TRUE(error != Error::Ok || count == set.values.count);
    EXPECT_TRUE(error == Error::Ok || error == (fired ? Faults::kFault : Error::InvalidState) ||
                (set.lost[1] && error == Error::InvalidState))
        << last_error_message();
    probe(set);
  }

  template <typename Action>
  Error on_some_stream(const Action& action) {
    std::unique_ptr<StreamGuard> guard;
    if (one_in(2)) guard = std::make_unique<StreamGuard>(streams_[below(2)]);
    return action();
  }

  /// The states are what the model says, and lost only where it says so or that they may be.
  void probe(ModelSet& set) { states_lost += set.probe(); }

  CallTensors* tensors() {
    CallTensors* pooled = pool_[static_cast<size_t>(below(3))].get();
    if (!one_in(3) && !pooled->in_use) return pooled;
    own_.push_back(std::make_unique<CallTensors>(*device_, below(3)));
    return own_.back().get();
  }

  void execute() {
    Loaded& loaded = any(loaded_);
    if (loaded.broken && one_in(3)) return unload();
    ModelSet* set = find_own(loaded);
    std::shared_ptr<StateSet> pinned;
    if (one_in(2)) {
      set = &any(sets_);
      pinned = set->set;
    }
    if ((set->lost[0] || set->lost[1]) && one_in(2)) return reset(*set);
    CallTensors* call = tensors();
    const int rows = one_in(2) ? 1 : 2 + below(15);
    const auto value = static_cast<float>(below(1000));
    const int64_t pos = one_in(3) ? below(kCacheRows + 4) - 2 : below(kCacheRows + 1 - rows);
    const int stream = below(3);  // 2: the delegate's own
    const bool pins_none = one_in(12);
    call->fill(rows, value, pos);
    say("execute " + std::to_string(rows) + " rows at " + std::to_string(pos) + ", tensors " +
        std::to_string(call->kind) + (pinned == nullptr ? "" : ", on a session") + ", stream " +
        std::to_string(stream) + (pins_none ? ", no such profile" : "") + plan_fault(24));
    const Error error = run(loaded, *call, pinned, stream, pins_none);
    const std::string text = last_error_message();
    const bool fired = end_faults();
    const bool writes_within = pos >= 0 && pos + rows <= kCacheRows;
    const bool may_go_well = !loaded.broken && !pins_none && set->family == loaded.family &&
                             set->has_room_for(loaded.kind) && !set->lost[0] && !set->lost[1] &&
                             (writes_within || !(loaded.kind.checked || loaded.kind.guarded));
    if (error == Error::Ok) {
      EXPECT_TRUE(may_go_well) << "a call went well that was to be refused";
      ++calls_right;
      ++loaded.executions;
      call->expected = value + set->values.count;
      set->values.write_within(pos, rows, value);
      call->in_use = true;
      started_.push_back(call);
      if (one_in(4)) probe(*set);
      return;
    }
    ++calls_refused;
    ++loaded.failures;
    EXPECT_FALSE(text.empty()) << "an error without a word";
    refused(loaded, *set, error, text, fired, may_go_well && !set->may_lack_room(loaded.kind));
    // Its work may run as long as a delegate is there that could not wait for it; else nothing of
    // it may be in flight, which the device checks where its memory is freed.
    call->in_use = loaded.broken;
    if (!loaded.broken && !own_.empty() && call == own_.back().get()) own_.pop_back();
  }

  ModelSet* find_own(const Loaded& loaded) {
    for (ModelSet& set : sets_) {
      if (set.is_own && set.family == loaded.family) return &set;
    }
    return nullptr;
  }

  Error run(Loaded& loaded, CallTensors& call, const std::shared_ptr<StateSet>& pinned, int stream,
            bool pins_none) {
    std::unique_ptr<OptimizationProfileGuard> profile;
    if (pins_none) profile = std::make_unique<OptimizationProfileGuard>(7);
    std::unique_ptr<StateGuard> state;
    if (pinned != nullptr) state = std::make_unique<StateGuard>(pinned);
    std::unique_ptr<StreamGuard> guard;
    if (stream < 2) guard = std::make_unique<StreamGuard>(streams_[stream]);
    clear_last_error();
    return StateFixture::execute(*loaded.delegate, call.x, call.pos, call.y);
  }

  void refused(Loaded& loaded, ModelSet& set, Error error, const std::string& text, bool fired,
               bool must_go_well) {
    const bool was_broken = loaded.broken;
    loaded.broken |= error == Faults::kFault && text.find(
                                                    "then waiting for what had been "
                                                    "enqueued failed") != text.npos;
    if (was_broken) {
      EXPECT_NE(text.find("load the program again"), text.npos) << text;
    } else if (fired) {
      EXPECT_TRUE(error == Faults::kFault || !must_go_well) << text;
    } else {
      EXPECT_FALSE(must_go_well) << text;
      EXPECT_TRUE(error == Error::InvalidArgument || error == Error::InvalidState) << text;
      EXPECT_EQ(error == Error::InvalidState, text.find("' is lost: ") != text.npos) << text;
    }
    const bool enqueued = error == Faults::kFault || text.find("write out of bounds") != text.npos;
    if (!was_broken && enqueued && set.family == loaded.family) {
      set.may_have_lost(
          {loaded.kind.alias || loaded.broken, loaded.kind.alias_count || loaded.broken});
    }
    probe(set);
  }

  std::vector<std::unique_ptr<CallTensors>> pool_;
  std::vector<std::unique_ptr<CallTensors>> own_;
  std::vector<CallTensors*> started_;
  std::list<Expected>
      kept_;  // what was read to and written from, as copies that failed may run yet
  std::list<ModelSet> sets_;
  std::list<Loaded> loaded_;  // go before the tensors that they may use
};

int StateWorld::states_lost = 0;

TEST(DelegateStateModelTest, WhateverIsExecutedAndFailsStatesAreRightAsBeforeOrSaidToBeLost) {
  const int count = run_model<StateWorld>(kSteps);
  std::cout << StateWorld::calls_right << " calls went well, " << StateWorld::calls_refused
            << " were refused, " << StateWorld::faults_fired << " faults were injected, "
            << StateWorld::states_lost << " states were lost\n";
  EXPECT_GT(StateWorld::calls_right, 15 * count);
  EXPECT_GT(StateWorld::faults_fired, 5 * count);
  EXPECT_GT(StateWorld::states_lost, count / 2);
}

}  // namespace
}  // namespace executorch_tensorrt::test
