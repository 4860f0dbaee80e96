// Stands in for the GPU in builds that had no CUDA or TensorRT headers.
#ifndef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include "device.h"
#include "engine.h"
#include "last_error.h"

namespace executorch_tensorrt {

namespace {

Error not_built() {
  return report(
      Error::NotFound,
      "this build has no TensorRT engine, as TensorRT's and CUDA's headers were not found "
      "when it was made: install a released wheel, or build with TensorRT_ROOT set to "
      "TensorRT's folder; or load with device cpu");
}

}  // namespace

Result<std::shared_ptr<Device>> cuda_device(int) { return not_built(); }

int gpu_count() noexcept { return 0; }

Result<std::shared_ptr<Engine>> create_tensorrt_engine(const DelegateBlob&, Device&,
                                                       const EngineOptions&) {
  return not_built();
}

}  // namespace executorch_tensorrt

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
