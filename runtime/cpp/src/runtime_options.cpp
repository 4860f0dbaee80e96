#include "runtime_options.h"

#include <executorch_tensorrt/options.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <variant>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::BackendOption;
using executorch::runtime::CompileSpec;
using executorch::runtime::Result;
using executorch::runtime::Span;

Error refuse(std::string_view key, std::string_view value, std::string_view allowed) {
  return report(Error::InvalidArgument, "option " + std::string(key) + ": '" + std::string(value) +
                                            "' is not allowed; give " + std::string(allowed));
}

/// Digits alone, as a count; anything else is not a number here.
std::optional<int> parse_count(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

Error set_default_profile(std::string_view value, RuntimeOptions& options) {
  if (value.empty()) {
    options.default_profile = Automatic{};
  } else {
    options.default_profile = std::string(value);
  }
  return Error::Ok;
}

Error set_default_profile_index(std::string_view value, RuntimeOptions& options) {
  const auto index = parse_count(value);
  if (!index) return refuse(option::kDefaultProfileIndex, value, "an index of 0 or more");
  options.default_profile = int64_t{*index};
  return Error::Ok;
}

Error set_profile_selection(std::string_view value, RuntimeOptions& options) {
  if (value == "sticky") {
    options.profile_selection = SelectionPolicy::kSticky;
  } else if (value == "first_fit") {
    options.profile_selection = SelectionPolicy::kFirstFit;
  } else {
    return refuse(option::kProfileSelection, value, "'sticky' or 'first_fit'");
  }
  return Error::Ok;
}

Error set_profile_contexts(std::string_view value, RuntimeOptions& options) {
  if (value == "per_profile") {
    options.profile_contexts = ProfileContexts::kPerProfile;
  } else if (value == "single") {
    options.profile_contexts = ProfileContexts::kSingle;
  } else {
    return refuse(option::kProfileContexts, value, "'per_profile' or 'single'");
  }
  return Error::Ok;
}

Error set_device(std::string_view value, RuntimeOptions& options) {
  constexpr std::string_view kCudaPrefix = "cuda:";
  if (value == "auto") {
    options.device.kind = DeviceChoice::Kind::kAutomatic;
  } else if (value == "cpu") {
    options.device.kind = DeviceChoice::Kind::kCpu;
  } else if (value == "cuda") {
    options.device.kind = DeviceChoice::Kind::kCuda;
  } else if (value.substr(0, kCudaPrefix.size()) == kCudaPrefix &&
             parse_count(value.substr(kCudaPrefix.size()))) {
    options.device = {DeviceChoice::Kind::kCuda, *parse_count(value.substr(kCudaPrefix.size()))};
  } else {
    return refuse(option::kDevice, value, "'auto', 'cpu', 'cuda' or 'cuda:N'");
  }
  return Error::Ok;
}

Error set_device_id(std::string_view value, RuntimeOptions& options) {
  const auto index = parse_count(value);
  if (!index) return refuse(option::kDeviceId, value, "the ordinal of a GPU, 0 or more");
  options.device.index = *index;
  return Error::Ok;
}

Error set_flag(const char* key, std::string_view value, bool& flag) {
  if (value != "true" && value != "false") return refuse(key, value, "true or false");
  flag = value == "true";
  return Error::Ok;
}

Error set_engine_host_code_allowed(std::string_view value, RuntimeOptions& options) {
  return set_flag(option::kEngineHostCodeAllowed, value, options.engine.host_code_allowed);
}

Error set_weight_streaming_budget(std::string_view value, RuntimeOptions& options) {
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
  if (error != std::errc() || end != value.data() + value.size() || bytes < 0) {
    return refuse(option::kWeightStreamingBudget, value, "a count of bytes");
  }
  options.engine.weight_streaming_budget = bytes;
  return Error::Ok;
}

Error set_cuda_graphs(std::string_view value, RuntimeOptions& options) {
  return set_flag(option::kCudaGraphs, value, options.cuda_graphs);
}

Error set_max_cuda_graphs(std::string_view value, RuntimeOptions& options) {
  const auto count = parse_count(value);
  if (!count || *count == 0) return refuse(option::kMaxCudaGraphs, value, "a count of 1 or more");
  options.max_cuda_graphs = *count;
  return Error::Ok;
}

Error set_state_group(std::string_view value, RuntimeOptions& options) {
  options.state_group = value;
  return Error::Ok;
}

struct Setter {
  const char* key;
  size_t type;  // the alternative of BackendOption::value
  Error (*set)(std::string_view value, RuntimeOptions& options);
};

constexpr size_t kBool = 0, kInt = 1, kText = 2;

// device_id comes before device, whose index counts more.
constexpr std::array kSetters{
    Setter{option::kDefaultProfile, kText, set_default_profile},
    Setter{option::kDefaultProfileIndex, kInt, set_default_profile_index},
    Setter{option::kProfileSelection, kText, set_profile_selection},
    Setter{option::kProfileContexts, kText, set_profile_contexts},
    Setter{option::kCudaGraphs, kBool, set_cuda_graphs},
    Setter{option::kMaxCudaGraphs, kInt, set_max_cuda_graphs},
    Setter{option::kDeviceId, kInt, set_device_id},
    Setter{option::kDevice, kText, set_device},
    Setter{option::kWeightStreamingBudget, kText, set_weight_streaming_budget},
    Setter{option::kStateGroup, kText, set_state_group},
    Setter{option::kEngineHostCodeAllowed, kBool, set_engine_host_code_allowed},
};

std::string text_of(const BackendOption& option) {
  if (const auto* flag = std::get_if<kBool>(&option.value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<kInt>(&option.value)) return std::to_string(*number);
  return std::get<kText>(option.value).data();
}

Error check_known(Span<const BackendOption> options) {
  for (const BackendOption& given : options) {
    const Setter* known = nullptr;
    std::string keys;
    for (const Setter& setter : kSetters) {
      if (std::string_view(given.key) == setter.key) known = &setter;
      keys += std::string(keys.empty() ? "" : ", ") + setter.key;
    }
    if (known == nullptr) {
      return report(Error::InvalidArgument, "option " + std::string(given.key) +
                                                " is not known to " + kBackendId + "; known are " +
                                                keys);
    }
    if (given.value.index() != known->type) {
      constexpr const char* kTypes[] = {"a bool", "an int", "a const char*"};
      return refuse(given.key, text_of(given), kTypes[known->type]);
    }
  }
  return Error::Ok;
}

}  // namespace

Result<RuntimeOptions> RuntimeOptions::parse(Span<const BackendOption> load_time,
                                             ArrayRef<CompileSpec> compile_specs) {
  if (const Error error = check_known(load_time); error != Error::Ok) return error;
  RuntimeOptions options;
  for (const Setter& setter : kSetters) {
    std::optional<std::string> value;
    for (const CompileSpec& spec : compile_specs) {
      if (std::string_view(spec.key) == setter.key) {
        value.emplace(static_cast<const char*>(spec.value.buffer), spec.value.nbytes);
      }
    }
    for (const BackendOption& given : load_time) {
      if (std::string_view(given.key) == setter.key) value = text_of(given);
    }
    if (!value) continue;
    if (const Error error = setter.set(*value, options); error != Error::Ok) return error;
  }
  return options;
}

}  // namespace executorch_tensorrt
