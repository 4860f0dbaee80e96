// Which optimization profile an execution uses. Knows neither CUDA nor TensorRT.
#pragma once

#include <executorch/runtime/core/result.h>
#include <executorch/runtime/core/span.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "delegate_blob.h"

namespace executorch_tensorrt {

struct Automatic {};
/// What the caller asks for: by input shape, by name, or by index in declared order.
using ProfileRequest = std::variant<Automatic, std::string, int64_t>;

enum class SelectionPolicy {
  kSticky,    // keep the active profile while it fits, else the first that fits
  kFirstFit,  // the first that fits, whatever ran before
};

/// One delegate's profiles, in declared order.
class ProfileTable {
 public:
  ProfileTable() = default;
  /// `input_names[i]` names the input that `profiles[p].inputs[i]` bounds.
  ProfileTable(std::vector<std::string> input_names, std::vector<Profile> profiles);

  const std::vector<Profile>& profiles() const { return profiles_; }
  std::optional<size_t> find(std::string_view name) const;

  /// Rank equal and every dim of every input in range. `shapes`: one an input, in order.
  bool fits(size_t profile, executorch::runtime::Span<const Dims> shapes) const;

  /// The profile for inputs of these shapes. InvalidArgument, with the shapes and the ranges in
  /// the last error, if the request names no profile, or one that does not fit, or none fits.
  /// Allocates nothing when it succeeds.
  executorch::runtime::Result<size_t> select(const ProfileRequest& request, SelectionPolicy policy,
                                             std::optional<size_t> active,
                                             executorch::runtime::Span<const Dims> shapes) const;

  /// InvalidArgument if the request names no profile of this table; for checks at load.
  executorch::runtime::Error check(const ProfileRequest& request) const;

  /// "0 'decode': ids 1..8x1; 1 'prefill': ids 1..8x2..512".
  std::string describe() const;

 private:
  std::vector<std::string> input_names_;
  std::vector<Profile> profiles_;
};

}  // namespace executorch_tensorrt
