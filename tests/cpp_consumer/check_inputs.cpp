// The example makes its inputs in the dtype that it is asked for, or none.
#include <cmath>
#include <cstdio>

#include "model.h"

using executorch::aten::ScalarType;

namespace {

bool failed = false;

void expect(bool ok, const char* what, ScalarType dtype) {
  if (ok) return;
  failed = true;
  std::printf("%s: %s\n", executorch::runtime::toString(dtype), what);
}

template <typename T>
void check(ScalarType dtype, bool integral) {
  const auto tensor = multi_profile::make_tensor(dtype, {2, 3});
  expect(tensor != nullptr, "not made", dtype);
  if (tensor == nullptr) return;
  expect(tensor->scalar_type() == dtype, "of another dtype", dtype);
  expect(multi_profile::shape_text(*tensor) == "[2, 3]", "of another shape", dtype);
  expect(tensor->nbytes() == 6 * sizeof(T), "of another size", dtype);
  const T* values = tensor->const_data_ptr<T>();
  for (int i = 0; i < 6; ++i) {
    const double wanted = integral ? i % 2 : i * 37 % 101 / 50.0 - 1.0;
    // bfloat16 has 8 bits.
    expect(std::abs(static_cast<double>(values[i]) - wanted) < 4e-3, "other values", dtype);
  }
}

}  // namespace

int main() {
  check<float>(ScalarType::Float, false);
  check<executorch::aten::Half>(ScalarType::Half, false);
  check<executorch::aten::BFloat16>(ScalarType::BFloat16, false);
  check<double>(ScalarType::Double, false);
  check<int8_t>(ScalarType::Char, true);
  check<uint8_t>(ScalarType::Byte, true);
  check<int32_t>(ScalarType::Int, true);
  check<int64_t>(ScalarType::Long, true);
  check<bool>(ScalarType::Bool, true);
  for (const auto dtype : {ScalarType::ComplexFloat, ScalarType::UInt16, ScalarType::Short}) {
    expect(multi_profile::make_tensor(dtype, {2, 3}) == nullptr, "made", dtype);
  }
  return failed ? 1 : 0;
}
