// Load-time options of the backend, as ExecuTorch hands them over.
#pragma once

namespace executorch_tensorrt {

/// The backend's name in ExecuTorch's registry and in a .pte.
inline constexpr char kBackendId[] = "TensorRTBackend";

/// Keys for runtime::BackendOptions; set them on a LoadBackendOptionsMap under kBackendId and pass
/// it to Module::load or Program::load_method. A compile spec of the same key in the .pte holds the
/// value as text and counts where no load-time option is given.
namespace option {

/// const char*: the name of the profile to use where neither a guard nor the call names one.
/// Default: automatic.
inline constexpr char kDefaultProfile[] = "default_profile";

/// int: the same by index, in declared order.
inline constexpr char kDefaultProfileIndex[] = "default_profile_index";

/// const char*, "sticky" or "first_fit": how a profile is selected by shape. Default: "sticky",
/// the active profile while it fits, else the first in declared order that does.
inline constexpr char kProfileSelection[] = "profile_selection";

/// const char*, "per_profile" or "single": one execution context a profile, or one in all, switched
/// on the execution stream (less memory, slower switches). Default: "per_profile".
inline constexpr char kProfileContexts[] = "profile_contexts";

/// bool: whether executions whose shapes and addresses recur are replayed as CUDA graphs, one
/// launch each. With "single" contexts of several profiles and for engines that cannot be captured
/// it has no effect. Default: true.
inline constexpr char kCudaGraphs[] = "cuda_graphs";

/// int: the most CUDA graphs kept for each profile; the least recently used go. Default: 16.
inline constexpr char kMaxCudaGraphs[] = "max_cuda_graphs";

/// const char*, "auto", "cuda", "cuda:N" or "cpu". Default: "auto", the GPU named by device_id, or
/// the CPU fallback, if the program carries one, where there is no GPU or it cannot be used. Named
/// by "cuda" or "cpu" it is that device or an error, and so is a GPU that is not there among those
/// that are. All that the program needs lives on its device; the device that is current on the
/// threads that load, execute and unload it stays as it is.
inline constexpr char kDevice[] = "device";

/// int: the ordinal of the GPU where `device` names none, as CUDA counts them (after
/// CUDA_VISIBLE_DEVICES). Default: 0.
inline constexpr char kDeviceId[] = "device_id";

/// const char*: how many bytes of an engine's weights stay on the GPU, in digits; the rest streams
/// from host memory in each execution. For engines built with
/// CompileOptions(weight_streaming=True). Default: all of them.
inline constexpr char kWeightStreamingBudget[] = "weight_streaming_budget";

/// const char*: methods that are loaded with the same name here, on one device, have one state
/// together: what they call the same is the same, and must have the same dtype, shape and initial
/// value. Such as a prefill and a decode method over one KV cache. Default: "", each method its
/// own.
inline constexpr char kStateGroup[] = "state_group";

/// bool: whether an engine may contain host code (version-compatible engines do). Such code runs
/// with the rights of the process. Default: false.
inline constexpr char kEngineHostCodeAllowed[] = "engine_host_code_allowed";

}  // namespace option
}  // namespace executorch_tensorrt
