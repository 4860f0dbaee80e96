// A delegate's execution contexts: one a profile of the engine, or one for all.
#pragma once

#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device_buffer.h"
#include "engine.h"
#include "graph_cache.h"
#include "runtime_options.h"

namespace executorch_tensorrt {

/// What came of creating a context on another thread.
struct CreatedContext {
  std::unique_ptr<ExecutionContext> context;
  Error error = Error::Ok;
  std::string text;  // of the error
};

/// A context, the shapes that were last worked out on it, and the graphs captured with them.
struct ContextSlot {
  ContextSlot(std::unique_ptr<ExecutionContext> context, GraphCache graphs, size_t num_inputs,
              size_t num_outputs)
      : context(std::move(context)),
        graphs(std::move(graphs)),
        input_shapes(num_inputs),
        output_shapes(num_outputs) {}

  std::unique_ptr<ExecutionContext> context;
  GraphCache graphs;
  std::optional<uint32_t> engine_profile;  // empty while the context's profile is not known
  bool shapes_known = false;
  std::vector<Dims> input_shapes;   // one an input binding
  std::vector<Dims> output_shapes;  // one an output binding
  size_t shape_changes = 0;         // of this context
  bool in_callers_graph = false;    // which may be launched at any time
  std::future<CreatedContext> successor;

  /// Also for after a failed call, when nothing that was remembered of the context can be relied
  /// on. Nothing may be in flight where there are graphs.
  void forget_shapes() {
    shapes_known = false;
    graphs.clear();
  }
};

/// Profiles of the engine, of which several of the blob's may share one.
uint32_t count_engine_profiles(const DelegateBlob& blob);

/// The contexts share one activation buffer, as large as the largest profile needs: executions of
/// one delegate never overlap, so no two of them use it at once.
class ContextSet {
 public:
  static Result<std::unique_ptr<ContextSet>> create(std::shared_ptr<Engine> engine,
                                                    std::shared_ptr<Device> device,
                                                    const DelegateBlob& blob,
                                                    const RuntimeOptions& options);

  /// Puts each context on its profile, ordered on `stream`. Once, before the first on_profile().
  Error place_on_profiles(Stream stream);

  /// Whether on_profile() has nothing to put on a stream.
  bool is_on_profile(uint32_t engine_profile) const {
    return slots_.size() > 1 || slots_.front().engine_profile == engine_profile;
  }
  /// The context for a profile of the engine. Where it is on another one, the switch is put on
  /// `stream` first, and the slot remembers the new profile only once it is there.
  Result<ContextSlot*> on_profile(uint32_t engine_profile, Stream stream);

  /// Counts a change of the slot's input shapes. True once the context has seen too many, and there
  /// is another to replace() it. That one is created while the old one goes on.
  bool count_shape_change(ContextSlot& slot);
  /// Puts the successor in the place of the slot's context, on the profile it is on. Nothing of the
  /// old one may be in flight. Where no successor came about the old one stays.
  void replace(ContextSlot& slot, Stream stream);

 private:
  ContextSet(std::shared_ptr<Engine> engine, std::shared_ptr<Device> device)
      : device_(std::move(device)),
        engine_(std::move(engine)),
        activations_(*device_, MemoryKind::kDevice) {}

  Error add_slots(const DelegateBlob& blob, size_t count, size_t max_graphs);

  // Destroyed in the reverse order: contexts, activations, engine, device.
  std::shared_ptr<Device> device_;
  std::shared_ptr<Engine> engine_;
  DeviceBuffer activations_;
  size_t activation_bytes_ = 0;
  std::vector<ContextSlot> slots_;
};

}  // namespace executorch_tensorrt
