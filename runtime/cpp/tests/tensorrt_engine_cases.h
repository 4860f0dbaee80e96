// Real engines with inputs and answers, from the folder that EXECUTORCH_TENSORRT_ENGINE_CASES
// names; gpu/make_engine_cases.py writes it.
#pragma once

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "device.h"
#include "device_buffer.h"
#include "engine.h"
#include "last_error.h"

namespace executorch_tensorrt::test {

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

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline Dims parse_dims(const std::string& text) {
  Dims dims;
  std::istringstream stream(text == "scalar" ? "" : text);
  for (std::string size; std::getline(stream, size, 'x');) {
    dims.size[dims.rank++] = std::atoll(size.c_str());
  }
  return dims;
}

inline std::vector<CaseFile> read_cases(const std::string& folder) {
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

inline const CaseFile& find_case(const std::vector<CaseFile>& files, const std::string& name) {
  for (const CaseFile& file : files) {
    if (file.name == name) return file;
  }
  throw std::runtime_error("no " + name + " among the cases");
}

/// Its sections point into the file.
inline DelegateBlob parse(const CaseFile& file) {
  auto blob = DelegateBlob::parse(file.blob.data(), file.blob.size());
  if (!blob.ok()) throw std::runtime_error(last_error_message());
  return blob.get();
}

inline double element(ScalarType dtype, const std::string& bytes, size_t i) {
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
inline void expect_equal(const Binding& binding, const std::string& got,
                         const std::string& expected, double tolerance) {
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

inline size_t find_binding(const DelegateBlob& blob, const std::string& name) {
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

}  // namespace executorch_tensorrt::test
