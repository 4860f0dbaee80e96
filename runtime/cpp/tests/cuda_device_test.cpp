// The CUDA device over a fake driver, and over a real one where there is a GPU.
#ifdef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include "cuda_device.h"

#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_cuda_driver.h"
#include "last_error_has.h"

namespace executorch_tensorrt::test {
namespace {

TEST(CudaDriver, AMissingDriverIsNotFoundAndTheErrorSaysWhatToInstall) {
  executorch::runtime::runtime_init();
  EXPECT_EQ(load_cuda_driver("libcuda-is-not-here.so.1").error(), Error::NotFound);
  EXPECT_TRUE(last_error_has("libcuda-is-not-here.so.1"));
  EXPECT_TRUE(last_error_has("install NVIDIA's driver, which brings libcuda.so.1"));
}

TEST(CudaDriver, ALibraryThatIsNoDriverIsNotFoundAndTheErrorNamesTheFunctionItLacks) {
  executorch::runtime::runtime_init();
  EXPECT_EQ(load_cuda_driver("libm.so.6").error(), Error::NotFound);
  EXPECT_TRUE(last_error_has("libm.so.6 has no cuInit"));
}

TEST(CudaDriver, WithoutADriverEveryGpuIsNotFound) {
  executorch::runtime::runtime_init();
  if (cuda_driver().ok()) GTEST_SKIP() << "this machine has a driver";
  EXPECT_EQ(cuda_device(0).error(), Error::NotFound);
  EXPECT_TRUE(last_error_has("driver"));
}

class FakeCudaDevice : public testing::Test {
 protected:
  FakeCudaDevice() {
    executorch::runtime::runtime_init();
    device = create_cuda_device(cuda.driver, 1).get();
    cuda.calls.clear();
  }

  FakeCuda cuda;
  std::shared_ptr<Device> device;
};

TEST_F(FakeCudaDevice, AGpuThatIsNotThereIsNotFoundAndTheErrorListsThoseThatAre) {
  for (const int index : {2, -1}) {
    EXPECT_EQ(create_cuda_device(cuda.driver, index).error(), Error::NotFound);
    EXPECT_TRUE(last_error_has("no GPU " + std::to_string(index) +
                               ": this process sees 2: cuda:0 Fake GPU A, cuda:1 Fake GPU B"));
  }
}

TEST_F(FakeCudaDevice, NamesItself) {
  EXPECT_EQ(device->name(), "cuda:1");
  EXPECT_EQ(device->index(), 1);
  EXPECT_FALSE(device->reads_host_memory());
}

/// A call on the device that works with `function` of the driver, and whether it succeeded.
struct DeviceCall {
  const char* function;
  std::function<bool(Device&)> run;
};

std::vector<DeviceCall> calls_that_report() {
  static char host[8];
  void* gpu = host;
  return {
      {"cuMemAlloc", [](Device& d) { return d.allocate(8).ok(); }},
      {"cuMemHostAlloc", [](Device& d) { return d.allocate_host(8).ok(); }},
      {"cuPointerGetAttributes", [=](Device& d) { return d.pointer_info(gpu).ok(); }},
      {"cuMemcpyHtoDAsync",
       [=](Device& d) {
         return d.copy_async(gpu, host, 8, CopyKind::kHostToDevice, nullptr) == Error::Ok;
       }},
      {"cuMemcpyDtoHAsync",
       [=](Device& d) {
         return d.copy_async(host, gpu, 8, CopyKind::kDeviceToHost, nullptr) == Error::Ok;
       }},
      {"cuMemcpyDtoDAsync",
       [=](Device& d) {
         return d.copy_async(gpu, gpu, 8, CopyKind::kDeviceToDevice, nullptr) == Error::Ok;
       }},
      {"cuMemsetD8Async", [=](Device& d) { return d.zero_async(gpu, 8, nullptr) == Error::Ok; }},
      {"cuStreamCreate", [](Device& d) { return d.create_stream().ok(); }},
      {"cuStreamGetCtx",
       [](Device& d) {
         return d.check_stream(FakeCuda::stream_of(FakeCuda::primary(1))) == Error::Ok;
       }},
      {"cuCtxSynchronize", [](Device& d) { return d.synchronize() == Error::Ok; }},
      {"cuStreamSynchronize", [](Device& d) { return d.synchronize_stream(nullptr) == Error::Ok; }},
      {"cuEventCreate", [](Device& d) { return d.create_event().ok(); }},
      {"cuEventRecord", [](Device& d) { return d.record_event(nullptr, nullptr) == Error::Ok; }},
      {"cuStreamWaitEvent", [](Device& d) { return d.wait_event(nullptr, nullptr) == Error::Ok; }},
      {"cuEventSynchronize", [](Device& d) { return d.synchronize_event(nullptr) == Error::Ok; }},
      {"cuStreamBeginCapture", [](Device& d) { return d.begin_capture(nullptr) == Error::Ok; }},
      {"cuStreamEndCapture", [](Device& d) { return d.end_capture(nullptr).ok(); }},
      {"cuStreamIsCapturing", [](Device& d) { return d.is_capturing(nullptr).ok(); }},
      {"cuGraphLaunch", [](Device& d) { return d.launch_graph(nullptr, nullptr) == Error::Ok; }},
  };
}

TEST_F(FakeCudaDevice, EveryCallRunsOnItsGpuAndLeavesTheThreadsContextAsItWas) {
  for (const auto& found : {std::vector<CUcontext>{}, {FakeCuda::primary(0)}}) {
    for (const DeviceCall& call : calls_that_report()) {
      for (const bool fails : {false, true}) {
        SCOPED_TRACE(std::string(call.function) + (fails ? " fails" : " succeeds") +
                     (found.empty() ? ", no context current" : ", another GPU current"));
        cuda.contexts = found;
        cuda.calls.clear();
        cuda.failing = fails ? call.function : "";
        EXPECT_EQ(call.run(*device), !fails);
        EXPECT_EQ(cuda.contexts, found);
        ASSERT_FALSE(cuda.calls.empty());
        EXPECT_EQ(cuda.calls.front(), std::string(call.function) + " in 1");
        if (fails) {
          EXPECT_TRUE(last_error_has("CUDA_ERROR_UNKNOWN (999): the fake was told to"));
        }
      }
    }
  }
}

TEST_F(FakeCudaDevice, NothingIsCalledWhenItsContextCanNotBeMadeCurrent) {
  cuda.failing = "cuCtxPushCurrent";
  for (const DeviceCall& call : calls_that_report()) {
    EXPECT_FALSE(call.run(*device)) << call.function;
  }
  EXPECT_TRUE(cuda.calls.empty());
  EXPECT_TRUE(cuda.contexts.empty());
}

TEST_F(FakeCudaDevice, EverythingCreatedIsGivenBack) {
  void* memory = device->allocate(8).get();
  void* host = device->allocate_host(8).get();
  Stream stream = device->create_stream().get();
  Event event = device->create_event().get();
  EXPECT_EQ(cuda.live, 4);
  device->free(memory);
  device->free_host(host);
  device->destroy_stream(stream);
  device->destroy_event(event);
  EXPECT_EQ(cuda.live, 0);
  EXPECT_EQ(cuda.calls.back(), "cuEventDestroy in 1");
}

TEST_F(FakeCudaDevice, RunningOutOfMemoryNamesTheBytesAndTheGpu) {
  cuda.failing = "cuMemAlloc";
  cuda.failure = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(device->allocate(12345).error(), Error::MemoryAllocationFailed);
  EXPECT_TRUE(last_error_has("allocating 12345 bytes of device memory on cuda:1"));
  EXPECT_TRUE(last_error_has("CUDA_ERROR_OUT_OF_MEMORY (2)"));
}

TEST_F(FakeCudaDevice, NoBytesTakeNoCall) {
  EXPECT_EQ(device->allocate(0).get(), nullptr);
  EXPECT_EQ(device->allocate_host(0).get(), nullptr);
  EXPECT_EQ(device->copy_async(nullptr, nullptr, 0, CopyKind::kHostToDevice, nullptr), Error::Ok);
  device->free(nullptr);
  device->free_host(nullptr);
  device->destroy_stream(nullptr);
  device->destroy_event(nullptr);
  EXPECT_TRUE(cuda.calls.empty());
}

TEST_F(FakeCudaDevice, TellsMemoryOfGpusFromMemoryOfTheHost) {
  int anything = 0;
  const auto info = [&](FakePointer pointer) {
    cuda.pointer = pointer;
    return device->pointer_info(&anything).get();
  };
  EXPECT_FALSE(info({0, false, 0}).on_device) << "pageable";
  EXPECT_FALSE(info({CU_MEMORYTYPE_HOST, false, 1}).on_device) << "page-locked";
  const PointerInfo other = info({CU_MEMORYTYPE_DEVICE, false, 0});
  EXPECT_TRUE(other.on_device);
  EXPECT_EQ(other.device_index, 0);
  for (const unsigned int type : {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE}) {
    const PointerInfo managed = info({type, true, 0});
    EXPECT_TRUE(managed.on_device) << "managed memory is every GPU's";
    EXPECT_EQ(managed.device_index, 1);
  }
}

TEST_F(FakeCudaDevice, TakesItsOwnStreamsAndTheDefaultStreams) {
  EXPECT_EQ(device->check_stream(FakeCuda::stream_of(FakeCuda::primary(1))), Error::Ok);
  for (Stream stream : {Stream{nullptr}, Stream{CU_STREAM_LEGACY}, Stream{CU_STREAM_PER_THREAD}}) {
    EXPECT_EQ(device->check_stream(stream), Error::Ok);
  }
}

TEST_F(FakeCudaDevice, RefusesAStreamOfAnotherGpuOrContext) {
  const auto check = [&](Device& on, CUcontext context) {
    return on.check_stream(FakeCuda::stream_of(context));
  };
  EXPECT_EQ(check(*device, FakeCuda::primary(0)), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("can not be used on cuda:1: it belongs to cuda:0"));
  const auto first = create_cuda_device(cuda.driver, 0).get();
  EXPECT_EQ(check(*first, FakeCuda::other_context()), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("another context than the GPU's primary one"));
  EXPECT_TRUE(cuda.contexts.empty());
}

TEST_F(FakeCudaDevice, AScopeMakesItCurrentAndNests) {
  cuda.contexts = {FakeCuda::primary(0)};
  {
    const DeviceScope outer(*device);
    EXPECT_EQ(outer.error(), Error::Ok);
    EXPECT_EQ(cuda.contexts.back(), FakeCuda::primary(1));
    const auto first = create_cuda_device(cuda.driver, 0).get();
    const DeviceScope inner(*first);
    EXPECT_EQ(cuda.contexts.back(), FakeCuda::primary(0));
  }
  EXPECT_EQ(cuda.contexts, std::vector<CUcontext>{FakeCuda::primary(0)});
}

TEST_F(FakeCudaDevice, AScopeThatFailedPopsNothing) {
  cuda.contexts = {FakeCuda::primary(0)};
  cuda.failing = "cuCtxPushCurrent";
  {
    const DeviceScope scope(*device);
    EXPECT_EQ(scope.error(), Error::Internal);
  }
  EXPECT_EQ(cuda.contexts, std::vector<CUcontext>{FakeCuda::primary(0)});
}

/// Skipped without a GPU.
class RealCudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    executorch::runtime::runtime_init();
    auto found = cuda_device(0);
    if (!found.ok()) GTEST_SKIP() << last_error_message();
    device = found.get();
  }

  std::shared_ptr<Device> device;
};

TEST_F(RealCudaDevice, IsTheSameObjectEveryTime) {
  EXPECT_EQ(cuda_device(0).get(), device);
  EXPECT_EQ(cuda_device(1000).error(), Error::NotFound);
  EXPECT_TRUE(last_error_has("no GPU 1000: this process sees "));
}

TEST_F(RealCudaDevice, CopiesThereAndBackInOrderOfStreamsAndEvents) {
  constexpr size_t kBytes = 1 << 20;
  auto* host = static_cast<char*>(device->allocate_host(kBytes).get());
  void* first = device->allocate(kBytes).get();
  void* second = device->allocate(kBytes).get();
  Stream upload = device->create_stream().get(), download = device->create_stream().get();
  Event ready = device->create_event().get();
  for (size_t i = 0; i < kBytes; ++i) host[i] = static_cast<char>(i * 7);
  std::vector<char> back(kBytes);

  EXPECT_EQ(device->copy_async(first, host, kBytes, CopyKind::kHostToDevice, upload), Error::Ok);
  EXPECT_EQ(device->copy_async(second, first, kBytes, CopyKind::kDeviceToDevice, upload),
            Error::Ok);
  EXPECT_EQ(device->record_event(ready, upload), Error::Ok);
  EXPECT_EQ(device->wait_event(download, ready), Error::Ok);
  EXPECT_EQ(device->copy_async(back.data(), second, kBytes, CopyKind::kDeviceToHost, download),
            Error::Ok);
  EXPECT_EQ(device->synchronize_stream(download), Error::Ok);
  EXPECT_EQ(device->synchronize_event(ready), Error::Ok);
  EXPECT_EQ(device->synchronize(), Error::Ok);
  EXPECT_EQ(std::memcmp(back.data(), host, kBytes), 0);

  EXPECT_TRUE(device->pointer_info(first)->on_device);
  EXPECT_EQ(device->pointer_info(first)->device_index, 0);
  EXPECT_FALSE(device->pointer_info(host)->on_device);
  EXPECT_FALSE(device->pointer_info(back.data())->on_device);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
  EXPECT_EQ(device->check_stream(upload), Error::Ok);
  device->destroy_event(ready);
  device->destroy_stream(upload);
  device->destroy_stream(download);
  device->free(first);
  device->free(second);
  device->free_host(host);
}

TEST_F(RealCudaDevice, LeavesAThreadWithoutAContextWithoutOne) {
  std::thread([this] {
    // The driver itself tells: with no context current, it can not say which device is.
    const CudaDriver& driver = *cuda_driver().get();
    CUdevice current = -1;
    EXPECT_EQ(driver.cuCtxGetDevice(&current), CUDA_ERROR_INVALID_CONTEXT);
    void* memory = device->allocate(16).get();
    EXPECT_FALSE(device->allocate(size_t{1} << 60).ok());
    device->free(memory);
    EXPECT_EQ(driver.cuCtxGetDevice(&current), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

TEST_F(RealCudaDevice, RefusesAllocatingMoreThanThereIs) {
  EXPECT_EQ(device->allocate(size_t{1} << 50).error(), Error::MemoryAllocationFailed);
  EXPECT_TRUE(last_error_has("CUDA_ERROR_OUT_OF_MEMORY"));
}

TEST_F(RealCudaDevice, TwoGpusKeepTheirStreamsApart) {
  auto second = cuda_device(1);
  if (!second.ok()) GTEST_SKIP() << "one GPU here";
  Stream stream = second.get()->create_stream().get();
  EXPECT_EQ(second.get()->check_stream(stream), Error::Ok);
  EXPECT_EQ(device->check_stream(stream), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("it belongs to cuda:1"));
  second.get()->destroy_stream(stream);
}

}  // namespace
}  // namespace executorch_tensorrt::test

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
