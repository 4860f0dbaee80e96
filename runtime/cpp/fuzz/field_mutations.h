// Changes to the fields of a blob's metadata, most of which leave it one that is accepted.
#pragma once

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../tests/raw_blob.h"
#include "delegate_blob.h"

namespace executorch_tensorrt::fuzz {

class FieldMutations {
 public:
  using Random = std::minstd_rand;

  FieldMutations(const DelegateBlob& blob, uint16_t minor, Random& random)
      : raw_(raw(blob)), random_(random) {
    raw_.minor = minor;
  }

  std::vector<uint8_t> mutated() {
    for (size_t i = 1 + below(3); i > 0; --i) change();
    if (!one_in(8)) repair();
    return raw_.bytes();
  }

 private:
  static std::vector<int64_t> sizes(const Dims& dims) {
    return {dims.size.begin(), dims.size.begin() + dims.rank};
  }

  static test::RawMetadata raw(const DelegateBlob& blob) {
    test::RawMetadata raw;
    raw.flavour = static_cast<uint8_t>(blob.flavour);
    raw.num_arguments = blob.num_arguments;
    raw.bindings.clear();
    for (const Binding& b : blob.bindings) {
      raw.bindings.push_back({b.name, static_cast<uint8_t>(b.dtype),
                              static_cast<uint8_t>(b.is_input ? 0 : 1),
                              static_cast<uint8_t>(b.is_shape_tensor ? 1 : 0), b.argument,
                              sizes(b.dims), b.max_bytes});
    }
    raw.profiles.clear();
    for (const Profile& p : blob.profiles) {
      raw.profiles.push_back({p.name, p.engine_profile, {}});
      for (const ShapeRange& r : p.inputs) {
        raw.profiles.back().inputs.push_back({sizes(r.min), sizes(r.opt), sizes(r.max)});
      }
    }
    for (const State& s : blob.states) {
      raw.states.push_back({s.name, static_cast<uint8_t>(s.dtype), sizes(s.shape), s.input,
                            s.output, static_cast<uint8_t>(s.mode), ""});
      if (s.initial != nullptr) {
        raw.states.back().initial.assign(s.initial->begin(), s.initial->end());
      }
    }
    raw.build_options = blob.build_options;
    raw.guard = blob.guard;
    for (const IndexCheck& c : blob.index_checks) {
      raw.index_checks.push_back({c.binding, c.least, c.greatest, c.extent_binding, c.extent_dim,
                                  static_cast<uint8_t>(c.contiguous), c.state});
    }
    return raw;
  }

  size_t below(size_t limit) { return random_() % std::max<size_t>(1, limit); }
  bool one_in(size_t n) { return below(n) == 0; }

  template <typename Integer>
  void change(Integer& value) {
    using Limits = std::numeric_limits<Integer>;
    const Integer others[] = {
        0, 1, 2, 3, 8, static_cast<Integer>(-1), Limits::max(), Limits::min()};
    const auto up = static_cast<Integer>(static_cast<uint64_t>(value) + 1);
    const auto down = static_cast<Integer>(static_cast<uint64_t>(value) - 1);
    value = one_in(2) ? others[below(8)] : one_in(2) ? up : down;
  }

  void change(std::string& text) {
    const std::string others[] = {"", "x", raw_.guard, std::string(257, 'n'), "\xC3\xA9"};
    text = one_in(2) ? others[below(5)] : text + "_";
  }

  void change(std::vector<int64_t>& dims) {
    if (one_in(4)) dims.push_back(static_cast<int64_t>(below(3)));
    if (one_in(4) && !dims.empty()) dims.pop_back();
    if (!dims.empty()) change(dims[below(dims.size())]);
  }

  /// Puts a copy of an item in, takes one out, or has two change places; else changes one.
  template <typename Item, typename Change>
  void change_list(std::vector<Item>& items, const Change& change_item) {
    if (items.empty()) return;
    const size_t at = below(items.size());
    switch (below(8)) {
      case 0:
        if (items.size() < 20) items.push_back(Item(items[at]));
        return;
      case 1:
        items.erase(items.begin() + static_cast<ptrdiff_t>(at));
        return;
      case 2:
        std::swap(items[at], items[below(items.size())]);
        return;
      default:
        change_item(items[at]);
    }
  }

  void change() {
    switch (below(5)) {
      case 0:
        return change_list(raw_.bindings, [this](auto& each) { change_binding(each); });
      case 1:
        return change_list(raw_.profiles, [this](auto& each) { change_profile(each); });
      case 2:
        return change_list(raw_.states, [this](auto& each) { change_state(each); });
      case 3:
        return change_list(raw_.index_checks, [this](auto& each) { change_check(each); });
      default:
        if (one_in(2)) return change(raw_.num_arguments);
        raw_.guard = raw_.guard.empty() ? "in_bounds" : "";
    }
  }

  void change_binding(test::RawBinding& binding) {
    const uint8_t dtypes[] = {0, 1, 3, 4, 5, 6, 7, 11, 15};
    switch (below(7)) {
      case 0:
        return change(binding.name);
      case 1:
        binding.dtype = dtypes[below(9)];
        return;
      case 2:
        binding.direction ^= 1;
        return;
      case 3:
        binding.flags ^= 1;
        return;
      case 4:
        return change(binding.argument);
      case 5:
        return change(binding.dims);
      default:
        return change(binding.max_bytes);
    }
  }

  void change_profile(test::RawProfile& profile) {
    if (one_in(4)) return change(profile.name);
    if (one_in(4)) return change(profile.engine_profile);
    change_list(profile.inputs, [this](test::RawRange& range) {
      change(one_in(3) ? range.min : one_in(2) ? range.opt : range.max);
    });
  }

  void change_state(test::RawState& state) {
    const uint8_t dtypes[] = {0, 1, 3, 4, 5, 6, 7, 11, 15};
    switch (below(7)) {
      case 0:
        return change(state.name);
      case 1:
        state.dtype = dtypes[below(9)];
        return;
      case 2:
        return change(state.shape);
      case 3:
        return change(state.input);
      case 4:
        return change(state.output);
      case 5:
        state.mode ^= 1;
        return;
      default:
        state.initial = state.initial.empty() ? "?" : "";
    }
  }

  void change_check(test::RawIndexCheck& check) {
    switch (below(7)) {
      case 0:
        return change(check.binding);
      case 1:
        return change(check.least);
      case 2:
        return change(check.greatest);
      case 3:
        return change(check.extent_binding);
      case 4:
        return change(check.extent_dim);
      case 5:
        check.contiguous ^= 1;
        return;
      default:
        return change(check.state);
    }
  }

  static uint64_t bytes_of(uint8_t dtype, const std::vector<int64_t>& dims) {
    uint64_t bytes = dtype == 4 || dtype == 7    ? 8
                     : dtype == 3 || dtype == 6  ? 4
                     : dtype == 5 || dtype == 15 ? 2
                                                 : 1;
    for (const int64_t size : dims) bytes *= static_cast<uint64_t>(std::max<int64_t>(0, size));
    return bytes;
  }

  /// What follows from other fields: ranges of static dims, most bytes, initial values' sizes.
  void repair() {
    size_t input = 0;
    for (test::RawBinding& binding : raw_.bindings) {
      std::vector<int64_t> largest = binding.dims;
      for (test::RawProfile& profile : raw_.profiles) {
        if (binding.direction != 0 || input >= profile.inputs.size()) continue;
        repair(profile.inputs[input], binding.dims, largest);
      }
      const bool dynamic = std::find(largest.begin(), largest.end(), -1) != largest.end();
      if (!dynamic) binding.max_bytes = bytes_of(binding.dtype, largest);
      if (binding.direction == 0) ++input;
    }
    for (test::RawState& state : raw_.states) {
      const uint64_t bytes = bytes_of(state.dtype, state.shape);
      if (!state.initial.empty() && bytes < 4096) state.initial.resize(bytes, '?');
    }
  }

  static void repair(test::RawRange& range, const std::vector<int64_t>& dims,
                     std::vector<int64_t>& largest) {
    range.min.resize(dims.size(), 1);
    range.opt.resize(dims.size(), 1);
    range.max.resize(dims.size(), 1);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] >= 0) range.min[d] = range.opt[d] = range.max[d] = dims[d];
      largest[d] = std::max(largest[d], range.max[d]);
    }
  }

  test::RawMetadata raw_;
  Random& random_;
};

}  // namespace executorch_tensorrt::fuzz
