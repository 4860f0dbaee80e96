// What a loaded method's TensorRT delegates are and what they have done.
#pragma once

#include <executorch_tensorrt/api.h>
#include <executorch_tensorrt/state.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace executorch_tensorrt {

/// One input's sizes under one profile: as many entries as the input has dims.
struct InputRange {
  std::string input;
  std::vector<int64_t> min, opt, max;
};

struct ProfileInfo {
  std::string name;
  std::vector<InputRange> inputs;
};

/// Counts since the delegate was loaded.
struct DelegateStatistics {
  uint64_t executions = 0;                       // that succeeded
  uint64_t failures = 0;                         // executions that returned an error
  std::vector<uint64_t> executions_per_profile;  // that succeeded, in declared order
  uint64_t profile_changes = 0;        // executions on another profile than the one before
  uint64_t graph_replays = 0;          // executions that were one graph launch
  uint64_t graph_captures = 0;         // graphs made
  uint64_t graph_misses = 0;           // executions enqueued kernel by kernel
  uint64_t host_synchronizations = 0;  // waits of the host for the device
  uint64_t bytes_staged = 0;           // copied between host and device for host tensors
  std::optional<size_t> last_profile;  // of the last execution that succeeded
};

/// One delegate. Its description does not change; statistics() may be called from any thread, also
/// after the method was unloaded.
class EXECUTORCH_TENSORRT_API DelegateInfo {
 public:
  virtual ~DelegateInfo();
  virtual const std::string& method() const = 0;     // that it belongs to
  virtual const std::string& device() const = 0;     // "cuda:0"; "cpu" for the fallback
  virtual const std::string& engine() const = 0;     // "TensorRT-RTX 1.6.1.120", "CPU fallback"
  virtual const std::string& engine_id() const = 0;  // SHA-256 of the engine, in hexadecimal
  /// In declared order: the same names in every delegate of a method, each with ranges over its own
  /// inputs (see OptimizationProfileGuard).
  virtual const std::vector<ProfileInfo>& profiles() const = 0;
  /// Whether the method is this delegate and nothing else, so that its inputs and outputs are too.
  virtual bool whole_method() const = 0;
  /// Whether the shapes of its outputs follow from those of its inputs, whatever their values.
  virtual bool output_shapes_follow_inputs() const = 0;
  virtual DelegateStatistics statistics() const = 0;
  /// The method's own state, which all its delegates that own states have in common; nullptr where
  /// this one owns none, and once the method was unloaded and nobody else holds it.
  virtual std::shared_ptr<StateSet> state() const = 0;
};

/// While it lives, gathers the delegates that are loaded on this thread. Collectors nest; each
/// gathers what the inner ones do.
///
///   DelegateCollector collector;
///   module.load_method("forward");
///   for (const auto& delegate : collector.delegates()) { ... }
class EXECUTORCH_TENSORRT_API DelegateCollector {
 public:
  DelegateCollector();
  ~DelegateCollector();
  DelegateCollector(const DelegateCollector&) = delete;
  DelegateCollector& operator=(const DelegateCollector&) = delete;

  /// In the order in which the program lists them.
  const std::vector<std::shared_ptr<const DelegateInfo>>& delegates() const { return delegates_; }

 private:
  friend void announce(const std::shared_ptr<const DelegateInfo>& delegate);

  std::vector<std::shared_ptr<const DelegateInfo>> delegates_;
  DelegateCollector* outer_;
};

}  // namespace executorch_tensorrt
