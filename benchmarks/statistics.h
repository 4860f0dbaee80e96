// Latencies of one kind of call, and what they come to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace executorch_tensorrt::benchmark {

/// In microseconds; 0 without a measurement.
class Latencies {
 public:
  void add(double microseconds) { values_.push_back(microseconds); }
  size_t count() const { return values_.size(); }
  double median() const { return quantile(0.5); }
  double p99() const { return quantile(0.99); }

 private:
  double quantile(double q) const {
    if (values_.empty()) return 0;
    std::vector<double> sorted = values_;
    const size_t index = std::min(sorted.size() - 1, static_cast<size_t>(q * sorted.size()));
    std::nth_element(sorted.begin(), sorted.begin() + index, sorted.end());
    return sorted[index];
  }

  std::vector<double> values_;
};

/// 0 where there is nothing to divide by.
inline double ratio(double value, double base) { return base > 0 ? value / base : 0; }

}  // namespace executorch_tensorrt::benchmark
