// Random sequences of loads, unloads and executions, with pins, streams, graphs and faults, beside
// a model of what must come of them.
#include <iostream>
#include <list>

#include "delegate_fixture.h"
#include "model_runs.h"

namespace executorch_tensorrt::test {
namespace {

constexpr int kSteps = 120;

struct Pin {
  const char* text;  // in the list of steps
  ProfileRequest request;
  int profile;  // that it means; -1: none, so that the call must be refused
};
const Pin kPins[] = {
    {"", Automatic{}, 0},
    {"decode", std::string("decode"), 0},
    {"prefill", std::string("prefill"), 1},
    {"nope", std::string("nope"), -1},
    {"#0", int64_t{0}, 0},
    {"#1", int64_t{1}, 1},
    {"#7", int64_t{7}, -1},
};

/// What the model knows of a loaded delegate.
struct Loaded {
  std::unique_ptr<TensorRTDelegate> delegate;
  float bias;
  bool broken = false;  // it met a fault that could not be drained
  uint64_t executions[2] = {0, 0}, failures = 0, changes = 0;
  std::optional<size_t> last;
};

/// One execution that went well; its tensors stay until it has run.
struct Started {
  std::unique_ptr<FakeTensor> own_x, own_y;
  FakeTensor *x, *y;
  float expected;
};

class World : public ModelWorld<World> {
 public:
  explicit World(unsigned seed) : ModelWorld(seed) {
    for (const Memory memory : kMemories) {
      for (int i = 0; i < 2; ++i)
        pool_.push_back(std::make_unique<FakeTensor>(*device_, 1, memory));
    }
  }

  void step() {
    const int kind = below(20);
    if (loaded_.empty() || kind == 0) return load();
    if (kind == 1) return unload();
    if (kind <= 3) return finish();
    execute();
  }

  void end() {
    while (!loaded_.empty()) unload();
    finish();
  }

 private:
  static constexpr Memory kMemories[] = {Memory::kPageable, Memory::kPageLocked, Memory::kDevice,
                                         Memory::kUnalignedDevice};

  static const char* name(Memory memory) {
    constexpr const char* kNames[] = {"pageable", "page-locked", "device", "unaligned"};
    return kNames[static_cast<int>(memory)];
  }

  void load() {
    if (loaded_.size() == 3) return unload();
    Options options;
    options.contexts = one_in(2) ? ProfileContexts::kSingle : ProfileContexts::kPerProfile;
    options.selection = one_in(2) ? SelectionPolicy::kSticky : SelectionPolicy::kFirstFit;
    options.max_cuda_graphs = below(4);
    Loaded made;
    made.bias = static_cast<float>(1 + below(5));
    const auto engine = std::make_shared<FakeEngine>(device_, made.bias);
    engine->refuses_capture = one_in(6);
    say("load graphs " + std::to_string(options.max_cuda_graphs) +
        (options.contexts == ProfileContexts::kSingle ? " single" : "") + plan_fault(14));
    auto delegate = make_delegate(device_, options, engine);
    const bool fired = end_faults();
    if (!delegate.ok()) {
      EXPECT_TRUE(fired && delegate.error() == Faults::kFault) << last_error_message();
      EXPECT_EQ(engine->live_contexts, 0);
      return;
    }
    made.delegate = std::move(*delegate);
    loaded_.push_back(std::move(made));
  }

  void unload() {
    auto it = loaded_.begin();
    std::advance(it, below(static_cast<int>(loaded_.size())));
    say("unload");
    check_statistics(*it);
    loaded_.erase(it);
  }

  /// All that was put on streams runs; what went well must have come out right.
  void finish() {
    say("finish");
    device_->finish();
    for (const Started& each : started_) {
      EXPECT_TRUE(each.y->holds(each.expected)) << "an answer is wrong, not " << each.expected;
    }
    started_.clear();
    abandoned_.clear();
  }

  bool is_in_use(const FakeTensor* tensor) const {
    const auto holds = [tensor](const Started& each) {
      return each.x == tensor || each.y == tensor;
    };
    return std::any_of(started_.begin(), started_.end(), holds) ||
           std::any_of(abandoned_.begin(), abandoned_.end(), holds);
  }

  /// One of the pool, at an address that was used before, or one that goes with the call.
  FakeTensor* tensor(std::unique_ptr<FakeTensor>& own, Memory& memory, const FakeTensor* other) {
    FakeTensor* pooled = pool_[below(static_cast<int>(pool_.size()))].get();
    memory = kMemories[below(4)];
    if (one_in(2) && pooled != other && !is_in_use(pooled)) {
      for (size_t i = 0; i < pool_.size(); ++i) {
        if (pool_[i].get() == pooled) memory = kMemories[i / 2];
      }
      return pooled;
    }
    own = std::make_unique<FakeTensor>(*device_, 1, memory);
    return own.get();
  }

  void execute() {
    auto it = loaded_.begin();
    std::advance(it, below(static_cast<int>(loaded_.size())));
    if (it->broken && one_in(3)) return unload();
    Started call{};
    Memory x_memory, y_memory;
    call.x = tensor(call.own_x, x_memory, nullptr);
    call.y = tensor(call.own_y, y_memory, call.x);
    const int rows = one_in(2) ? 1 : one_in(8) ? 0 : one_in(2) ? 8 : 2 + below(15);
    call.x->set_rows(rows);
    const float value = static_cast<float>(below(1000));
    call.x->fill(value);
    call.expected = value + it->bias;
    const Pin& pin = kPins[one_in(2) ? 0 : below(7)];
    const int stream = below(3);  // 2: the delegate's own
    const auto is_on_device = [](Memory m) {
      return m == Memory::kDevice || m == Memory::kUnalignedDevice;
    };
    const bool returns_early = stream < 2 && is_on_device(x_memory) && is_on_device(y_memory);
    say("execute " + std::to_string(rows) + " rows, " + name(x_memory) + " to " + name(y_memory) +
        ", pin '" + pin.text + "', stream " + std::to_string(stream) + plan_fault(14));

    const Error error = run(*it, call, pin, stream);
    const std::string text = last_error_message();
    const bool fired = end_faults();
    const int profile = rows == 0 ? -1 : rows == 1 ? 0 : 1;
    const bool fits = profile >= 0 && (pin.text[0] == '\0' || pin.profile == profile);
    if (error != Error::Ok) {
      refused(*it, call, error, text, fired, fits);
      return;
    }
    EXPECT_TRUE(fits) << "a call went well that fits no profile or not its pin";
    EXPECT_FALSE(it->broken);
    went_well(*it, static_cast<size_t>(profile));
    EXPECT_EQ(call.y->rows(), rows);
    EXPECT_TRUE(returns_early || call.y->holds(call.expected)) << "it returned too early";
    started_.push_back(std::move(call));
  }

  Error run(Loaded& loaded, Started& call, const Pin& pin, int stream) {
    std::unique_ptr<OptimizationProfileGuard> pinned;
    if (const auto* name = std::get_if<std::string>(&pin.request)) {
      pinned = std::make_unique<OptimizationProfileGuard>(*name);
    } else if (const auto* index = std::get_if<int64_t>(&pin.request)) {
      pinned = std::make_unique<OptimizationProfileGuard>(*index);
    }
    std::unique_ptr<StreamGuard> guard;
    if (stream < 2) guard = std::make_unique<StreamGuard>(streams_[stream]);
    clear_last_error();
    return test::execute(*loaded.delegate, *call.x, *call.y);
  }

  void went_well(Loaded& loaded, size_t profile) {
    ++calls_right;
    ++loaded.executions[profile];
    loaded.changes += loaded.last && *loaded.last != profile;
    loaded.last = profile;
    check_statistics(loaded);
  }

  void refused(Loaded& loaded, Started& call, Error error, const std::string& text, bool fired,
               bool fits) {
    ++calls_refused;
    ++loaded.failures;
    check_statistics(loaded);
    EXPECT_FALSE(text.empty()) << "an error without a word";
    if (loaded.broken) {
      EXPECT_NE(text.find("load the program again"), std::string::npos) << text;
    } else if (error == Error::InvalidArgument) {
      EXPECT_FALSE(fits) << text;
      EXPECT_NE(text.find("profile"), std::string::npos) << text;
    } else {
      EXPECT_TRUE(fired) << "failed without a fault: " << text;
      EXPECT_EQ(error, Faults::kFault);
      EXPECT_NE(text.find("injected fault"), std::string::npos) << text;
    }
    loaded.broken |= text.find("then waiting for what had been enqueued failed") != text.npos;
    if (loaded.broken) {
      // Its work may run as long as it is there, and has no answer to be checked.
      call.expected = 0;
      abandoned_.push_back(std::move(call));
    }
    // Else nothing of it may be in flight, which the device checks where its memory is freed.
  }

  void check_statistics(const Loaded& loaded) {
    const DelegateStatistics counts = loaded.delegate->record()->statistics();
    EXPECT_EQ(counts.executions, loaded.executions[0] + loaded.executions[1]);
    EXPECT_EQ(counts.executions_per_profile[0], loaded.executions[0]);
    EXPECT_EQ(counts.executions_per_profile[1], loaded.executions[1]);
    EXPECT_EQ(counts.failures, loaded.failures);
    EXPECT_EQ(counts.profile_changes, loaded.changes);
    EXPECT_EQ(counts.last_profile, loaded.last);
    EXPECT_LE(counts.graph_replays + counts.graph_misses, counts.executions + counts.failures);
  }

  std::vector<std::unique_ptr<FakeTensor>> pool_;
  std::list<Started> started_, abandoned_;
  std::list<Loaded> loaded_;  // go before the tensors that they may use
};

TEST(DelegateModelTest, WhateverIsLoadedExecutedAndFailsAnswersAreRightOrErrorsNameTheCause) {
  const int count = run_model<World>(kSteps);
  std::cout << World::calls_right << " calls went well, " << World::calls_refused
            << " were refused, " << World::faults_fired << " faults were injected\n";
  EXPECT_GT(World::calls_right, 20 * count);
  EXPECT_GT(World::faults_fired, 5 * count);
}

}  // namespace
}  // namespace executorch_tensorrt::test
