// What a set's states hold, what they must hold, and whether positions were in bounds.
#pragma once

#include <executorch_tensorrt/state.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "call_arguments.h"
#include "delegate_blob.h"
#include "sealed_blob.h"
#include "touching_engine.h"

namespace executorch_tensorrt::fuzz {

using StateValues = std::vector<std::optional<Bytes>>;  // one a state; none: it is lost

inline StateValues read_states(StateSet& set, const DelegateBlob& blob) {
  StateValues values;
  for (const State& state : blob.states) {
    Bytes value(state.bytes());
    const Error error = set.read(state.name, value.data(), value.size());
    require(error == Error::Ok || error == Error::InvalidState, "a state could not be read");
    values.push_back(error == Error::Ok ? std::optional<Bytes>(std::move(value)) : std::nullopt);
  }
  return values;
}

inline StateValues initial_values(const DelegateBlob& blob) {
  StateValues values;
  for (const State& state : blob.states) {
    values.push_back(state.initial == nullptr ? Bytes(state.bytes()) : *state.initial);
  }
  return values;
}

inline bool has_lost(const StateValues& values) {
  return std::find(values.begin(), values.end(), std::nullopt) != values.end();
}

inline bool all_hold(const StateValues& values, uint8_t byte) {
  return std::all_of(values.begin(), values.end(), [byte](const std::optional<Bytes>& value) {
    return *value == Bytes(value->size(), byte);
  });
}

/// Whether the arguments of a call that went well keep to the blob's index checks, counted in a
/// type that their sums fit in.
inline bool indices_hold(const DelegateBlob& blob, const Arguments& arguments) {
  const auto tensor = [&](size_t binding) -> const executorch::aten::Tensor& {
    return arguments[blob.bindings[binding].argument].toTensor();
  };
  for (const IndexCheck& check : blob.index_checks) {
    const auto& positions = tensor(check.binding);
    const bool is_int = positions.scalar_type() == ScalarType::Int;
    const __int128 rows = check.extent_binding < 0
                              ? 1
                              : tensor(static_cast<size_t>(check.extent_binding))
                                    .size(static_cast<ssize_t>(check.extent_dim));
    __int128 before = 0;
    for (ssize_t i = 0; i < positions.numel(); ++i) {
      const __int128 value =
          is_int ? positions.const_data_ptr<int32_t>()[i] : positions.const_data_ptr<int64_t>()[i];
      if (value < check.least || value + rows - 1 > check.greatest) return false;
      if (check.contiguous && i > 0 && value != before + 1) return false;
      before = value;
    }
  }
  return true;
}

}  // namespace executorch_tensorrt::fuzz
