#include "profile_table.h"

#include <algorithm>
#include <new>
#include <utility>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

using executorch::runtime::Result;
using executorch::runtime::Span;

/// Reports InvalidArgument with the text that `make_text` builds, or with less if memory ran out.
template <typename MakeText>
Error refuse(MakeText make_text) noexcept {
  try {
    return report(Error::InvalidArgument, make_text());
  } catch (const std::bad_alloc&) {
    return report(Error::InvalidArgument, "no such optimization profile, or inputs out of range");
  }
}

bool in_range(const Dims& shape, const ShapeRange& range) {
  if (shape.rank != range.min.rank) return false;
  for (uint32_t i = 0; i < shape.rank; ++i) {
    if (shape.size[i] < range.min.size[i] || shape.size[i] > range.max.size[i]) return false;
  }
  return true;
}

std::string quoted(const std::string& name) { return "'" + name + "'"; }

/// "1..8x128", "scalar".
std::string to_string(const ShapeRange& range) {
  if (range.min.rank == 0) return "scalar";
  std::string text;
  for (uint32_t i = 0; i < range.min.rank; ++i) {
    if (i > 0) text += 'x';
    text += std::to_string(range.min.size[i]);
    if (range.min.size[i] != range.max.size[i]) text += ".." + std::to_string(range.max.size[i]);
  }
  return text;
}

/// "ids 1..8x1, mask 1..8x1".
std::string ranges_of(const std::vector<std::string>& input_names, const Profile& profile) {
  if (profile.inputs.empty()) return "no inputs";
  std::string text;
  for (size_t i = 0; i < profile.inputs.size(); ++i) {
    if (i > 0) text += ", ";
    text += input_names[i] + " " + to_string(profile.inputs[i]);
  }
  return text;
}

/// "ids 9x600, mask 9x600".
std::string shapes_of(const std::vector<std::string>& input_names, Span<const Dims> shapes) {
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (i > 0) text += ", ";
    text +=
        (i < input_names.size() ? input_names[i] : "unknown input") + " " + to_string(shapes[i]);
  }
  return text;
}

Result<size_t> find_name(const ProfileTable& table, const std::string& name) {
  if (const std::optional<size_t> found = table.find(name)) return *found;
  return refuse([&] {
    std::string text = "no optimization profile is called " + quoted(name) + "; there are ";
    for (size_t i = 0; i < table.profiles().size(); ++i) {
      if (i > 0) text += ", ";
      text += quoted(table.profiles()[i].name);
    }
    return text;
  });
}

Result<size_t> check_index(const ProfileTable& table, int64_t index) {
  const size_t count = table.profiles().size();
  if (index >= 0 && static_cast<uint64_t>(index) < count) return static_cast<size_t>(index);
  return refuse([&] {
    return "optimization profile index " + std::to_string(index) + " is not one of the " +
           std::to_string(count) + " there are: " + table.describe();
  });
}

/// The profile that a request other than Automatic names.
Result<size_t> find_pinned(const ProfileTable& table, const ProfileRequest& request) {
  if (const auto* name = std::get_if<std::string>(&request)) return find_name(table, *name);
  return check_index(table, std::get<int64_t>(request));
}

}  // namespace

ProfileTable::ProfileTable(std::vector<std::string> input_names, std::vector<Profile> profiles)
    : input_names_(std::move(input_names)), profiles_(std::move(profiles)) {}

std::optional<size_t> ProfileTable::find(std::string_view name) const {
  const auto found = std::find_if(profiles_.begin(), profiles_.end(),
                                  [name](const Profile& profile) { return profile.name == name; });
  if (found == profiles_.end()) return std::nullopt;
  return static_cast<size_t>(found - profiles_.begin());
}

bool ProfileTable::fits(size_t profile, Span<const Dims> shapes) const {
  if (profile >= profiles_.size()) return false;
  const std::vector<ShapeRange>& inputs = profiles_[profile].inputs;
  return std::equal(shapes.begin(), shapes.end(), inputs.begin(), inputs.end(), in_range);
}

Result<size_t> ProfileTable::select(const ProfileRequest& request, SelectionPolicy policy,
                                    std::optional<size_t> active, Span<const Dims> shapes) const {
  if (!std::holds_alternative<Automatic>(request)) {
    const Result<size_t> pinned = find_pinned(*this, request);
    if (!pinned.ok()) return pinned.error();
    if (fits(*pinned, shapes)) return *pinned;
    return refuse([&] {
      const Profile& profile = profiles_[*pinned];
      return "optimization profile " + quoted(profile.name) + " does not fit " +
             shapes_of(input_names_, shapes) + "; it takes " + ranges_of(input_names_, profile);
    });
  }
  if (policy == SelectionPolicy::kSticky && active.has_value() && fits(*active, shapes)) {
    return *active;
  }
  for (size_t profile = 0; profile < profiles_.size(); ++profile) {
    if (fits(profile, shapes)) return profile;
  }
  return refuse([&] {
    return "no optimization profile fits " + shapes_of(input_names_, shapes) + "; there are " +
           describe();
  });
}

Error ProfileTable::check(const ProfileRequest& request) const {
  if (std::holds_alternative<Automatic>(request)) return Error::Ok;
  return find_pinned(*this, request).error();
}

std::string ProfileTable::describe() const {
  std::string text;
  for (size_t i = 0; i < profiles_.size(); ++i) {
    if (i > 0) text += "; ";
    text += std::to_string(i) + " " + quoted(profiles_[i].name) + ": " +
            ranges_of(input_names_, profiles_[i]);
  }
  return text;
}

}  // namespace executorch_tensorrt
