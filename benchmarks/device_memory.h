// How much of the GPU's memory is in use.
#pragma once

#include <dlfcn.h>

#include <cstddef>

#include "device.h"

namespace executorch_tensorrt::benchmark {

/// By all processes, in MiB; 0 on the host.
inline double used_device_mib(Device& device) {
  if (device.reads_host_memory()) return 0;
  using MemGetInfo = int (*)(size_t*, size_t*);
  static const auto info = reinterpret_cast<MemGetInfo>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuMemGetInfo_v2"));
  const DeviceScope scope(device);
  size_t free = 0, total = 0;
  if (scope.error() != Error::Ok || info == nullptr || info(&free, &total) != 0) return 0;
  return static_cast<double>(total - free) / (1 << 20);
}

}  // namespace executorch_tensorrt::benchmark
