// Real engines on a GPU. tests/gpu/make_engine_cases.py writes them, with inputs and answers;
// EXECUTORCH_TENSORRT_ENGINE_CASES names the folder. Skipped without it or without a GPU.
#ifdef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include "tensorrt_engine_cases.h"

#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda_device.h"
#include "device_buffer.h"
#include "engine.h"
#include "last_error_has.h"

namespace executorch_tensorrt::test {
namespace {

class TensorRTEngineCases : public testing::Test {
 protected:
  void SetUp() override {
    executorch::runtime::runtime_init();
    const char* folder = std::getenv("EXECUTORCH_TENSORRT_ENGINE_CASES");
    if (folder == nullptr) GTEST_SKIP() << "EXECUTORCH_TENSORRT_ENGINE_CASES is not set";
    files = read_cases(folder);
    ASSERT_FALSE(files.empty()) << folder;
    auto found = cuda_device(0);
    ASSERT_TRUE(found.ok()) << last_error_message();  // the variable says that there is a GPU
    device = found.get();
  }

  const CaseFile& file(const std::string& name) { return find_case(files, name); }
  DelegateBlob affine() { return parse(file("affine.blob")); }
  /// What creating an engine from a blob that does not describe it gives.
  Error create(const DelegateBlob& blob) {
    return create_tensorrt_engine(blob, *device, {}).error();
  }

  std::vector<CaseFile> files;
  std::shared_ptr<Device> device;
};

TEST_F(TensorRTEngineCases, GiveTheAnswersOfPyTorchWithAContextForEachProfile) {
  for (const CaseFile& f : files) {
    const DelegateBlob blob = parse(f);
    Runner runner(blob, *device);
    std::map<uint32_t, std::unique_ptr<ExecutionContext>> contexts;
    for (int round = 0; round < 3; ++round) {
      for (size_t c = 0; c < f.cases.size(); ++c) {
        SCOPED_TRACE(f.name + ", case " + std::to_string(c));
        auto& context = contexts[f.cases[c].profile];
        if (context == nullptr) context = runner.context(f.cases[c].profile);
        runner.run(*context, f.cases[c]);
      }
    }
  }
}

TEST_F(TensorRTEngineCases, GiveTheSameWithOneContextThatSwitchesProfiles) {
  const CaseFile& f = file("affine.blob");
  const DelegateBlob blob = parse(f);
  Runner runner(blob, *device);
  const auto context = runner.context(0);
  for (size_t c = 0; c < f.cases.size(); ++c) {
    SCOPED_TRACE(c);
    runner.switch_to(*context, f.cases[c].profile);
    runner.run(*context, f.cases[c]);
  }
}

TEST_F(TensorRTEngineCases, AContextOutlivesTheLastOtherUserOfItsEngine) {
  const CaseFile& f = file("affine.blob");
  const DelegateBlob blob = parse(f);
  auto engine = create_tensorrt_engine(blob, *device, {}).get();
  auto context = std::move(engine->create_execution_context().get());
  engine.reset();
  EXPECT_EQ(context->set_input_shape(0, f.cases[0].inputs[0].dims), Error::Ok);
  EXPECT_TRUE(context->output_shape(1).ok());
}

TEST_F(TensorRTEngineCases, LoadAndRunOnAThreadWithoutAContextAndLeaveItWithoutOne) {
  std::thread([this] {
    const CudaDriver& driver = *cuda_driver().get();
    CUdevice current = -1;
    const CaseFile& f = file("affine.blob");
    const DelegateBlob blob = parse(f);
    {
      Runner runner(blob, *device);
      const auto context = runner.context(f.cases[0].profile);
      runner.run(*context, f.cases[0]);
      EXPECT_EQ(driver.cuCtxGetDevice(&current), CUDA_ERROR_INVALID_CONTEXT);
    }
    EXPECT_EQ(driver.cuCtxGetDevice(&current), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

TEST_F(TensorRTEngineCases, AShapeThatTheProfileDoesNotTakeIsRefusedByNameInTensorRTsWords) {
  const DelegateBlob blob = affine();
  Runner runner(blob, *device);
  const auto context = runner.context(0);
  // Not every shape outside the profile's range: TensorRT-RTX takes 1x2x64. ProfileTable does not.
  for (const char* dims : {"9x1x64", "1x1x65", "1x1", "-1x1x64"}) {
    EXPECT_EQ(context->set_input_shape(0, parse_dims(dims)), Error::InvalidArgument) << dims;
    EXPECT_TRUE(last_error_has("input 'x' can not be ")) << dims;
  }
  EXPECT_EQ(context->set_input_shape(0, parse_dims("9x1x64")), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("TensorRT says: "));
  EXPECT_EQ(context->set_input_shape(0, parse_dims("8x1x64")), Error::Ok);
  EXPECT_EQ(to_string(context->output_shape(1).get()), "8x1x32");
}

TEST_F(TensorRTEngineCases, WhatIsMissingBeforeAnEnqueueIsNamed) {
  const DelegateBlob blob = affine();
  Runner runner(blob, *device);
  const auto context = runner.context(0);
  EXPECT_FALSE(context->output_shape(1).ok());
  EXPECT_TRUE(last_error_has("'x'"));
  EXPECT_EQ(context->enqueue(runner.stream()), Error::Internal);
  EXPECT_TRUE(last_error_has("enqueue on cuda:0, optimization profile 0, failed"));
  EXPECT_EQ(context->set_optimization_profile(2, runner.stream()), Error::Internal);
  EXPECT_TRUE(last_error_has("optimization profile 2 of 2"));
  if (runner.activation_bytes() > 0) {
    EXPECT_EQ(context->set_activation_memory(runner.activations(), 0), Error::Internal);
    EXPECT_TRUE(last_error_has("activation memory of 0 bytes"));
  }
}

TEST_F(TensorRTEngineCases, AnAddressThatCanNotHoldTheTensorIsRefused) {
  const DelegateBlob blob = affine();
  Runner runner(blob, *device);
  const auto context = runner.context(0);
  DeviceBuffer buffer(*device, MemoryKind::kDevice);
  ASSERT_EQ(buffer.reserve(1024), Error::Ok);
  ASSERT_EQ(context->set_input_shape(0, parse_dims("2x1x64")), Error::Ok);
  EXPECT_EQ(context->set_tensor_address(0, buffer.data(), 511), Error::Internal);
  EXPECT_TRUE(last_error_has("tensor 'x' needs 512 bytes, its memory has 511"));
  EXPECT_EQ(context->set_tensor_address(0, static_cast<char*>(buffer.data()) + 4, 512),
            Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("no multiple of 256"));
  EXPECT_EQ(context->set_tensor_address(0, nullptr, 512), Error::Internal);
  EXPECT_TRUE(last_error_has("the address of tensor 'x' is null"));
  EXPECT_EQ(context->set_tensor_address(0, buffer.data(), 512), Error::Ok);
}

TEST_F(TensorRTEngineCases, DamagedEnginesAreRefusedInTensorRTsWords) {
  DelegateBlob blob = affine();
  std::string cut(reinterpret_cast<const char*>(blob.engine.data), blob.engine.size / 2);
  blob.engine = {reinterpret_cast<const uint8_t*>(cut.data()), cut.size()};
  EXPECT_EQ(create(blob), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("does not load the engine"));
  EXPECT_TRUE(last_error_has("TensorRT says: "));
}

TEST_F(TensorRTEngineCases, ABlobThatDescribesAnotherEngineIsRefusedWithTheDifference) {
  const DelegateBlob right = affine();
  const auto refuses = [&](const DelegateBlob& blob, const std::string& why) {
    EXPECT_EQ(create(blob), Error::DelegateInvalidCompatibility) << why;
    EXPECT_TRUE(last_error_has(why));
  };
  DelegateBlob blob = right;
  blob.bindings[0].name = "other";
  refuses(blob, "it has no tensor 'other'");
  blob = right;
  blob.bindings.pop_back();
  refuses(blob, "it has 3 inputs and outputs, not 2");
  blob = right;
  blob.bindings[0].dtype = ScalarType::Half;
  refuses(blob, "tensor 'x' is Float, not Half");
  blob = right;
  blob.bindings[0].is_input = false;
  refuses(blob, "tensor 'x' is no output of it");
  blob = right;
  blob.bindings[0].dims.size[2] = 65;
  refuses(blob, "tensor 'x' has shape ?x?x64, not ?x?x65");
  blob = right;
  blob.bindings[0].is_shape_tensor = true;
  refuses(blob, "tensor 'x' is no shape tensor");
  blob = right;
  blob.profiles[1].engine_profile = 2;
  refuses(blob, "profile 'profile1' is its optimization profile 2, and it has 2");
  blob = right;
  blob.profiles[0].inputs[0].max.size[0] = 9;
  refuses(blob, "profile 'profile0' takes 'x' of 1x1x64 to 9x1x64");
  EXPECT_EQ(create(right), Error::Ok);
}

TEST_F(TensorRTEngineCases, AnEngineTiedToAnotherGpuIsRefusedBeforeItIsRead) {
  DelegateBlob blob = affine();
  blob.compute_capability_major = 7;
  blob.compute_capability_minor = 2;
  blob.engine = {};
  EXPECT_EQ(create(blob), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("built for compute capability 7.2, and cuda:0 ("));
}

}  // namespace
}  // namespace executorch_tensorrt::test

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
