// The options of executorch_tensorrt/options.h, parsed and checked.
#pragma once

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>
#include <executorch/runtime/core/result.h>
#include <executorch/runtime/core/span.h>

#include <string>

#include "engine.h"
#include "profile_table.h"

namespace executorch_tensorrt {

enum class ProfileContexts { kPerProfile, kSingle };

struct DeviceChoice {
  enum class Kind { kAutomatic, kCuda, kCpu };
  Kind kind = Kind::kAutomatic;
  int index = 0;  // of the GPU
};

struct RuntimeOptions {
  ProfileRequest default_profile = Automatic{};
  SelectionPolicy profile_selection = SelectionPolicy::kSticky;
  ProfileContexts profile_contexts = ProfileContexts::kPerProfile;
  bool cuda_graphs = true;
  int max_cuda_graphs = 16;
  std::string state_group;  // empty: none
  DeviceChoice device;
  EngineOptions engine;

  /// Load-time options count before compile specs. InvalidArgument for a load-time key that is not
  /// known and for a value that does not fit, naming both; compile specs of other keys are not
  /// ours.
  static executorch::runtime::Result<RuntimeOptions> parse(
      executorch::runtime::Span<const executorch::runtime::BackendOption> load_time,
      executorch::runtime::ArrayRef<executorch::runtime::CompileSpec> compile_specs);
};

}  // namespace executorch_tensorrt
