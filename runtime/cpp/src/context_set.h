// A delegate's execution contexts: one a profile of the engine, or one for all.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device_buffer.h"
#include "engine.h"
#include "runtime_options.h"

namespace executorch_tensorrt {

/// A context and the shapes that were last worked out on it.
struct ContextSlot {
  std::unique_ptr<ExecutionContext> context;
  std::optional<uint32_t> engine_profile;  // empty while the context's profile is not known
  bool shapes_known = false;
  std::vector<Dims> input_shapes;   // one an input binding
  std::vector<Dims> output_shapes;  // one an output binding

  /// After a failed call nothing that was remembered of the context can be relied on.
  void forget_shapes() { shapes_known = false; }
};

/// The contexts share one activation buffer, as large as the largest profile needs: executions of
/// one delegate never overlap, so no two of them use it at once.
class ContextSet {
 public:
  static Result<std::unique_ptr<ContextSet>> create(std::shared_ptr<Engine> engine,
                                                    std::shared_ptr<Device> device,
                                                    const DelegateBlob& blob, ProfileContexts mode);

  /// Puts each context on its profile, ordered on `stream`. Once, before the first on_profile().
  Error place_on_profiles(Stream stream);

  /// The context for a profile of the engine. Where it is on another one, the switch is put on
  /// `stream` first, and the slot remembers the new profile only once it is there.
  Result<ContextSlot*> on_profile(uint32_t engine_profile, Stream stream);

 private:
  ContextSet(std::shared_ptr<Engine> engine, std::shared_ptr<Device> device)
      : device_(std::move(device)),
        engine_(std::move(engine)),
        activations_(*device_, MemoryKind::kDevice) {}

  Error add_slots(const DelegateBlob& blob, size_t count);

  // Destroyed in the reverse order: contexts, activations, engine, device.
  std::shared_ptr<Device> device_;
  std::shared_ptr<Engine> engine_;
  DeviceBuffer activations_;
  size_t activation_bytes_ = 0;
  std::vector<ContextSlot> slots_;
};

}  // namespace executorch_tensorrt
