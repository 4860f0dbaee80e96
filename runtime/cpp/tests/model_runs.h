// Random sequences of a model: EXECUTORCH_TENSORRT_MODEL_SEEDS=FIRST:COUNT runs others than the
// usual; a failure prints its seed and the steps so far.
#pragma once

#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <random>
#include <string>

#include "captured_log.h"
#include "fake_device.h"

namespace executorch_tensorrt::test {

/// What Worlds have in common: a device, chance, faults, and the list of their steps. The counts
/// are of all that were made of a World.
template <typename World>
class ModelWorld {
 public:
  const std::string& steps() const { return steps_; }
  static inline int faults_fired = 0, calls_right = 0, calls_refused = 0;

 protected:
  explicit ModelWorld(unsigned seed) : random_(seed) {}

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  bool one_in(int n) { return below(n) == 0; }
  template <typename List>
  typename List::value_type& any(List& list) {
    return *std::next(list.begin(), below(static_cast<int>(list.size())));
  }
  void say(const std::string& step) { steps_ += "  " + step + "\n"; }

  /// One of the next `most` calls at the seams fails, and perhaps the one behind it.
  std::string plan_fault(int most) {
    if (!one_in(3)) return "";
    const int k = 1 + below(most), times = one_in(4) ? 2 : 1;
    device_->faults.fail_call(k, times);
    return " fault at " + std::to_string(k) + (times == 2 ? " and the next" : "");
  }
  /// Whether one was injected since.
  bool end_faults() {
    const bool fired = device_->faults.fired();
    device_->faults.clear();
    faults_fired += fired;
    return fired;
  }

  const std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  const Stream streams_[2] = {device_->new_callers_stream(), device_->new_callers_stream()};

 private:
  std::minstd_rand random_;
  std::string steps_;
};

/// A World is made of a seed, and has step(), end() and steps(). Returns how many were run.
template <typename World>
int run_model(int steps) {
  executorch::runtime::runtime_init();
  const CapturedLog log;
  unsigned first = 1, count = 300;
  if (const char* seeds = std::getenv("EXECUTORCH_TENSORRT_MODEL_SEEDS")) {
    EXPECT_EQ(std::sscanf(seeds, "%u:%u", &first, &count), 2) << seeds;
  }
  for (unsigned seed = first; seed < first + count; ++seed) {
    std::string text;
    {
      World world(seed);
      for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) world.step();
      if (!::testing::Test::HasFailure()) world.end();
      text = world.steps();
    }
    log.text().clear();
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed << ":\n" << text;
      break;
    }
  }
  return static_cast<int>(count);
}

}  // namespace executorch_tensorrt::test
