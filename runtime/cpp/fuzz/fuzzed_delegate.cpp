#include "fuzzed_delegate.h"

#include <executorch/runtime/backend/options.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch_tensorrt/options.h>

#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "delegate.h"
#include "external_engine.h"
#include "method_state.h"

namespace executorch_tensorrt::fuzz {
namespace {

using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::BackendOption;
using executorch::runtime::DelegateHandle;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Span;

constexpr char kGroup[] = "group";

/// The named data of a program whose engine may be outside its blob.
class NamedData final : public executorch::runtime::NamedDataMap {
 public:
  NamedData(const DelegateBlob& blob, int way)
      : key_(external_engine_key(blob)),
        engine_(blob.external_engine ? std::min<size_t>(blob.engine.size, 1 << 16) : 1),
        way_(way) {}

  Result<const executorch::runtime::TensorLayout> get_tensor_layout(
      std::string_view) const override {
    return Error::NotFound;
  }
  Result<FreeableBuffer> get_data(std::string_view key) const override {
    if (key != key_) return Error::NotFound;
    if (way_ == 3) return Error::AccessFailed;
    return FreeableBuffer(engine_.data(), engine_.size() - (way_ == 2 ? 1 : 0), nullptr);
  }
  Error load_data_into(std::string_view, void*, size_t) const override { return Error::NotFound; }
  Result<uint32_t> get_num_keys() const override { return uint32_t{1}; }
  Result<const char*> get_key(uint32_t) const override { return key_.c_str(); }

 private:
  const std::string key_;
  const Bytes engine_;
  const int way_;
};

BackendOption text(const char* key, const char* value) {
  BackendOption option{};
  std::snprintf(option.key, sizeof(option.key), "%s", key);
  std::array<char, executorch::runtime::kMaxOptionValueLength> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%s", value);
  option.value = buffer;
  return option;
}

std::vector<BackendOption> options(const Way& way) {
  std::vector<BackendOption> options = {
      text(option::kDevice, way.device == 1   ? "auto"
                            : way.device == 2 ? "cuda:0"
                                              : "cpu"),
      text(option::kProfileSelection, way.first_fit ? "first_fit" : "sticky"),
      text(option::kProfileContexts, way.single ? "single" : "per_profile")};
  if (way.grouped) options.push_back(text(option::kStateGroup, kGroup));
  return options;
}

/// By the backend, on its CPU fallback.
class OfTheBackend final : public FuzzedDelegate {
 public:
  static std::unique_ptr<FuzzedDelegate> load(const Bytes& data, const DelegateBlob& blob,
                                              const Way& way) {
    BackendInterface* backend = executorch::runtime::get_backend_class(kBackendId);
    require(backend != nullptr, "the backend is not registered");
    FreeableBuffer processed(data.data(), data.size(), nullptr);
    const auto specs = options(way);
    const NamedData named(blob, way.data);
    BackendInitContext context(nullptr, nullptr, "forward", way.data == 0 ? nullptr : &named,
                               {specs.data(), specs.size()});
    const DelegateCollector collector;
    const auto handle = backend->init(context, &processed, {});
    if (!handle.ok()) return nullptr;
    require(collector.delegates().size() == 1, "a delegate was not announced");
    return std::unique_ptr<FuzzedDelegate>(
        new OfTheBackend(*backend, *handle, collector.delegates().front()->state()));
  }
  ~OfTheBackend() override { backend_.destroy(handle_); }

  bool touches() const override { return false; }
  Error execute(Span<EValue*> arguments) override {
    executorch::runtime::BackendExecutionContext context;
    return backend_.execute(context, handle_, arguments);
  }

 private:
  OfTheBackend(BackendInterface& backend, DelegateHandle* handle, std::shared_ptr<StateSet> own)
      : backend_(backend), handle_(handle) {
    own_ = std::move(own);
  }

  BackendInterface& backend_;
  DelegateHandle* const handle_;
};

class OverTouchingEngine final : public FuzzedDelegate {
 public:
  static std::unique_ptr<FuzzedDelegate> load(const DelegateBlob& blob, const Way& way) {
    std::unique_ptr<OverTouchingEngine> made(new OverTouchingEngine);
    DelegateParts parts;
    parts.blob = blob;
    parts.options.profile_contexts =
        way.single ? ProfileContexts::kSingle : ProfileContexts::kPerProfile;
    parts.options.profile_selection =
        way.first_fit ? SelectionPolicy::kFirstFit : SelectionPolicy::kSticky;
    parts.device = host_device();
    parts.engine = std::make_shared<TouchingEngine>(blob, made->behaviour_);
    parts.active = std::make_shared<ActiveProfile>();
    if (!blob.states.empty()) {
      auto joined = MethodState::join({nullptr, "forward", way.grouped ? kGroup : ""}, parts.device,
                                      blob.states);
      if (!joined.ok()) return nullptr;
      parts.state = std::move(*joined);
      made->own_ = parts.state->own;
    }
    parts.record = std::make_shared<DelegateRecord>(parts.blob, "forward", "cpu", "touching",
                                                    /*whole_method=*/true, made->own_);
    auto delegate = TensorRTDelegate::create(std::move(parts));
    if (!delegate.ok()) return nullptr;
    made->delegate_ = std::move(*delegate);
    return made;
  }

  bool touches() const override { return true; }
  Error execute(Span<EValue*> arguments) override { return delegate_->execute(arguments); }

 private:
  std::unique_ptr<TensorRTDelegate> delegate_;
};

}  // namespace

std::unique_ptr<FuzzedDelegate> FuzzedDelegate::load(const Bytes& data, const DelegateBlob& blob,
                                                     const Way& way) {
  return way.touches ? OverTouchingEngine::load(blob, way) : OfTheBackend::load(data, blob, way);
}

}  // namespace executorch_tensorrt::fuzz
