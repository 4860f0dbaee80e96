// One engine for all delegates that carry the same one on the same device, so that its weights are
// there once.
#pragma once

#include <memory>

#include "delegate_blob.h"
#include "device.h"
#include "engine.h"

namespace executorch_tensorrt {

/// What loads an engine; create_tensorrt_engine(), or a test's.
using EngineLoader = Result<std::shared_ptr<Engine>> (*)(const DelegateBlob& blob, Device& device,
                                                         const EngineOptions& options);

/// The loaded engine with this blob's engine id and these very bytes on this device, or a new one;
/// it lives as long as some delegate holds it. Two threads that ask for the same engine load it
/// once. The id is only what the blob claims: an engine of other bytes is never shared under it.
Result<std::shared_ptr<Engine>> shared_tensorrt_engine(const DelegateBlob& blob, Device& device,
                                                       const EngineOptions& options,
                                                       EngineLoader load = create_tensorrt_engine);

}  // namespace executorch_tensorrt
