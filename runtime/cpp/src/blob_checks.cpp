#include "blob_checks.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "byte_reader.h"

namespace executorch_tensorrt {

namespace {

constexpr size_t kMaxNameBytes = 256;

/// Refuses names that are empty, too long, or there twice.
class NameCheck {
 public:
  explicit NameCheck(std::string kind) : kind_(std::move(kind)) {}

  void operator()(const std::string& name) {
    (*this)(name, kind_ + " " + std::to_string(seen_.size()) + " name");
  }
  void operator()(const std::string& name, const std::string& field) {
    if (name.empty() || name.size() > kMaxNameBytes) {
      refuse(field, "has " + std::to_string(name.size()) + " bytes, it must have 1 to " +
                        std::to_string(kMaxNameBytes));
    }
    if (!seen_.insert(name).second) refuse(field, "'" + name + "' is there twice");
  }

 private:
  std::string kind_;
  std::unordered_set<std::string_view> seen_;
};

std::string label(const DelegateBlob& blob, size_t binding) {
  return "binding " + std::to_string(binding) + " '" + blob.bindings[binding].name + "'";
}

void check_binding(const DelegateBlob& blob, size_t index) {
  const Binding& binding = blob.bindings[index];
  const std::string field = label(blob, index);
  for (uint32_t dim = 0; dim < binding.dims.rank; ++dim) {
    if (binding.dims.size[dim] < -1) {
      refuse(field + " dim " + std::to_string(dim), "is " + std::to_string(binding.dims.size[dim]) +
                                                        ", it must be -1 (dynamic) or a size");
    }
  }
  if (binding.argument >= blob.num_arguments) {
    refuse(field + " argument", std::to_string(binding.argument) + " is not below the count, " +
                                    std::to_string(blob.num_arguments));
  }
  if (index == 0) return;
  const Binding& before = blob.bindings[index - 1];
  if (binding.is_input && !before.is_input) {
    refuse(field, "is an input after an output; inputs come first");
  }
  if (binding.argument <= before.argument) {
    refuse(field + " argument", std::to_string(binding.argument) + " does not ascend from " +
                                    std::to_string(before.argument));
  }
}

void check_range(const std::string& field, const Binding& binding, const ShapeRange& range) {
  for (const Dims* bound : {&range.min, &range.opt, &range.max}) {
    if (bound->rank != binding.dims.rank) {
      refuse(field, "has rank " + std::to_string(bound->rank) + ", its binding has " +
                        std::to_string(binding.dims.rank));
    }
  }
  for (uint32_t dim = 0; dim < binding.dims.rank; ++dim) {
    const int64_t min = range.min.size[dim];
    const int64_t opt = range.opt.size[dim];
    const int64_t max = range.max.size[dim];
    const std::string dim_field = field + " dim " + std::to_string(dim);
    if (min < 0 || min > opt || opt > max) {
      refuse(dim_field, "is min " + std::to_string(min) + ", opt " + std::to_string(opt) +
                            ", max " + std::to_string(max) + "; 0 <= min <= opt <= max must hold");
    }
    const int64_t size = binding.dims.size[dim];
    if (size >= 0 && (min != size || max != size)) {
      refuse(dim_field, "is " + std::to_string(min) + ".." + std::to_string(max) +
                            ", but it is static with size " + std::to_string(size));
    }
  }
}

void check_profile(const DelegateBlob& blob, const Profile& profile) {
  const std::string field = "profile '" + profile.name + "'";
  if (profile.inputs.size() != blob.num_inputs) {
    refuse(field, "has " + std::to_string(profile.inputs.size()) + " input ranges for " +
                      std::to_string(blob.num_inputs) + " inputs");
  }
  for (size_t i = 0; i < blob.num_inputs; ++i) {
    check_range(field + " input '" + blob.bindings[i].name + "'", blob.bindings[i],
                profile.inputs[i]);
  }
}

bool same_ranges(const Profile& a, const Profile& b) {
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                    [](const ShapeRange& x, const ShapeRange& y) {
                      return x.min == y.min && x.opt == y.opt && x.max == y.max;
                    });
}

/// Indices contiguous from 0, and names that share one agree on its ranges.
void check_engine_profiles(const std::vector<Profile>& profiles) {
  std::vector<const Profile*> first_with(profiles.size());
  for (const Profile& profile : profiles) {
    const std::string field = "profile '" + profile.name + "'";
    if (profile.engine_profile >= profiles.size()) {
      refuse(field + " engine profile", std::to_string(profile.engine_profile) +
                                            " leaves a gap; the blob has " +
                                            std::to_string(profiles.size()) + " profiles");
    }
    const Profile*& first = first_with[profile.engine_profile];
    if (first == nullptr) first = &profile;
    if (!same_ranges(*first, profile)) {
      refuse(field, "shares engine profile " + std::to_string(profile.engine_profile) + " with '" +
                        first->name + "', but their ranges differ");
    }
  }
  const auto gap = std::find(first_with.begin(), first_with.end(), nullptr);
  for (auto it = gap; it != first_with.end(); ++it) {
    if (*it != nullptr) {
      refuse("profile '" + (*it)->name + "' engine profile",
             std::to_string((*it)->engine_profile) + " leaves a gap; no profile has " +
                 std::to_string(gap - first_with.begin()));
    }
  }
}

/// The largest max of every dim over all profiles.
Dims upper_bound(const DelegateBlob& blob, size_t input) {
  Dims largest = blob.profiles.front().inputs[input].max;
  for (const Profile& profile : blob.profiles) {
    for (uint32_t i = 0; i < largest.rank; ++i) {
      largest.size[i] = std::max(largest.size[i], profile.inputs[input].max.size[i]);
    }
  }
  return largest;
}

void check_max_bytes(const DelegateBlob& blob, size_t index) {
  const Binding& binding = blob.bindings[index];
  const Dims largest = binding.is_input ? upper_bound(blob, index) : binding.dims;
  const std::optional<uint64_t> expected = checked_bytes(largest, binding.dtype);
  const std::string field = label(blob, index) + " max bytes";
  if (!expected.has_value()) refuse(field, "do not fit in 64 bits");
  const auto end = largest.size.begin() + largest.rank;
  const bool is_bounded = std::find(largest.size.begin(), end, -1) == end;
  if (is_bounded) {
    if (binding.max_bytes != *expected) {
      refuse(field, "are " + std::to_string(binding.max_bytes) + ", its largest shape takes " +
                        std::to_string(*expected));
    }
  } else if (binding.max_bytes != 0 && (*expected == 0 || binding.max_bytes % *expected != 0)) {
    // Profiles bound inputs alone, so of a dynamic output only the static part is known here.
    refuse(field, "are " + std::to_string(binding.max_bytes) +
                      ", not a multiple of its static dims' " + std::to_string(*expected));
  }
}

void check_state(const State& state, size_t index) {
  const std::string field = "state " + std::to_string(index) + " '" + state.name + "'";
  for (uint32_t dim = 0; dim < state.shape.rank; ++dim) {
    if (state.shape.size[dim] < 0) {
      refuse(field + " dim " + std::to_string(dim),
             "is " + std::to_string(state.shape.size[dim]) + "; a state's shape is static");
    }
  }
  const std::optional<uint64_t> bytes = checked_bytes(state.shape, state.dtype);
  if (!bytes.has_value()) refuse(field + " bytes", "do not fit in 64 bits");
  if (state.initial != nullptr && state.initial->size() != *bytes) {
    refuse(field + " initial value", "has " + std::to_string(state.initial->size()) +
                                         " bytes, its shape takes " + std::to_string(*bytes));
  }
}

/// Names of the engine's tensors, over bindings, states and guard.
void check_states(const DelegateBlob& blob) {
  NameCheck check_name("state");
  NameCheck check_tensor("tensor");
  for (const Binding& binding : blob.bindings) check_tensor(binding.name);
  for (size_t i = 0; i < blob.states.size(); ++i) {
    const State& state = blob.states[i];
    check_name(state.name);
    const std::string field = "state " + std::to_string(i) + " '" + state.name + "'";
    check_tensor(state.input, field + " input");
    check_tensor(state.output, field + " output");
    check_state(state, i);
  }
  if (blob.guard.empty()) return;
  check_tensor(blob.guard, "guard");
  if (blob.states.empty()) refuse("guard", "'" + blob.guard + "' is there without states");
}

bool is_state(const DelegateBlob& blob, const std::string& name) {
  return std::any_of(blob.states.begin(), blob.states.end(),
                     [&name](const State& state) { return state.name == name; });
}

void check_index_check(const DelegateBlob& blob, size_t index) {
  using executorch::aten::ScalarType;
  const IndexCheck& check = blob.index_checks[index];
  const std::string field = "index check " + std::to_string(index);
  if (check.binding >= blob.num_inputs) {
    refuse(field + " binding", std::to_string(check.binding) + " is none of the " +
                                   std::to_string(blob.num_inputs) + " inputs");
  }
  const Binding& input = blob.bindings[check.binding];
  if (input.dtype != ScalarType::Int && input.dtype != ScalarType::Long) {
    refuse(field + " binding", "'" + input.name + "' is neither int32 nor int64");
  }
  if (check.least > check.greatest) {
    refuse(field, "has least " + std::to_string(check.least) + " over greatest " +
                      std::to_string(check.greatest));
  }
  if (!is_state(blob, check.state)) refuse(field + " state", "'" + check.state + "' is none");
  if (check.extent_binding == -1) {
    if (check.extent_dim != 0) {
      refuse(field + " extent dim",
             "is " + std::to_string(check.extent_dim) + " without an extent binding");
    }
    return;
  }
  if (check.extent_binding < 0 || static_cast<uint32_t>(check.extent_binding) >= blob.num_inputs) {
    refuse(field + " extent binding", std::to_string(check.extent_binding) + " is none of the " +
                                          std::to_string(blob.num_inputs) + " inputs");
  }
  const Binding& extent = blob.bindings[static_cast<size_t>(check.extent_binding)];
  if (check.extent_dim >= extent.dims.rank) {
    refuse(field + " extent dim", std::to_string(check.extent_dim) + " is not below the rank of '" +
                                      extent.name + "', " + std::to_string(extent.dims.rank));
  }
}

}  // namespace

std::optional<uint64_t> checked_bytes(const Dims& dims, executorch::aten::ScalarType dtype) {
  uint64_t bytes = element_size(dtype);
  bool overflows = false;
  for (uint32_t i = 0; i < dims.rank; ++i) {
    if (dims.size[i] == 0) return 0;
    const uint64_t size = dims.size[i] < 0 ? 1 : static_cast<uint64_t>(dims.size[i]);
    overflows |= __builtin_mul_overflow(bytes, size, &bytes);
  }
  if (overflows) return std::nullopt;
  return bytes;
}

size_t element_size(executorch::aten::ScalarType dtype) {
  using executorch::aten::ScalarType;
  switch (dtype) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Bool:
      return 1;
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return 2;
    case ScalarType::Int:
    case ScalarType::Float:
      return 4;
    case ScalarType::Long:
    case ScalarType::Double:
      return 8;
    default:
      return 0;
  }
}

void check_contents(const DelegateBlob& blob) {
  NameCheck check_binding_name("binding");
  for (size_t i = 0; i < blob.bindings.size(); ++i) {
    check_binding_name(blob.bindings[i].name);
    check_binding(blob, i);
  }
  if (blob.profiles.empty()) refuse("profiles", "are none; every blob has at least one");
  NameCheck check_profile_name("profile");
  for (const Profile& profile : blob.profiles) {
    check_profile_name(profile.name);
    check_profile(blob, profile);
  }
  check_engine_profiles(blob.profiles);
  for (size_t i = 0; i < blob.bindings.size(); ++i) check_max_bytes(blob, i);
  check_states(blob);
  for (size_t i = 0; i < blob.index_checks.size(); ++i) check_index_check(blob, i);
  NameCheck check_option_name("build option");
  for (const auto& [key, value] : blob.build_options) check_option_name(key);
}

}  // namespace executorch_tensorrt
