// The DelegateInfo that outlives its delegate, and the counters behind it.
#pragma once

#include <executorch_tensorrt/delegate_info.h>

#include <atomic>
#include <string>
#include <vector>

#include "delegate_blob.h"

namespace executorch_tensorrt {

/// Gives the delegate to the collectors of this thread.
void announce(const std::shared_ptr<const DelegateInfo>& delegate);

class DelegateRecord final : public DelegateInfo {
 public:
  DelegateRecord(const DelegateBlob& blob, std::string method, std::string device,
                 std::string engine, bool whole_method, std::weak_ptr<StateSet> state = {});

  const std::string& method() const override { return method_; }
  const std::string& device() const override { return device_; }
  const std::string& engine() const override { return engine_; }
  const std::string& engine_id() const override { return engine_id_; }
  const std::vector<ProfileInfo>& profiles() const override { return profiles_; }
  bool whole_method() const override { return whole_method_; }
  bool output_shapes_follow_inputs() const override { return output_shapes_follow_inputs_; }
  DelegateStatistics statistics() const override;
  std::shared_ptr<StateSet> state() const override { return state_.lock(); }

  /// Before it is announced.
  void set_output_shapes_follow_inputs(bool follow) { output_shapes_follow_inputs_ = follow; }

  // Written by one execution at a time, read from any thread.
  void count_execution(size_t profile);
  void count_failure() { add(failures_, 1); }
  void count_graph_replay() { add(graph_replays_, 1); }
  void count_graph_capture() { add(graph_captures_, 1); }
  void count_graph_miss() { add(graph_misses_, 1); }
  void count_host_synchronization() { add(host_synchronizations_, 1); }
  void count_staged(size_t bytes) { add(bytes_staged_, bytes); }

 private:
  using Counter = std::atomic<uint64_t>;
  static void add(Counter& counter, uint64_t n) { counter.fetch_add(n, std::memory_order_relaxed); }

  const std::string method_, device_, engine_;
  const bool whole_method_;
  bool output_shapes_follow_inputs_ = false;
  const std::weak_ptr<StateSet> state_;
  std::string engine_id_;
  std::vector<ProfileInfo> profiles_;
  std::vector<Counter> per_profile_;
  Counter graph_replays_{0}, graph_captures_{0}, graph_misses_{0};
  Counter failures_{0}, profile_changes_{0}, host_synchronizations_{0}, bytes_staged_{0};
  std::atomic<int64_t> last_profile_{-1};
};

}  // namespace executorch_tensorrt
