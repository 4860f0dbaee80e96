// Load and execute, as ExecuTorch does, over the host device: any metadata around a fallback
// program that executes, then calls with arguments that fit or do not. The bytes behind the blob
// choose them; without any, the first profile's smallest shapes are executed once.
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>
#include <executorch_tensorrt/backend.h>
#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/optimization_profile_guard.h>
#include <executorch_tensorrt/options.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "../tests/captured_log.h"
#include "delegate_blob.h"
#include "sealed_blob.h"

namespace executorch_tensorrt::fuzz {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::extension::TensorPtr;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendOption;
using executorch::runtime::Error;
using executorch::runtime::EValue;

// Above them the harness, not the runtime, would run out of memory.
constexpr uint32_t kMostArguments = 64;
constexpr size_t kMostBytes = 1 << 20;

/// Printed at the end, as a target that gets nowhere finds nothing.
struct Counts {
  ~Counts() { std::fprintf(stderr, "%ld loads and %ld calls went well\n", loads, calls); }
  long loads = 0, calls = 0;
} counts;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s; the last error: %s\n", what, last_error_message());
  std::abort();
}

/// The arguments of one call, each in an allocation of its own size.
class Arguments {
 public:
  Arguments(const DelegateBlob& blob, FuzzedDataProvider& script)
      : values_(std::min(blob.num_arguments, kMostArguments)) {
    const Profile& profile =
        blob.profiles[script.ConsumeIntegralInRange<size_t>(0, blob.profiles.size() - 1)];
    const bool as_told = script.ConsumeIntegralInRange(0, 3) != 1;
    for (size_t i = 0; i < blob.bindings.size(); ++i) {
      const Binding& binding = blob.bindings[i];
      if (binding.argument >= values_.size()) continue;
      const Dims shape = binding.is_input ? choose(profile.inputs[i], script) : largest(binding);
      fits_ &= add(binding, as_told ? shape : perturbed(shape, script),
                   as_told ? binding.dtype : other_dtype(binding.dtype, script));
    }
    if (!as_told && script.ConsumeBool() && !values_.empty()) values_.pop_back();
    for (EValue& value : values_) pointers_.push_back(&value);
  }

  /// Whether the harness could make them.
  bool fits() const { return fits_; }
  executorch::runtime::Span<EValue*> span() { return {pointers_.data(), pointers_.size()}; }

 private:
  static Dims choose(const ShapeRange& range, FuzzedDataProvider& script) {
    const Dims* const shapes[] = {&range.min, &range.opt, &range.max};
    return *shapes[script.ConsumeIntegralInRange(0, 2)];
  }
  /// -1 stands for 16 here, which is the bound of the seeds' dynamic dims.
  static Dims largest(const Binding& binding) {
    Dims shape = binding.dims;
    for (uint32_t d = 0; d < shape.rank; ++d) {
      if (shape.size[d] < 0) shape.size[d] = 16;
    }
    return shape;
  }
  static Dims perturbed(Dims shape, FuzzedDataProvider& script) {
    if (script.ConsumeBool()) shape.rank = script.ConsumeIntegralInRange<uint32_t>(0, kMaxRank);
    if (shape.rank > 0) {
      shape.size[script.ConsumeIntegralInRange<uint32_t>(0, shape.rank - 1)] =
          script.ConsumeIntegralInRange<int64_t>(0, 40);
    }
    return shape;
  }
  static ScalarType other_dtype(ScalarType dtype, FuzzedDataProvider& script) {
    constexpr ScalarType kOthers[] = {ScalarType::Float, ScalarType::Long, ScalarType::Half};
    return script.ConsumeBool() ? kOthers[script.ConsumeIntegralInRange(0, 2)] : dtype;
  }

  bool add(const Binding& binding, const Dims& shape, ScalarType dtype) {
    std::vector<SizesType> sizes;
    size_t bytes = executorch::runtime::elementSize(dtype);
    for (uint32_t d = 0; d < shape.rank; ++d) {
      if (shape.size[d] > static_cast<int64_t>(kMostBytes)) return false;
      sizes.push_back(static_cast<SizesType>(shape.size[d]));
      if (__builtin_mul_overflow(bytes, static_cast<size_t>(shape.size[d]), &bytes)) return false;
    }
    if (bytes > kMostBytes) return false;
    memory_.emplace_back(bytes, uint8_t{1});
    tensors_.push_back(
        executorch::extension::from_blob(memory_.back().data(), std::move(sizes), dtype));
    values_[binding.argument] = EValue(*tensors_.back());
    return true;
  }

  std::vector<EValue> values_;
  std::vector<EValue*> pointers_;
  std::vector<std::vector<uint8_t>> memory_;
  std::vector<TensorPtr> tensors_;
  bool fits_ = true;
};

std::vector<BackendOption> options(FuzzedDataProvider& script) {
  const auto text = [](const char* key, const char* value) {
    BackendOption option{};
    std::snprintf(option.key, sizeof(option.key), "%s", key);
    std::array<char, executorch::runtime::kMaxOptionValueLength> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%s", value);
    option.value = buffer;
    return option;
  };
  return {text(option::kDevice, "cpu"),
          text(option::kProfileSelection, script.ConsumeBool() ? "first_fit" : "sticky")};
}

void execute(const executorch::runtime::BackendInterface& backend,
             executorch::runtime::DelegateHandle* handle, const DelegateBlob& blob,
             FuzzedDataProvider& script) {
  const int calls = script.ConsumeIntegralInRange(1, 4);
  for (int i = 0; i < calls; ++i) {
    std::unique_ptr<OptimizationProfileGuard> pin;
    if (script.ConsumeIntegralInRange(0, 3) == 1) {
      pin = std::make_unique<OptimizationProfileGuard>(script.ConsumeIntegralInRange(-1, 4));
    }
    Arguments arguments(blob, script);
    if (!arguments.fits()) continue;
    executorch::runtime::BackendExecutionContext context;
    clear_last_error();
    const Error error = backend.execute(context, handle, arguments.span());
    counts.calls += error == Error::Ok;
    require(error == Error::Ok || last_error_message()[0] != '\0', "a call failed without a word");
  }
}

/// A blob may ask for as much memory for its states as it likes; loading it then takes that.
bool fits(const DelegateBlob& blob) {
  return std::all_of(blob.states.begin(), blob.states.end(),
                     [](const State& state) { return state.bytes() <= kMostBytes; });
}

void load_and_execute(const Bytes& data, FuzzedDataProvider& script) {
  const auto blob = DelegateBlob::parse(data.data(), data.size());
  if (blob.ok() && !fits(*blob)) return;
  auto* backend = executorch::runtime::get_backend_class(kBackendId);
  require(backend != nullptr, "the backend is not registered");
  executorch::runtime::FreeableBuffer processed(data.data(), data.size(), nullptr);
  const auto specs = options(script);
  BackendInitContext context(nullptr, nullptr, "forward", nullptr, {specs.data(), specs.size()});
  clear_last_error();
  const auto handle = backend->init(context, &processed, {});
  if (!handle.ok()) {
    require(last_error_message()[0] != '\0', "a load failed without a word");
    return;
  }
  ++counts.loads;
  require(blob.ok(), "a blob was loaded that does not parse");
  execute(*backend, *handle, *blob, script);
  backend->destroy(*handle);
}

}  // namespace
}  // namespace executorch_tensorrt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace executorch_tensorrt::fuzz;
  static auto* const log = [] {
    executorch::runtime::runtime_init();
    return new executorch_tensorrt::test::CapturedLog;  // kept out of sight
  }();
  log->text().clear();
  const auto parts = take_apart(data, size);
  const size_t rest = parts ? parts->rest.size() : 0;
  FuzzedDataProvider script(data + size - rest, rest);
  load_and_execute(Bytes(data, data + size - rest), script);
  return 0;
}
