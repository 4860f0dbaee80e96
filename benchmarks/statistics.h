// What one thing measured several times comes to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace executorch_tensorrt::benchmark {

/// Each is 0 without a measurement.
class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  size_t count() const { return values_.size(); }
  double median() const { return quantile(0.5); }
  double p99() const { return quantile(0.99); }
  double mean() const {
    return values_.empty() ? 0 : std::accumulate(values_.begin(), values_.end(), 0.0) / count();
  }

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
