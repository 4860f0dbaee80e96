#include "tensorrt_library.h"

#include <dlfcn.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "last_error.h"
#include "tensorrt_logger.h"

namespace executorch_tensorrt {

using executorch::runtime::Error;
using executorch::runtime::Result;
namespace fs = std::filesystem;

namespace {

constexpr char kVariable[] = "EXECUTORCH_TENSORRT_LIBRARY";

#if NV_TENSORRT_MAJOR == 10
constexpr char kCallable[] = "TensorRT 10.1 or a newer 10.x";
#elif NV_TENSORRT_MAJOR == 11
constexpr char kCallable[] = "TensorRT 11 and TensorRT-RTX 1.5 or a newer 1.x";
#else
#error "TensorRT's headers must be those of TensorRT 10 or 11"
#endif

/// Those that this build can call first; the others only so that the error can name what is there.
std::vector<std::string> sonames(Flavour flavour) {
  if (flavour == Flavour::kTensorRTRTX) return {"libtensorrt_rtx.so.1"};
  if (NV_TENSORRT_MAJOR == 10) return {"libnvinfer.so.10", "libnvinfer.so.11"};
  return {"libnvinfer.so.11", "libnvinfer.so.10"};
}

/// The file that holds `address`, "" if unknown.
std::string file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// Folders that a Python wheel of this flavour may have put its library in.
std::vector<fs::path> wheel_folders(Flavour flavour) {
  const char* name = flavour == Flavour::kTensorRTRTX ? "tensorrt_rtx_libs" : "tensorrt_libs";
  std::vector<fs::path> folders;
  for (const void* address : {reinterpret_cast<const void*>(&tensorrt_library),
                              reinterpret_cast<const void*>(&executorch::runtime::runtime_init)}) {
    std::error_code ignored;
    const fs::path file = fs::absolute(file_of(address), ignored);
    for (const char* up : {"..", "../.."}) {
      const fs::path folder = (file.parent_path() / up / name).lexically_normal();
      if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
        folders.push_back(folder);
      }
    }
  }
  return folders;
}

template <typename Function>
Function function_of(void* library, const char* symbol) {
  return reinterpret_cast<Function>(dlsym(library, symbol));
}

/// `encoded`: getInferLibVersion(), which every version has; the parts came with TensorRT 10.
TensorRTVersion version_of(void* library, int32_t encoded) {
  TensorRTVersion version;
  const auto part = [&](const char* symbol, uint32_t otherwise) {
    const auto function = function_of<int32_t (*)()>(library, symbol);
    return function == nullptr ? otherwise : static_cast<uint32_t>(function());
  };
  const auto number = static_cast<uint32_t>(encoded);
  const uint32_t base = number < 10000 ? 1000 : 10000;  // 8.6.1 was 8601, 10.0.0 is 100000
  version.major = part("getInferLibMajorVersion", number / base);
  version.minor = part("getInferLibMinorVersion", number % base / 100);
  version.patch = part("getInferLibPatchVersion", number % 100);
  version.build = part("getInferLibBuildVersion", 0);
  return version;
}

/// TensorRT's own plugins, for engines that use them; they lie in a library of their own.
void register_plugins(const TensorRTLibrary& library) {
  if (library.flavour != Flavour::kTensorRT) return;  // TensorRT-RTX has none
  const std::string soname = "libnvinfer_plugin.so." + std::to_string(library.version.major);
  const std::string beside = (fs::path(library.path).parent_path() / soname).string();
  void* plugins = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugins == nullptr) plugins = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto initialize = plugins == nullptr ? nullptr
                                             : function_of<bool (*)(void*, const char*)>(
                                                   plugins, "initLibNvInferPlugins");
  if (initialize == nullptr || !initialize(&tensorrt_logger(), "")) {
    ET_LOG(Info, "%s is not there: engines that use TensorRT's plugins will not load",
           soname.c_str());
  }
}

/// What was tried without success, for the message.
class Attempts {
 public:
  /// Null, and noted, if it can not be loaded.
  void* open(const std::string& path, int flags) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
    if (library == nullptr && (flags & RTLD_NOLOAD) == 0) {
      const char* why = dlerror();
      note(why == nullptr ? path : why);
    }
    return library;
  }
  void note(const std::string& text) { text_ += "\n  " + text; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void* search(Flavour flavour, Attempts& attempts) {
  for (const std::string& soname : sonames(flavour)) {
    if (void* library = attempts.open(soname, RTLD_NOLOAD)) return library;
    if (void* library = attempts.open(soname, 0)) return library;
    for (const fs::path& folder : wheel_folders(flavour)) {
      const fs::path file = folder / soname;
      std::error_code ignored;
      if (!fs::exists(file, ignored)) {
        attempts.note(file.string() + ": no such file");
      } else if (void* library = attempts.open(file.string(), 0)) {
        return library;
      }
    }
  }
  return nullptr;
}

/// NotFound if `handle` is no TensorRT library.
Result<TensorRTLibrary> inspect(void* handle, const std::string& name) {
  TensorRTLibrary library;
  library.create_runtime =
      function_of<void* (*)(void*, int32_t)>(handle, "createInferRuntime_INTERNAL");
  const auto get_version = function_of<int32_t (*)()>(handle, "getInferLibVersion");
  if (library.create_runtime == nullptr || get_version == nullptr) {
    return report(Error::NotFound, name + " is no TensorRT library: it has no " +
                                       (get_version == nullptr ? "getInferLibVersion"
                                                               : "createInferRuntime_INTERNAL"));
  }
  library.path = file_of(reinterpret_cast<const void*>(get_version));
  library.version = version_of(handle, get_version());
  // TensorRT-RTX counts from 1, which TensorRT was past long before.
  library.flavour = library.version.major < 5 ? Flavour::kTensorRTRTX : Flavour::kTensorRT;
  return library;
}

Error check_usable(const TensorRTLibrary& library, Flavour wanted, const std::string& source) {
  if (library.flavour != wanted) {
    return report(Error::DelegateInvalidCompatibility, std::string("the engine was built with ") +
                                                           to_string(wanted) + ", but " + source +
                                                           " is " + library.describe());
  }
  if (!can_call(library.flavour, library.version)) {
    return report(Error::DelegateInvalidCompatibility,
                  source + " is " + library.describe() +
                      ", which this build can not call; it calls " + kCallable);
  }
  return Error::Ok;
}

Result<TensorRTLibrary> find_library(Flavour flavour) {
  Attempts attempts;
  void* handle = search(flavour, attempts);
  if (handle == nullptr) {
    const char* extra = flavour == Flavour::kTensorRTRTX ? "rtx" : "tensorrt";
    return report(
        Error::NotFound,
        std::string("no ") + to_string(flavour) +
            " library here; install it, for example with `pip install "
            "executorch-tensorrt[" +
            extra + "]`, or set " + kVariable +
            " to its path. Not loaded in this process, and not found as:" + attempts.text());
  }
  return inspect(handle, to_string(flavour));
}

}  // namespace

std::string TensorRTLibrary::describe() const {
  return std::string(to_string(flavour)) + " " + to_string(version) + " (" + path + ")";
}

// The classes of NvInfer.h call through tables that TensorRT may append to within a major version,
// and that it cut and reordered from 10 to 11. TensorRT-RTX's, from 1.5 on, begin as TensorRT 11's
// do. Of TensorRT 10, this library calls what came with 10.1 (setDeviceMemoryV2).
bool can_call(Flavour flavour, const TensorRTVersion& version) {
  if (NV_TENSORRT_MAJOR == 10) {
    return flavour == Flavour::kTensorRT && version.major == 10 && version.minor >= 1;
  }
  return flavour == Flavour::kTensorRT ? version.major == 11
                                       : version.major == 1 && version.minor >= 5;
}

Result<TensorRTLibrary> load_tensorrt_library(const std::string& path) {
  Attempts attempts;
  void* handle = attempts.open(path, 0);
  if (handle == nullptr) {
    return report(Error::NotFound,
                  "can not load the TensorRT library " + path + ":" + attempts.text());
  }
  return inspect(handle, path);
}

Result<const TensorRTLibrary*> tensorrt_library(Flavour flavour) {
  static std::mutex& mutex = *new std::mutex;
  static auto& loaded = *new std::map<std::string, TensorRTLibrary>;  // by variable, or flavour
  const char* path = std::getenv(kVariable);
  const bool named = path != nullptr && *path != '\0';
  const std::string key = named ? path : to_string(flavour);
  const std::string source = named ? std::string(kVariable) + "=" + path : "what is installed here";

  const std::lock_guard<std::mutex> lock(mutex);
  auto found = loaded.find(key);
  if (found == loaded.end()) {
    Result<TensorRTLibrary> library = named ? load_tensorrt_library(path) : find_library(flavour);
    if (!library.ok() && named) {
      return report(library.error(), source + ": " + last_error_message());
    }
    if (!library.ok()) return library.error();
    found = loaded.emplace(key, library.get()).first;
    if (can_call(found->second.flavour, found->second.version)) register_plugins(found->second);
    ET_LOG(Info, "using %s", found->second.describe().c_str());
  }
  const Error error = check_usable(found->second, flavour, source);
  if (error != Error::Ok) return error;
  return &found->second;
}

}  // namespace executorch_tensorrt
