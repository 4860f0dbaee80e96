// The backend as ExecuTorch sees it: registered when the library is loaded.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>
#include <executorch_tensorrt/backend.h>
#include <executorch_tensorrt/options.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "delegate.h"
#include "engine_cache.h"
#include "external_engine.h"
#include "fork.h"
#include "last_error.h"
#include "method_state.h"
#include "without_exceptions.h"

namespace executorch_tensorrt {

namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Span;

/// A compile spec that the partitioner adds where the method is one delegate and nothing else.
constexpr char kWholeMethod[] = "whole_method";

bool has_spec(ArrayRef<CompileSpec> specs, std::string_view key) {
  for (const CompileSpec& spec : specs) {
    if (key == spec.key) return true;
  }
  return false;
}

std::string engine_name(const DelegateBlob& blob) {
  return std::string(to_string(blob.flavour)) + " " + to_string(blob.version);
}

/// Memory of an engine that is not in its blob; needed until TensorRT has read it.
using EngineData = std::optional<FreeableBuffer>;

/// Finds such an engine, once.
Error find_engine(DelegateParts& parts, const NamedDataMap* data, EngineData& found) {
  if (!parts.blob.external_engine || found.has_value()) return Error::Ok;
  auto loaded = load_external_engine(parts.blob, data);
  if (!loaded.ok()) return loaded.error();
  found.emplace(std::move(*loaded));
  return Error::Ok;
}

Error use_cuda(DelegateParts& parts, const NamedDataMap* data, EngineData& found) {
  auto device = cuda_device(parts.options.device.index);
  if (!device.ok()) return device.error();
  if (const Error error = find_engine(parts, data, found); error != Error::Ok) return error;
  auto engine = shared_tensorrt_engine(parts.blob, **device, parts.options.engine);
  if (!engine.ok()) return engine.error();
  parts.device = std::move(*device);
  parts.engine = std::move(*engine);
  // The engine has what it needs; the blob, its weights among it, need not stay in host memory.
  parts.blob.engine = parts.blob.fallback = {};
  parts.processed.reset();
  return Error::Ok;
}

Error use_fallback(DelegateParts& parts) {
  auto engine = create_fallback_engine(parts.blob);
  if (!engine.ok()) return engine.error();
  parts.device = host_device();
  parts.engine = std::move(*engine);
  // One context serves every profile of it alike.
  parts.options.profile_contexts = ProfileContexts::kSingle;
  return Error::Ok;
}

/// One line a cause and process, not one a delegate.
void say_fallback(const std::string& cause) {
  static std::mutex mutex;
  static auto* said = new std::string;
  const std::lock_guard<std::mutex> lock(mutex);
  if (*said == cause) return;
  *said = cause;
  ET_LOG(Info, "TensorRT: running on the CPU fallback: %s", cause.c_str());
}

/// Whether another device could do what this error stopped.
bool is_about_the_machine(Error error) {
  return error == Error::NotFound || error == Error::DelegateInvalidCompatibility;
}

/// Whether the GPU asked for is not there although others are. Not what the fallback is for: the
/// caller named one by an ordinal that is wrong.
bool names_no_gpu(const DeviceChoice& choice) {
  const int count = gpu_count();
  return count > 0 && choice.index >= count;
}

Error choose_engine(DelegateParts& parts, const NamedDataMap* data) {
  if (parts.options.device.kind == DeviceChoice::Kind::kCpu) return use_fallback(parts);
  const bool may_fall_back =
      parts.options.device.kind == DeviceChoice::Kind::kAutomatic && parts.blob.fallback.size > 0;
  EngineData found;
  if (!may_fall_back) {
    // What the caller gave is looked at first, whatever the machine.
    const Error error = find_engine(parts, data, found);
    return error == Error::Ok ? use_cuda(parts, data, found) : error;
  }
  const Error error = [&] {
    const UnloggedErrors quiet;  // it is said below, as what it is here
    return use_cuda(parts, data, found);
  }();
  if (error == Error::Ok) return Error::Ok;
  const std::string cause = last_error_message();
  if (!is_about_the_machine(error) || names_no_gpu(parts.options.device)) {
    return report(error, cause);
  }
  say_fallback(cause);
  clear_last_error();
  return use_fallback(parts);
}

Result<DelegateHandle*> create_delegate(BackendInitContext& context, FreeableBuffer& processed,
                                        ArrayRef<CompileSpec> specs) {
  DelegateParts parts;
  auto options = RuntimeOptions::parse(context.runtime_specs(), specs);
  if (!options.ok()) return options.error();
  parts.options = std::move(*options);
  auto blob = DelegateBlob::parse(processed.data(), processed.size());
  if (!blob.ok()) return blob.error();
  parts.blob = std::move(*blob);
  parts.processed.emplace(std::move(processed));  // same memory: the sections still point into it

  if (const Error error = choose_engine(parts, context.get_named_data_map()); error != Error::Ok) {
    return error;
  }
  const bool on_cpu = parts.device->reads_host_memory();
  const char* method = context.get_method_name();
  parts.active =
      ActiveProfile::of_method(context.get_runtime_allocator(), method, parts.blob.profiles);
  std::weak_ptr<StateSet> state;
  if (!parts.blob.states.empty()) {
    auto joined = MethodState::join({context.get_runtime_allocator(),
                                     method == nullptr ? "" : method, parts.options.state_group},
                                    parts.device, parts.blob.states);
    if (!joined.ok()) return joined.error();
    parts.state = std::move(*joined);
    state = parts.state->own;
  }
  parts.record = std::make_shared<DelegateRecord>(parts.blob, method == nullptr ? "" : method,
                                                  parts.device->name(),
                                                  on_cpu ? "CPU fallback" : engine_name(parts.blob),
                                                  has_spec(specs, kWholeMethod), std::move(state));

  auto delegate = TensorRTDelegate::create(std::move(parts));
  if (!delegate.ok()) return delegate.error();
  announce((*delegate)->record());
  return static_cast<DelegateHandle*>(delegate->release());
}

class TensorRTBackend final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }

  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               ArrayRef<CompileSpec> specs) const override {
    if (const Error error = refuse_if_forked(); error != Error::Ok) return error;
    watch_for_forks();
    return without_exceptions([&] { return create_delegate(context, *processed, specs); });
  }

  Error execute(BackendExecutionContext& context, DelegateHandle* handle,
                Span<EValue*> args) const override {
    if (const Error error = refuse_if_forked(); error != Error::Ok) return error;
    return without_exceptions([&] {
      return static_cast<TensorRTDelegate*>(handle)->execute(args, context.event_tracer());
    });
  }

  void destroy(DelegateHandle* handle) const override {
    if (was_forked()) return;  // what it would wait for and free is the parent's
    delete static_cast<TensorRTDelegate*>(handle);
  }
};

/// Never destroyed: programs may be unloaded after static destructors ran.
const Error registered = [] {
  static auto* backend = new TensorRTBackend;
  const Error error = executorch::runtime::register_backend({kBackendId, backend});
  if (error != Error::Ok) {
    ET_LOG(Error, "%s was not registered with ExecuTorch: %s", kBackendId,
           executorch::runtime::to_string(error));
  }
  return error;
}();

}  // namespace

Error registration_status() noexcept { return registered; }

}  // namespace executorch_tensorrt
