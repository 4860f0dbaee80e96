// A delegate as the fuzzer loads it: by the backend, as ExecuTorch does, or over the engine that
// touches its memory.
#pragma once

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch_tensorrt/delegate_info.h>
#include <executorch_tensorrt/state.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <memory>

#include "delegate_blob.h"
#include "sealed_blob.h"
#include "touching_engine.h"

namespace executorch_tensorrt::fuzz {

/// How a run's delegates are loaded.
struct Way {
  Way() = default;
  explicit Way(FuzzedDataProvider& script)
      : touches(script.ConsumeIntegralInRange(0, 2) == 1),
        grouped(script.ConsumeBool()),
        single(script.ConsumeBool()),
        first_fit(script.ConsumeBool()),
        device(script.ConsumeIntegralInRange(0, 7)),
        data(script.ConsumeIntegralInRange(0, 3)) {}

  bool touches = false;    // over TouchingEngine
  bool grouped = false;    // with the other delegates' state
  bool single = false;     // one context for all profiles
  bool first_fit = false;  // how profiles are selected
  int device = 0;          // 1: automatic, 2: a GPU; else the CPU
  int data = 0;            // named data: 1: the engine, 2: one cut off, 3: unreadable; else none
};

class FuzzedDelegate {
 public:
  /// nullptr, with the last error, where it does not load.
  static std::unique_ptr<FuzzedDelegate> load(const Bytes& data, const DelegateBlob& blob,
                                              const Way& way);
  virtual ~FuzzedDelegate() = default;

  virtual Error execute(executorch::runtime::Span<executorch::runtime::EValue*> arguments) = 0;
  virtual bool touches() const = 0;
  /// The method's own states; nullptr: it has none.
  const std::shared_ptr<StateSet>& own() const { return own_; }
  Behaviour& behaviour() { return *behaviour_; }

 protected:
  FuzzedDelegate() = default;

  std::shared_ptr<StateSet> own_;
  const std::shared_ptr<Behaviour> behaviour_ = std::make_shared<Behaviour>();
};

}  // namespace executorch_tensorrt::fuzz
