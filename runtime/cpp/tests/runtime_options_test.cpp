#include "runtime_options.h"

#include <executorch/runtime/backend/options.h>
#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/options.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "captured_log.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendOption;
using executorch::runtime::BackendOptions;
using executorch::runtime::CompileSpec;
using executorch::runtime::Error;
using executorch::runtime::Result;
using executorch::runtime::Span;

CompileSpec spec(const char* key, std::string& value) {
  return {key, {value.data(), value.size()}};
}

Result<RuntimeOptions> parse(Span<BackendOption> load_time, ArrayRef<CompileSpec> specs = {}) {
  return RuntimeOptions::parse({load_time.data(), load_time.size()}, specs);
}

class RuntimeOptionsTest : public ::testing::Test {
 protected:
  /// Expects a refusal, and returns its text.
  std::string refusal(BackendOptions<2> options) {
    const auto parsed = parse(options.view());
    EXPECT_EQ(parsed.error(), Error::InvalidArgument);
    return last_error_message();
  }

  CapturedLog log_;
};

TEST_F(RuntimeOptionsTest, AreAutomaticStickyAndPerProfileByDefault) {
  const auto options = parse({});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(std::holds_alternative<Automatic>(options->default_profile));
  EXPECT_EQ(options->profile_selection, SelectionPolicy::kSticky);
  EXPECT_EQ(options->profile_contexts, ProfileContexts::kPerProfile);
  EXPECT_EQ(options->device.kind, DeviceChoice::Kind::kAutomatic);
  EXPECT_FALSE(options->engine.host_code_allowed);
}

TEST_F(RuntimeOptionsTest, LoadTimeOptionsCountBeforeCompileSpecs) {
  std::string spec_profile = "decode", spec_selection = "first_fit", unknown = "x";
  const CompileSpec specs[] = {spec(option::kDefaultProfile, spec_profile),
                               spec(option::kProfileSelection, spec_selection),
                               spec("not_a_runtime_option", unknown)};
  BackendOptions<1> load_time;
  load_time.set_option(option::kDefaultProfile, "prefill");
  const auto options = parse(load_time.view(), ArrayRef<CompileSpec>(specs, 3));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(std::get<std::string>(options->default_profile), "prefill");
  EXPECT_EQ(options->profile_selection, SelectionPolicy::kFirstFit);
}

TEST_F(RuntimeOptionsTest, ADefaultProfileIsANameAlsoInDigitsOrAnIndex) {
  BackendOptions<1> name, index;
  name.set_option(option::kDefaultProfile, "1");
  index.set_option(option::kDefaultProfileIndex, 1);
  EXPECT_EQ(std::get<std::string>(parse(name.view())->default_profile), "1");
  EXPECT_EQ(std::get<int64_t>(parse(index.view())->default_profile), 1);
}

TEST_F(RuntimeOptionsTest, TheDevicesOwnIndexCountsBeforeDeviceId) {
  for (const auto& [device, kind, index] : {std::tuple{"auto", DeviceChoice::Kind::kAutomatic, 3},
                                            std::tuple{"cuda", DeviceChoice::Kind::kCuda, 3},
                                            std::tuple{"cuda:1", DeviceChoice::Kind::kCuda, 1},
                                            std::tuple{"cpu", DeviceChoice::Kind::kCpu, 3}}) {
    BackendOptions<2> load_time;
    load_time.set_option(option::kDeviceId, 3);
    load_time.set_option(option::kDevice, device);
    const auto options = parse(load_time.view());
    ASSERT_TRUE(options.ok()) << device;
    EXPECT_EQ(options->device.kind, kind) << device;
    EXPECT_EQ(options->device.index, index) << device;
  }
}

TEST_F(RuntimeOptionsTest, AnUnknownKeyIsRefusedWithTheKnownOnes) {
  BackendOptions<2> options;
  options.set_option("profile_selektion", "sticky");
  EXPECT_EQ(refusal(options),
            "option profile_selektion is not known to TensorRTBackend; known are default_profile, "
            "default_profile_index, "
            "profile_selection, profile_contexts, cuda_graphs, max_cuda_graphs, device_id, device, "
            "weight_streaming_budget, state_group, engine_host_code_allowed");
}

TEST_F(RuntimeOptionsTest, AValueThatDoesNotFitIsRefusedByKeyAndValue) {
  BackendOptions<2> options;
  options.set_option(option::kProfileSelection, "best");
  EXPECT_EQ(refusal(options),
            "option profile_selection: 'best' is not allowed; give 'sticky' or 'first_fit'");
  BackendOptions<2> contexts;
  contexts.set_option(option::kProfileContexts, "double");
  EXPECT_NE(refusal(contexts).find("'per_profile' or 'single'"), std::string::npos);
  for (const char* name : {"gpu", "cuda:", "cuda:-1", "cuda:1x", "CUDA", ""}) {
    BackendOptions<2> device;
    device.set_option(option::kDevice, name);
    EXPECT_NE(refusal(device).find("option device: '"), std::string::npos) << name;
  }
  for (const char* bytes : {"-1", "1 GB", ""}) {
    BackendOptions<2> budget;
    budget.set_option(option::kWeightStreamingBudget, bytes);
    EXPECT_NE(refusal(budget).find("a count of bytes"), std::string::npos) << bytes;
  }
  BackendOptions<1> budget;
  budget.set_option(option::kWeightStreamingBudget, "8589934592");
  EXPECT_EQ(parse(budget.view())->engine.weight_streaming_budget, int64_t{8589934592});
  BackendOptions<2> graphs;
  graphs.set_option(option::kMaxCudaGraphs, 0);
  EXPECT_EQ(refusal(graphs),
            "option max_cuda_graphs: '0' is not allowed; give a count of 1 or more");
  BackendOptions<2> negative;
  negative.set_option(option::kDeviceId, -1);
  EXPECT_NE(refusal(negative).find("the ordinal of a GPU"), std::string::npos);
}

TEST_F(RuntimeOptionsTest, AValueOfAnotherTypeIsRefused) {
  BackendOptions<2> options;
  options.set_option(option::kEngineHostCodeAllowed, 1);
  EXPECT_EQ(refusal(options), "option engine_host_code_allowed: '1' is not allowed; give a bool");
  BackendOptions<2> text;
  text.set_option(option::kDeviceId, "0");
  EXPECT_NE(refusal(text).find("give an int"), std::string::npos);
}

}  // namespace
}  // namespace executorch_tensorrt::test
