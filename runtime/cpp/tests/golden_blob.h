// The golden blobs that the Python tests read, too (tests/data).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace executorch_tensorrt::test {

inline const char* const kGoldenNames[] = {"static",        "two_profiles", "shared_engine_profile",
                                           "with_fallback", "shape_tensor", "stateless",
                                           "states",        "kv_cache"};

/// A file under tests/data: where the environment variable EXECUTORCH_TENSORRT_TEST_DATA says, else
/// where the build says, else beside this source.
inline std::vector<uint8_t> read_test_data(const std::string& name) {
  std::string folder;
  if (const char* variable = std::getenv("EXECUTORCH_TENSORRT_TEST_DATA")) {
    folder = variable;
  } else {
#ifdef EXECUTORCH_TENSORRT_TEST_DATA
    folder = EXECUTORCH_TENSORRT_TEST_DATA;
#else
    const std::string source = __FILE__;
    folder = source.substr(0, source.rfind('/')) + "/../../../tests/data";
#endif
  }
  std::ifstream file(folder + "/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + folder + "/" + name);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return {bytes.begin(), bytes.end()};
}

}  // namespace executorch_tensorrt::test
