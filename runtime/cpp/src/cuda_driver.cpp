#include "cuda_driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "last_error.h"

namespace executorch_tensorrt {

using executorch::runtime::Error;
using executorch::runtime::Result;

namespace {

constexpr char kLibrary[] = "libcuda.so.1";

/// Looks `symbol` up into `function`; false, with the symbol in `missing`, if it is not there.
template <typename Function>
bool resolve(void* library, const char* symbol, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr && missing.empty()) missing = symbol;
  return function != nullptr;
}

}  // namespace

std::string visible_devices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "" : std::string(" (CUDA_VISIBLE_DEVICES is '") + visible + "')";
}

std::string CudaDriver::describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  // Both leave a null pointer for a code that they do not know.
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "CUDA error";
  std::string description = std::string(name) + " (" + std::to_string(result) + ")";
  if (cuGetErrorString(result, &text) == CUDA_SUCCESS && text != nullptr) {
    description += std::string(": ") + text;
  }
  return description;
}

Error CudaDriver::report_failure(CUresult result, const std::string& what) const {
  const Error code =
      result == CUDA_ERROR_OUT_OF_MEMORY ? Error::MemoryAllocationFailed : Error::Internal;
  return report(code, what + " failed with " + describe(result));
}

Result<CudaDriver> load_cuda_driver(const char* library) {
  // Never closed: a driver that has been initialized does not unload cleanly.
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return report(
        Error::NotFound,
        "no NVIDIA driver here: " + std::string(why != nullptr ? why : "it can not be loaded") +
            "; install NVIDIA's driver, which brings " + kLibrary +
            " (in a container, start it with the GPUs), or load with device cpu");
  }
  CudaDriver driver;
  std::string missing;
#define EXECUTORCH_TENSORRT_TEXT_OF(name) #name
#define EXECUTORCH_TENSORRT_TEXT(name) EXECUTORCH_TENSORRT_TEXT_OF(name)
#define EXECUTORCH_TENSORRT_RESOLVE(function) \
  resolve(handle, EXECUTORCH_TENSORRT_TEXT(function), driver.function, missing);
  EXECUTORCH_TENSORRT_CUDA_FUNCTIONS(EXECUTORCH_TENSORRT_RESOLVE)
#undef EXECUTORCH_TENSORRT_RESOLVE
#undef EXECUTORCH_TENSORRT_TEXT
#undef EXECUTORCH_TENSORRT_TEXT_OF
  if (!missing.empty()) {
    return report(Error::NotFound, std::string(library) + " has no " + missing +
                                       ": install NVIDIA's driver for CUDA 12 or newer");
  }
  const CUresult result = driver.cuInit(0);
  if (result != CUDA_SUCCESS) {
    return report(Error::NotFound, "the NVIDIA driver (" + std::string(library) +
                                       ") does not start: cuInit says " + driver.describe(result) +
                                       visible_devices());
  }
  return driver;
}

Result<const CudaDriver*> cuda_driver() {
  static std::mutex mutex;
  static const CudaDriver* loaded = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded == nullptr) {
    Result<CudaDriver> driver = load_cuda_driver(kLibrary);
    if (!driver.ok()) return driver.error();
    loaded = new CudaDriver(driver.get());  // for the life of the process
  }
  return loaded;
}

}  // namespace executorch_tensorrt
