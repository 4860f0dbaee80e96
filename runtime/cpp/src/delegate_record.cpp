#include "delegate_record.h"

#include <utility>

namespace executorch_tensorrt {

namespace {

thread_local DelegateCollector* innermost_collector = nullptr;

std::string hexadecimal(const std::array<uint8_t, 32>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<int64_t> sizes(const Dims& dims) {
  return {dims.size.begin(), dims.size.begin() + dims.rank};
}

std::vector<ProfileInfo> describe_profiles(const DelegateBlob& blob) {
  std::vector<ProfileInfo> profiles;
  for (const Profile& profile : blob.profiles) {
    ProfileInfo info{profile.name, {}};
    for (size_t i = 0; i < profile.inputs.size(); ++i) {
      const ShapeRange& range = profile.inputs[i];
      info.inputs.push_back(
          {blob.bindings[i].name, sizes(range.min), sizes(range.opt), sizes(range.max)});
    }
    profiles.push_back(std::move(info));
  }
  return profiles;
}

}  // namespace

DelegateInfo::~DelegateInfo() = default;

DelegateCollector::DelegateCollector() : outer_(innermost_collector) { innermost_collector = this; }

DelegateCollector::~DelegateCollector() { innermost_collector = outer_; }

void announce(const std::shared_ptr<const DelegateInfo>& delegate) {
  for (auto* collector = innermost_collector; collector != nullptr; collector = collector->outer_) {
    collector->delegates_.push_back(delegate);
  }
}

DelegateRecord::DelegateRecord(const DelegateBlob& blob, std::string method, std::string device,
                               std::string engine, bool whole_method, std::weak_ptr<StateSet> state)
    : method_(std::move(method)),
      device_(std::move(device)),
      engine_(std::move(engine)),
      whole_method_(whole_method),
      state_(std::move(state)),
      engine_id_(hexadecimal(blob.engine_id)),
      profiles_(describe_profiles(blob)),
      per_profile_(blob.profiles.size()) {}

void DelegateRecord::count_execution(size_t profile) {
  const int64_t last = last_profile_.exchange(static_cast<int64_t>(profile));
  if (last >= 0 && last != static_cast<int64_t>(profile)) add(profile_changes_, 1);
  add(per_profile_[profile], 1);
}

DelegateStatistics DelegateRecord::statistics() const {
  DelegateStatistics statistics;
  for (const Counter& count : per_profile_) {
    statistics.executions_per_profile.push_back(count);
    statistics.executions += statistics.executions_per_profile.back();
  }
  statistics.failures = failures_;
  statistics.profile_changes = profile_changes_;
  statistics.graph_replays = graph_replays_;
  statistics.graph_captures = graph_captures_;
  statistics.graph_misses = graph_misses_;
  statistics.host_synchronizations = host_synchronizations_;
  statistics.bytes_staged = bytes_staged_;
  if (const int64_t last = last_profile_; last >= 0) statistics.last_profile = last;
  return statistics;
}

}  // namespace executorch_tensorrt
