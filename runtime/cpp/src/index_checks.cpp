#include "index_checks.h"

#include <cstring>
#include <string>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

std::string range_text(const IndexCheck& check) {
  return std::to_string(check.least) + ".." + std::to_string(check.greatest);
}

Error refuse(const DelegateBlob& blob, const IndexCheck& check, const std::string& why) {
  return report(Error::InvalidArgument, "input '" + blob.bindings[check.binding].name +
                                            "', where state '" + check.state + "' is written, " +
                                            why + "; nothing was written");
}

/// The greatest value that leaves room for the rows of this call; less than `least` if none does.
int64_t greatest_start(const IndexCheck& check, executorch::runtime::Span<const Dims> shapes) {
  if (check.extent_binding < 0) return check.greatest;
  const int64_t rows = shapes[static_cast<size_t>(check.extent_binding)].size[check.extent_dim];
  int64_t greatest = 0;
  if (__builtin_sub_overflow(check.greatest, rows - 1, &greatest)) {
    return rows > 0 ? INT64_MIN : INT64_MAX;
  }
  return greatest;
}

Error refuse_value(const DelegateBlob& blob, const IndexCheck& check,
                   executorch::runtime::Span<const Dims> shapes, int64_t value) {
  std::string why = "is " + std::to_string(value);
  if (check.extent_binding >= 0) {
    const auto rows = shapes[static_cast<size_t>(check.extent_binding)].size[check.extent_dim];
    why += " for " + std::to_string(rows) + " rows";
  }
  return refuse(blob, check, why + "; they must lie in " + range_text(check));
}

template <typename Integer>
Error check_values(const DelegateBlob& blob, const IndexCheck& check,
                   executorch::runtime::Span<const Dims> shapes, const void* values) {
  const Dims& shape = shapes[check.binding];
  size_t count = 1;
  for (uint32_t d = 0; d < shape.rank; ++d) count *= static_cast<size_t>(shape.size[d]);
  const int64_t greatest = greatest_start(check, shapes);
  int64_t before = 0;
  for (size_t i = 0; i < count; ++i) {
    Integer element;  // which the caller need not have aligned
    std::memcpy(&element, static_cast<const char*>(values) + i * sizeof(Integer), sizeof(Integer));
    const int64_t value = element;
    if (value < check.least || value > greatest) return refuse_value(blob, check, shapes, value);
    if (check.contiguous && i > 0 && (value <= before || value != before + 1)) {
      return refuse(blob, check,
                    "has " + std::to_string(value) + " after " + std::to_string(before) +
                        "; positions must ascend by 1");
    }
    before = value;
  }
  return Error::Ok;
}

}  // namespace

Error check_index_values(const DelegateBlob& blob, const IndexCheck& check,
                         executorch::runtime::Span<const Dims> shapes, const void* values) {
  return blob.bindings[check.binding].dtype == executorch::aten::ScalarType::Int
             ? check_values<int32_t>(blob, check, shapes, values)
             : check_values<int64_t>(blob, check, shapes, values);
}

}  // namespace executorch_tensorrt
