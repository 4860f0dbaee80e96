// One delegate of a loaded method: an engine, its contexts, and the execution of calls on them.
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/span.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "active_profile.h"
#include "completion.h"
#include "context_set.h"
#include "delegate_arguments.h"
#include "delegate_blob.h"
#include "delegate_record.h"
#include "device_buffer.h"
#include "engine.h"
#include "method_state.h"
#include "profile_table.h"
#include "runtime_options.h"
#include "state_memory.h"

namespace executorch_tensorrt {

/// What a delegate is made of. `blob`'s sections point into `processed`, where that is kept.
struct DelegateParts {
  std::optional<executorch::runtime::FreeableBuffer> processed;
  DelegateBlob blob;
  RuntimeOptions options;
  std::shared_ptr<Device> device;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<ActiveProfile> active;
  std::shared_ptr<DelegateRecord> record;
  std::shared_ptr<MethodState> state;  // nullptr where the blob has no states
};

class TensorRTDelegate {
 public:
  static Result<std::unique_ptr<TensorRTDelegate>> create(DelegateParts parts);

  /// Waits for what is in flight.
  ~TensorRTDelegate();
  TensorRTDelegate(const TensorRTDelegate&) = delete;
  TensorRTDelegate& operator=(const TensorRTDelegate&) = delete;

  /// One call: its inputs, then its outputs. On the caller's stream, where it set one and all
  /// tensors are on the device, returns with the work enqueued; otherwise with the outputs there.
  /// After an error nothing of the call runs any more, unless the device itself does not answer.
  /// `tracer`: where the execution is logged, under its profile's name; such a call always waits
  /// for its outputs, so that the time is the execution's.
  Error execute(executorch::runtime::Span<executorch::runtime::EValue*> args,
                executorch::runtime::EventTracer* tracer = nullptr);

  const std::shared_ptr<DelegateRecord>& record() const { return parts_.record; }

 private:
  /// What a tensor that cannot be bound is copied through, at fixed addresses; `host` is
  /// page-locked.
  struct Staging {
    DeviceBuffer device, host;
  };
  /// Where a tensor lies, as far as binding it goes: as it is, or copied through staging.
  enum class Place { kBound, kUnaligned, kPageLocked, kPageable };
  /// A tensor of the current call that is copied through staging.
  struct Staged {
    size_t binding;
    void* host;  // the page-locked memory at its other end; nullptr: the tensor itself
    CopyKind output_kind = CopyKind::kDeviceToDevice;  // where an output is copied to directly
  };
  /// What one call needs to know on the way.
  struct Call {
    Stream stream = nullptr;
    bool synchronous = true;     // return with the outputs there
    bool capturing = false;      // the caller captures its stream
    bool reads_indices = false;  // positions that are checked lie on the device
    ContextSlot* slot = nullptr;
    StateUse* state = nullptr;         // nullptr for a delegate without states
    Completion* completion = nullptr;  // nullptr while capturing
  };
  /// An input whose values are checked before the engine is enqueued.
  struct CheckedInput {
    size_t binding;
    DeviceBuffer copy;             // for values that lie on the device
    const void* values = nullptr;  // of the current call, once read
    bool on_device = false;        // the values of the current call
  };

  explicit TensorRTDelegate(DelegateParts parts);
  Error prepare();
  Error prepare_state();

  Error execute_locked(executorch::runtime::Span<executorch::runtime::EValue*> args, bool traced,
                       size_t& profile);
  void trace(executorch::runtime::EventTracer& tracer, size_t profile, et_timestamp_t start) const;
  Result<size_t> select_profile() const;
  Error choose_stream(Call& call);
  Error begin_state(StateUse& use) const;
  Error check_state_capture(const Call& call) const;
  Error find_indices(Call& call);
  Error read_indices(const Call& call);
  Error wait_for_indices(Completion& completion);
  Error check_indices() const;
  Error run(size_t profile, Call& call);
  Error settle(Completion& completion, Call& call);
  void note_state_addresses(const Call& call);
  Error bind_state(ContextSlot& slot);
  Error copy_guard(Stream stream);
  Error collect_state(Call& call);
  Error check_guard() const;
  Error enqueue(size_t profile, Call& call);
  Error replay_or_submit(Call& call);
  void capture(GraphCache::Entry& entry, Call& call);
  Error submit_call(Call& call);
  Error submit(ContextSlot& slot, Stream stream);
  Error bind_input(size_t binding, Call& call);
  Error bind_shape_tensor(size_t binding, Call& call);
  Error set_input_shapes(Call& call);
  Error find_output_shapes(Call& call);
  Error bind_output(size_t binding, Call& call);
  Error resize_output(size_t binding, const Dims& shape);
  Error collect_outputs(Call& call);
  void deliver_host_outputs();
  Result<Place> place_of(size_t binding) const;
  Error refuse_capture_of_new_shapes() const;
  Error refuse_in_capture(size_t binding) const;
  Error refuse_without_memory(size_t binding) const;
  Result<Staged> stage(size_t binding, Place place, void* data, Call& call);
  Result<Staged> stage_output(size_t binding, Place place, Call& call);
  Error bind_staged(const Staged& staged, size_t bytes, Call& call);
  Error set_address(size_t binding, void* address, size_t bytes, Call& call);

  DelegateParts parts_;
  ProfileTable profiles_;
  bool has_shape_tensors_ = false;

  std::mutex mutex_;  // over all below, and over every use of the contexts
  DelegateArguments arguments_;
  std::vector<Staging> staging_;           // one a binding
  std::vector<DeviceBuffer> own_outputs_;  // one a binding, for outputs that have no memory
  std::vector<Staged> staged_inputs_, staged_outputs_;
  std::vector<void*> addresses_;  // of the current call, one a tensor of the engine
  StateBindings state_bindings_;
  std::vector<size_t> state_bytes_;  // one a tensor of the engine behind the bindings
  DeviceBuffer guard_, guard_on_host_;
  std::vector<CheckedInput> checked_inputs_;
  bool graphs_enabled_ = false;
  DeviceBuffer placeholder_;  // stands for the memory of empty tensors
  Stream stream_ = nullptr;
  bool has_stream_ = false;
  std::unique_ptr<ContextSet> contexts_;
  std::unique_ptr<InFlight> in_flight_;
};

}  // namespace executorch_tensorrt
