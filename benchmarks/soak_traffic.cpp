#include "soak_traffic.h"

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch_tensorrt/backend.h>
#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/optimization_profile_guard.h>
#include <executorch_tensorrt/options.h>
#include <executorch_tensorrt/stream_guard.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>

#include "faulty_device.h"
#include "floor.h"
#include "loaded_program.h"

namespace executorch_tensorrt::benchmark {

namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using Place = TrafficKind::Place;

/// The harness's own calls on the device meet injected faults too; it tries again.
template <typename Call>
auto insist(Call call, const char* what) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    auto result = call();
    if (result.ok()) return result;
  }
  require(call().error(), what);
  std::abort();  // it went well at last, which cannot be waited for
}

void insist_on(const std::function<Error()>& call, const char* what) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (call() == Error::Ok) return;
  }
  require(call(), what);
}

/// Memory of one kind, freed with it.
class Block {
 public:
  Block(Device& device, Place place, size_t bytes) : device_(device), place_(place) {
    if (place == Place::kPageable) {
      data_ = std::malloc(bytes + 1);
    } else if (place == Place::kPageLocked) {
      data_ = *insist([&] { return device.allocate_host(bytes + 1); }, "allocating");
    } else {
      data_ = *insist([&] { return device.allocate(bytes + 1); }, "allocating");
    }
  }
  ~Block() {
    if (place_ == Place::kPageable) std::free(data_);
    if (place_ == Place::kPageLocked) device_.free_host(data_);
    if (place_ == Place::kDevice) device_.free(data_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void* data() const { return data_; }
  void write(const std::vector<uint8_t>& values) {
    if (place_ != Place::kDevice || device_.reads_host_memory()) {
      std::memcpy(data_, values.data(), values.size());
      return;
    }
    copy(data_, values.data(), values.size(), CopyKind::kHostToDevice);
  }
  void read(std::vector<uint8_t>& values) const {
    if (place_ != Place::kDevice || device_.reads_host_memory()) {
      std::memcpy(values.data(), data_, values.size());
      return;
    }
    copy(values.data(), data_, values.size(), CopyKind::kDeviceToHost);
  }

 private:
  void copy(void* to, const void* from, size_t bytes, CopyKind kind) const {
    insist_on([&] { return device_.copy_async(to, from, bytes, kind, nullptr); }, "copying");
    insist_on([&] { return device_.synchronize_stream(nullptr); }, "copying");
  }

  Device& device_;
  const Place place_;
  void* data_ = nullptr;
};

/// The program loaded, with memory for every case.
class SoakProgram {
 public:
  SoakProgram(const SoakTarget& target, const std::vector<SoakCase>& cases, Place place,
              bool graphs)
      : target_(target), module_(target.program, Module::LoadMode::Mmap) {
    executorch::runtime::BackendOptions<2> options;
    options.set_option(option::kDevice, target.device.c_str());
    options.set_option(option::kCudaGraphs, graphs);
    executorch::runtime::LoadBackendOptionsMap map;
    require(map.set_options(kBackendId, options.view()), "setting options");
    error_ = module_.load_method("forward", nullptr, nullptr, &map);
    if (error_ != Error::Ok) return;
    for (const Binding& binding : target.blob->bindings) {
      if (binding.is_input) continue;
      outputs_.push_back(std::make_unique<Block>(*target.memory, place, binding.max_bytes));
    }
    for (const SoakCase& each : cases) add_inputs(each, place);
  }

  /// Of the load, with its text in the last error.
  Error error() const { return error_; }

  Error execute(size_t which) {
    executorch::runtime::Method& method = module_.method();
    for (size_t i = 0; i < tensors_[which].size(); ++i) {
      require(method.set_input(*tensors_[which][i], i), "setting an input");
    }
    size_t output = 0;
    for (const Binding& binding : target_.blob->bindings) {
      if (binding.is_input) continue;
      const auto& block = outputs_[output];
      require(method.set_output_data_ptr(block->data(), binding.max_bytes, output), "an output");
      ++output;
    }
    return method.execute();
  }

  std::vector<std::vector<uint8_t>> outputs() {
    std::vector<std::vector<uint8_t>> all;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      all.emplace_back(module_.method().get_output(i).toTensor().nbytes());
      outputs_[i]->read(all.back());
    }
    return all;
  }

 private:
  void add_inputs(const SoakCase& each, Place place) {
    auto& tensors = tensors_.emplace_back();
    for (size_t i = 0; i < each.inputs.size(); ++i) {
      auto& block = inputs_.emplace_back(
          std::make_unique<Block>(*target_.memory, place, each.inputs[i].size()));
      block->write(each.inputs[i]);
      const Dims& shape = each.shapes[i];
      std::vector<SizesType> sizes(shape.size.begin(), shape.size.begin() + shape.rank);
      tensors.push_back(executorch::extension::from_blob(block->data(), std::move(sizes),
                                                         target_.blob->bindings[i].dtype));
    }
  }

  const SoakTarget& target_;
  BenchmarkModule module_;
  Error error_ = Error::Ok;
  std::vector<std::unique_ptr<Block>> outputs_, inputs_;
  std::vector<std::vector<TensorPtr>> tensors_;  // of each case
};

double as_number(ScalarType dtype, const uint8_t* at) {
  if (dtype == ScalarType::Half) {
    executorch::aten::Half value;
    std::memcpy(&value, at, sizeof(value));
    return static_cast<float>(value);
  }
  float value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

/// Whether each is the other to the bit or, for floats, within two hundredths: TensorRT may take
/// another kernel for a shape once it has compiled one for it.
bool agree(ScalarType dtype, const std::vector<uint8_t>& found, const std::vector<uint8_t>& right) {
  if (found == right) return true;
  if (found.size() != right.size()) return false;
  if (dtype != ScalarType::Half && dtype != ScalarType::Float) return false;
  const size_t size = dtype == ScalarType::Half ? 2 : 4;
  for (size_t at = 0; at + size <= found.size(); at += size) {
    const double a = as_number(dtype, &found[at]), b = as_number(dtype, &right[at]);
    if (!(std::abs(a - b) <= 2e-2 * std::max(1.0, std::abs(b)))) return false;
  }
  return true;
}

bool all_agree(const DelegateBlob& blob, const std::vector<std::vector<uint8_t>>& found,
               const SoakCase& each) {
  for (size_t i = 0; i < found.size(); ++i) {
    const ScalarType dtype = blob.bindings[blob.num_inputs + i].dtype;
    if (!agree(dtype, found[i], each.outputs[i])) return false;
  }
  return true;
}

bool was_injected() { return std::strstr(last_error_message(), kInjected) != nullptr; }

/// One load and some calls of it.
class Session {
 public:
  Session(const SoakTarget& target, const std::vector<SoakCase>& cases, TrafficKind kind,
          TrafficCounts& counts)
      : target_(target), cases_(cases), kind_(kind), counts_(counts) {
    if (kind.on_stream) {
      stream_ = *insist([&] { return target.memory->create_stream(); }, "creating a stream");
    }
    clear_last_error();
    loaded_.emplace(target, cases, kind.place, /*graphs=*/true);
    if (loaded_->error() == Error::Ok) {
      ++counts.loads;
    } else {
      count_error("loading");
      loaded_.reset();
    }
  }
  ~Session() {
    loaded_.reset();
    if (kind_.on_stream) target_.memory->destroy_stream(stream_);
  }

  bool ok() const { return loaded_.has_value(); }

  void call(size_t which) {
    std::optional<OptimizationProfileGuard> pin;
    if (kind_.pinned) pin.emplace(target_.blob->profiles[cases_[which].profile].name);
    clear_last_error();
    const auto start = std::chrono::steady_clock::now();
    const Error error = execute(which);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (error != Error::Ok) return count_error("executing");
    {
      const std::lock_guard<std::mutex> lock(counts_.mutex);
      counts_.latencies.push_back(took.count());
    }
    if (all_agree(*target_.blob, loaded_->outputs(), cases_[which])) {
      ++counts_.calls;
    } else {
      ++counts_.wrong;
      std::fprintf(stderr, "soak: a wrong answer (%s, case %zu)\n", kind_.name, which);
    }
  }

 private:
  Error execute(size_t which) {
    if (!kind_.on_stream) return loaded_->execute(which);
    {
      const StreamGuard guard(stream_);
      if (const Error error = loaded_->execute(which); error != Error::Ok) return error;
    }
    insist_on([&] { return target_.memory->synchronize_stream(stream_); }, "waiting");
    return Error::Ok;
  }

  void count_error(const char* what) {
    if (was_injected()) {
      ++counts_.reported;
      return;
    }
    ++counts_.failures;
    std::fprintf(stderr, "soak: %s failed (%s): %s\n", what, kind_.name, last_error_message());
  }

  const SoakTarget& target_;
  const std::vector<SoakCase>& cases_;
  const TrafficKind kind_;
  TrafficCounts& counts_;
  Stream stream_ = nullptr;
  std::optional<SoakProgram> loaded_;
};

std::vector<uint8_t> random_values(ScalarType dtype, size_t bytes, std::mt19937& random) {
  std::vector<uint8_t> values = values_for(dtype, bytes);
  if (dtype != ScalarType::Float) return values;
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t at = 0; at + sizeof(float) <= bytes; at += sizeof(float)) {
    const float value = uniform(random);
    std::memcpy(&values[at], &value, sizeof(value));
  }
  return values;
}

}  // namespace

std::vector<SoakCase> soak_cases(const SoakTarget& target) {
  std::mt19937 random(1);
  std::vector<SoakCase> cases;
  for (size_t p = 0; p < target.blob->profiles.size(); ++p) {
    for (const auto bound : {&ShapeRange::min, &ShapeRange::opt, &ShapeRange::max}) {
      SoakCase each{p, {}, {}, {}};
      for (size_t i = 0; i < target.blob->num_inputs; ++i) {
        const Binding& binding = target.blob->bindings[i];
        each.shapes.push_back(target.blob->profiles[p].inputs[i].*bound);
        each.inputs.push_back(
            random_values(binding.dtype, bytes_of(binding, each.shapes.back()), random));
      }
      cases.push_back(std::move(each));
    }
  }
  SoakProgram reference(target, cases, Place::kPageable, /*graphs=*/false);
  require(reference.error(), "loading the program");
  for (size_t which = 0; which < cases.size(); ++which) {
    const OptimizationProfileGuard pin(target.blob->profiles[cases[which].profile].name);
    require(reference.execute(which), "executing");
    cases[which].outputs = reference.outputs();
  }
  return cases;
}

void run_traffic(const SoakTarget& target, const std::vector<SoakCase>& cases, TrafficKind kind,
                 const std::atomic<bool>& stop, TrafficCounts& counts) {
  std::mt19937 random(std::random_device{}());
  while (!stop) {
    Session session(target, cases, kind, counts);
    for (int i = 0; session.ok() && !stop && (kind.calls_per_load == 0 || i < kind.calls_per_load);
         ++i) {
      session.call(random() % cases.size());
    }
  }
}

}  // namespace executorch_tensorrt::benchmark
