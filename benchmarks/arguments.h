// What the benchmarks' command lines share.
#pragma once

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace executorch_tensorrt::benchmark {

/// Says what is wrong and how it is called, and exits with 2.
[[noreturn]] inline void refuse(const std::string& problem, const char* usage) {
  std::fprintf(stderr, "%s\nusage: %s\n", problem.c_str(), usage);
  std::exit(2);
}

/// The value of an option that takes a whole number.
inline int parse_count(const std::string& option, const std::string& text, int least,
                       const char* usage) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    refuse(option + " takes a whole number of " + std::to_string(least) + " or more, not '" + text +
               "'",
           usage);
  }
  return value;
}

/// A list of JSON objects, one a line; exits with a message where it cannot be written.
inline void write_json(const std::string& path, const std::vector<std::string>& objects) {
  std::ofstream file(path);
  file << "[";
  const char* before = "\n";
  for (const std::string& object : objects) {
    file << before << "  " << object;
    before = ",\n";
  }
  file << "\n]\n";
  if (!file.flush()) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    std::exit(1);
  }
}

}  // namespace executorch_tensorrt::benchmark
