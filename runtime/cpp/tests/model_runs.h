// Random sequences of a model: EXECUTORCH_TENSORRT_MODEL_SEEDS=FIRST:COUNT runs others than the
// usual; a failure prints its seed and the steps so far.
#pragma once

#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "captured_log.h"

namespace executorch_tensorrt::test {

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
