// Times a .pte's profiles: each for itself, and taking turns.
//
//   multi_profile_benchmark <model.pte> [<rounds> [<warm-up rounds>]]
//
// Inputs and outputs are in host memory, so on a GPU the copies are part of the time.
#include <executorch_tensorrt/optimization_profile_guard.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "model.h"

namespace {

using executorch_tensorrt::OptimizationProfileGuard;
using multi_profile::Model;
using multi_profile::Tensors;

constexpr int kMostRounds = 1'000'000;

/// A whole number from 1; nullopt, and a message, for anything else.
std::optional<int> parse_rounds(const char* name, const char* text) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 1 || value > kMostRounds) {
    std::fprintf(stderr, "%s must be a whole number from 1 to %d, not '%s'\n", name, kMostRounds,
                 text);
    return std::nullopt;
  }
  return value;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A profile's times, in microseconds.
struct Times {
  std::vector<double> staying, taking_turns, taking_turns_by_shape;
};

class Benchmark {
 public:
  Benchmark(Model& model, std::vector<Tensors> inputs)
      : model_(model), inputs_(std::move(inputs)), times_(inputs_.size()) {}

  bool measure(int warm_up, int rounds) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      for (int round = -warm_up; round < rounds; ++round) {
        if (!time(i, true, round < 0 ? nullptr : &times_[i].staying)) return false;
      }
    }
    for (int round = -warm_up; round < rounds; ++round) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (!time(i, true, round < 0 ? nullptr : &times_[i].taking_turns)) return false;
      }
    }
    for (int round = -warm_up; round < rounds; ++round) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (!time(i, false, round < 0 ? nullptr : &times_[i].taking_turns_by_shape)) return false;
      }
    }
    return true;
  }

  void print() const {
    std::printf("| profile | input | staying on it | taking turns, pinned | by shape |\n");
    std::printf("|---|---|---|---|---|\n");
    for (size_t i = 0; i < times_.size(); ++i) {
      std::printf("| %s | %s | %.1f us | %.1f us | %.1f us |\n", model_.profiles()[i].name.c_str(),
                  multi_profile::shape_text(*inputs_[i].front()).c_str(), median(times_[i].staying),
                  median(times_[i].taking_turns), median(times_[i].taking_turns_by_shape));
    }
  }

 private:
  bool time(size_t profile, bool pinned, std::vector<double>* times) {
    std::optional<OptimizationProfileGuard> pin;
    if (pinned) pin.emplace(profile);
    const auto start = std::chrono::steady_clock::now();
    if (!model_.execute(inputs_[profile])) return false;
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    if (times != nullptr) times->push_back(taken.count());
    return true;
  }

  Model& model_;
  std::vector<Tensors> inputs_;
  std::vector<Times> times_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: %s <model.pte> [<rounds = 200> [<warm-up rounds = 20>]]\n",
                 argv[0]);
    return 2;
  }
  const auto rounds = argc > 2 ? parse_rounds("<rounds>", argv[2]) : 200;
  const auto warm_up = argc > 3 ? parse_rounds("<warm-up rounds>", argv[3]) : 20;
  if (!rounds || !warm_up) return 2;

  const auto model = Model::load(argv[1]);
  if (model == nullptr) return 1;
  std::vector<Tensors> inputs;
  for (const auto& profile : model->profiles()) {
    auto made = model->make_inputs(profile);
    if (!made) return 1;
    inputs.push_back(std::move(*made));
  }
  std::printf("%s on %s, medians of %d calls\n\n", model->delegates().front()->engine().c_str(),
              model->delegates().front()->device().c_str(), *rounds);
  Benchmark benchmark(*model, std::move(inputs));
  if (!benchmark.measure(*warm_up, *rounds)) return 1;
  benchmark.print();
  return 0;
}
