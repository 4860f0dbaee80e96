// Real engines on a GPU. tests/gpu/make_engine_cases.py writes them, with inputs and answers;
// EXECUTORCH_TENSORRT_ENGINE_CASES names the folder. Skipped without it or without a GPU.
#ifdef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda_device.h"
#include "device_buffer.h"
#include "engine.h"
#include "last_error_has.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::aten::ScalarType;

struct CaseTensor {
  std::string name;
  Dims dims;
  std::string bytes;
};

struct EngineCase {
  uint32_t profile = 0;
  double tolerance = 0;
  std::vector<CaseTensor> inputs, outputs;
};

struct CaseFile {
  std::string name;
  std::string blob;
  std::vector<EngineCase> cases;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Dims parse_dims(const std::string& text) {
  Dims dims;
  std::istringstream stream(text == "scalar" ? "" : text);
  for (std::string size; std::getline(stream, size, 'x');) {
    dims.size[dims.rank++] = std::atoll(size.c_str());
  }
  return dims;
}

std::vector<CaseFile> read_cases(const std::string& folder) {
  std::vector<CaseFile> files;
  std::ifstream lines(folder + "/cases.txt");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, name, dims, file;
    words >> kind;
    if (kind == "blob") {
      words >> name;
      files.push_back({name, read_file(folder + "/" + name), {}});
    } else if (kind == "case") {
      EngineCase& added = files.back().cases.emplace_back();
      words >> added.profile >> added.tolerance;
    } else {
      words >> name >> dims >> file;
      EngineCase& last = files.back().cases.back();
      (kind == "input" ? last.inputs : last.outputs)
          .push_back({name, parse_dims(dims), read_file(folder + "/" + file)});
    }
  }
  return files;
}

double element(ScalarType dtype, const std::string& bytes, size_t i) {
  const auto at = [&](auto value) {
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  };
  if (dtype == ScalarType::Float) return at(float{});
  if (dtype == ScalarType::Half) return static_cast<float>(at(executorch::aten::Half{}));
  if (dtype == ScalarType::BFloat16) return static_cast<float>(at(executorch::aten::BFloat16{}));
  ADD_FAILURE() << "no tolerance for " << executorch::runtime::toString(dtype);
  return 0;
}

/// Bit for bit where the tolerance is 0.
void expect_equal(const Binding& binding, const std::string& got, const std::string& expected,
                  double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  if (tolerance == 0) {
    EXPECT_TRUE(got == expected) << binding.name << " differs";
    return;
  }
  const size_t count = got.size() / executorch::runtime::elementSize(binding.dtype);
  double worst = 0;
  for (size_t i = 0; i < count; ++i) {
    const double e = element(binding.dtype, expected, i);
    const double difference = std::abs(element(binding.dtype, got, i) - e) / (1 + std::abs(e));
    worst = difference <= worst ? worst : difference;  // also where it is not a number
  }
  EXPECT_LE(worst, tolerance) << binding.name;
}

size_t find_binding(const DelegateBlob& blob, const std::string& name) {
  for (size_t b = 0; b < blob.bindings.size(); ++b) {
    if (blob.bindings[b].name == name) return b;
  }
  ADD_FAILURE() << "no binding '" << name << "'";
  return 0;
}

/// An engine with the memory to run it in.
class Runner {
 public:
  Runner(const DelegateBlob& blob, Device& device)
      : blob_(blob), device_(device), activations_(device, MemoryKind::kDevice) {
    auto engine = create_tensorrt_engine(blob, device, {});
    if (!engine.ok()) throw std::runtime_error(last_error_message());
    engine_ = engine.get();
    stream_ = device.create_stream().get();
    for (const Profile& profile : blob.profiles) {
      const size_t bytes = engine_->activation_bytes(profile.engine_profile);
      activation_bytes_ = bytes > activation_bytes_ ? bytes : activation_bytes_;
    }
    EXPECT_EQ(activations_.reserve(activation_bytes_), Error::Ok);
  }
  ~Runner() {
    EXPECT_EQ(device_.synchronize_stream(stream_), Error::Ok);
    device_.destroy_stream(stream_);
  }

  std::unique_ptr<ExecutionContext> context(uint32_t profile) {
    auto context = engine_->create_execution_context();
    EXPECT_TRUE(context.ok()) << last_error_message();
    switch_to(*context.get(), profile);
    return std::move(context.get());
  }
  void switch_to(ExecutionContext& context, uint32_t profile) {
    EXPECT_EQ(context.set_optimization_profile(profile, stream_), Error::Ok);
    EXPECT_EQ(context.set_activation_memory(activations_.data(), activation_bytes_), Error::Ok);
  }

  /// Runs a case on a context that is on its profile already, and compares.
  void run(ExecutionContext& context, const EngineCase& run) {
    std::vector<DeviceBuffer> memory;
    for (const CaseTensor& input : run.inputs) bind_input(context, input, memory);
    for (const CaseTensor& output : run.outputs) {
      const size_t binding = find_binding(blob_, output.name);
      auto dims = context.output_shape(binding);
      ASSERT_TRUE(dims.ok()) << last_error_message();
      EXPECT_EQ(to_string(dims.get()), to_string(output.dims)) << output.name;
      void* address = reserve(memory, output.bytes.size());
      ASSERT_EQ(context.set_tensor_address(binding, address, output.bytes.size()), Error::Ok);
    }
    ASSERT_EQ(context.enqueue(stream_), Error::Ok) << last_error_message();
    for (size_t o = 0; o < run.outputs.size(); ++o) {
      const CaseTensor& output = run.outputs[o];
      std::string got(output.bytes.size(), '?');
      ASSERT_EQ(device_.copy_async(got.data(), memory[run.inputs.size() + o].data(), got.size(),
                                   CopyKind::kDeviceToHost, stream_),
                Error::Ok);
      ASSERT_EQ(device_.synchronize_stream(stream_), Error::Ok);
      expect_equal(blob_.bindings[find_binding(blob_, output.name)], got, output.bytes,
                   run.tolerance);
    }
  }

  Engine& engine() { return *engine_; }
  Stream stream() { return stream_; }
  size_t activation_bytes() const { return activation_bytes_; }
  void* activations() const { return activations_.data(); }

 private:
  void* reserve(std::vector<DeviceBuffer>& memory, size_t bytes) {
    DeviceBuffer& added = memory.emplace_back(device_, MemoryKind::kDevice);
    EXPECT_EQ(added.reserve(bytes), Error::Ok);
    return bytes == 0 ? nullptr : added.data();  // as tensors without elements come
  }

  void bind_input(ExecutionContext& context, const CaseTensor& input,
                  std::vector<DeviceBuffer>& memory) {
    const size_t binding = find_binding(blob_, input.name);
    const size_t bytes = input.bytes.size();
    ASSERT_EQ(context.set_input_shape(binding, input.dims), Error::Ok) << last_error_message();
    void* address = reserve(memory, bytes);
    if (blob_.bindings[binding].is_shape_tensor) {
      address = const_cast<char*>(input.bytes.data());
    } else {
      ASSERT_EQ(
          device_.copy_async(address, input.bytes.data(), bytes, CopyKind::kHostToDevice, stream_),
          Error::Ok);
    }
    ASSERT_EQ(context.set_tensor_address(binding, address, bytes), Error::Ok)
        << last_error_message();
  }

  const DelegateBlob& blob_;
  Device& device_;
  std::shared_ptr<Engine> engine_;
  Stream stream_ = nullptr;
  size_t activation_bytes_ = 0;
  DeviceBuffer activations_;
};

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

  const CaseFile& file(const std::string& name) {
    for (const CaseFile& f : files) {
      if (f.name == name) return f;
    }
    throw std::runtime_error("no " + name + " among the cases");
  }
  static DelegateBlob parse(const CaseFile& file) {
    auto blob = DelegateBlob::parse(file.blob.data(), file.blob.size());
    if (!blob.ok()) throw std::runtime_error(last_error_message());
    return blob.get();
  }
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
