// What the TensorRT engine and the tests need of CUDA devices beyond the Device seam.
#pragma once

#include <memory>
#include <string>

#include "cuda_driver.h"
#include "device.h"

namespace executorch_tensorrt {

struct GpuProperties {
  std::string name;  // "NVIDIA H200"
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
};

/// Of GPU `index`, which must be there.
Result<GpuProperties> gpu_properties(const CudaDriver& driver, int index);

/// A device over a driver that is given; cuda_device() keeps one a GPU. The driver must outlive it.
Result<std::shared_ptr<Device>> create_cuda_device(const CudaDriver& driver, int index);

}  // namespace executorch_tensorrt
