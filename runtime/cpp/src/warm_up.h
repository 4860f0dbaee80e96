// The first enqueue of each profile, which compiles kernels and takes up to seconds, done at load.
#pragma once

#include "completion.h"
#include "context_set.h"
#include "delegate_blob.h"
#include "engine.h"

namespace executorch_tensorrt {

/// Executes each profile of the engine once, with inputs of zeros in its opt shape. Nothing is in
/// flight afterwards. Does nothing for an engine that computes shapes from values, for which zeros
/// may not do, or that is not TensorRT's.
Error warm_up(ContextSet& contexts, const Engine& engine, const DelegateBlob& blob, Device& device,
              InFlight& in_flight, Stream stream);

}  // namespace executorch_tensorrt
