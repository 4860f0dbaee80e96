// Delegates on one of several GPUs, over the fake driver: where each of its calls is made, and what
// is current on the thread afterwards.
#ifdef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include <executorch/runtime/platform/runtime.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "captured_log.h"
#include "cuda_device.h"
#include "delegate_fixture.h"
#include "fake_cuda_driver.h"

namespace executorch_tensorrt::test {
namespace {

constexpr int kGpu = 1;  // of three
constexpr int kRows = 8;
constexpr size_t kBytes = kRows * 4 * sizeof(float);

/// y = x, by calls of the driver in the device's scope, as TensorRT's are.
class CopyContext final : public ExecutionContext {
 public:
  CopyContext(const CudaDriver& driver, Device& device) : driver_(driver), device_(device) {}

  Error set_optimization_profile(uint32_t, Stream stream) override {
    return scoped([&] { return driver_.cuStreamSynchronize(static_cast<CUstream>(stream)); });
  }
  Error set_activation_memory(void*, size_t) override { return Error::Ok; }
  Error set_input_shape(size_t, const Dims& shape) override {
    shape_ = shape;
    return Error::Ok;
  }
  Result<Dims> output_shape(size_t) override { return shape_; }
  Error set_tensor_address(size_t binding, void* address, size_t) override {
    (binding == 0 ? input_ : output_) = reinterpret_cast<CUdeviceptr>(address);
    return Error::Ok;
  }
  Error enqueue(Stream stream) override {
    const size_t bytes = shape_.size[0] * shape_.size[1] * sizeof(float);
    return scoped([&] {
      return driver_.cuMemcpyDtoDAsync(output_, input_, bytes, static_cast<CUstream>(stream));
    });
  }
  Error copy_output(size_t, void*, size_t, Stream) override { return Error::NotSupported; }

 private:
  template <typename Call>
  Error scoped(const Call& call) {
    const DeviceScope scope(device_);
    if (scope.error() != Error::Ok) return scope.error();
    const CUresult result = call();
    return result == CUDA_SUCCESS ? Error::Ok : driver_.report_failure(result, "the engine");
  }

  const CudaDriver& driver_;
  Device& device_;
  Dims shape_;
  CUdeviceptr input_ = 0, output_ = 0;
};

class CopyEngine final : public Engine {
 public:
  CopyEngine(const CudaDriver& driver, Device& device) : driver_(driver), device_(device) {}

  size_t activation_bytes(uint32_t) const override { return 64; }
  bool knows_shapes_before_enqueue() const override { return true; }
  bool can_be_captured() const override { return true; }
  Result<std::unique_ptr<ExecutionContext>> create_execution_context() override {
    return std::unique_ptr<ExecutionContext>(std::make_unique<CopyContext>(driver_, device_));
  }

 private:
  const CudaDriver& driver_;
  Device& device_;
};

/// What was current on the thread: nothing, another GPU, or several nested.
class CudaDelegate : public ::testing::TestWithParam<std::vector<CUcontext>> {
 protected:
  CudaDelegate() {
    executorch::runtime::runtime_init();
    cuda_.gpu_count = 3;
    device_ = *create_cuda_device(cuda_.driver, kGpu);
    cuda_.calls.clear();
    cuda_.contexts = GetParam();
  }

  Result<std::unique_ptr<TensorRTDelegate>> load() {
    DelegateParts parts;
    parts.blob = fake_blob();
    parts.device = device_;
    parts.engine = std::make_shared<CopyEngine>(cuda_.driver, *device_);
    parts.active = std::make_shared<ActiveProfile>();
    parts.record = std::make_shared<DelegateRecord>(parts.blob, "forward", "cuda:1", "fake", true);
    return TensorRTDelegate::create(std::move(parts));
  }

  /// The driver's calls since the last time were all made in the GPU, and the thread is as it was.
  void expect_in_place(const char* after) {
    EXPECT_EQ(cuda_.contexts, GetParam()) << after;
    EXPECT_EQ(cuda_.misplaced, std::vector<std::string>{}) << after;
    for (const std::string& call : cuda_.calls) {
      const std::string where = call.substr(call.rfind(' ') + 1);
      EXPECT_EQ(where, std::to_string(kGpu)) << call << ", " << after;
    }
    cuda_.calls.clear();
  }

  /// One call, of which the answer must be right unless it fails.
  Error call(TensorRTDelegate& delegate, float* x, float* y) {
    const float values[2] = {value_ += 1, value_ + 1};
    std::memcpy(x, values, sizeof values);
    std::memset(y, 0, kBytes);
    const auto in = executorch::extension::from_blob(x, {kRows, 4}, ScalarType::Float);
    const auto out = executorch::extension::from_blob(y, {kRows, 4}, ScalarType::Float);
    EValue input(*in), output(*out);
    EValue* args[] = {&input, &output};
    const Error error = delegate.execute({args, 2});
    if (error == Error::Ok) {
      EXPECT_EQ(std::memcmp(x, y, kBytes), 0);
    }
    expect_in_place(error == Error::Ok ? "a call" : "a call that failed");
    return error;
  }

  /// Loads, calls with tensors of every kind, often enough to capture and replay, and unloads;
  /// returns how many of these failed.
  int live() {
    int failures = 0;
    const auto count = [&failures](Error error) { failures += error != Error::Ok; };
    {
      auto loaded = load();
      expect_in_place("loading");
      if (!loaded.ok()) return 1;
      TensorRTDelegate& delegate = **loaded;
      std::vector<float> host_x(kRows * 4), host_y(kRows * 4);
      for (int i = 0; i < 4; ++i) count(call(delegate, host_x.data(), host_y.data()));
      for (int i = 0; i < 4; ++i) count(call(delegate, x_, y_));
      const StreamGuard guard(stream_);
      count(call(delegate, x_, y_));
      count(call(delegate, host_x.data(), host_y.data()));
      replays_ = delegate.record()->statistics().graph_replays;
    }
    expect_in_place("unloading");
    return failures;
  }

  /// With tensors and a stream of the caller's on the GPU.
  template <typename Work>
  void with_callers_things(const Work& work) {
    x_ = static_cast<float*>(*device_->allocate(kBytes));
    y_ = static_cast<float*>(*device_->allocate(kBytes));
    stream_ = *device_->create_stream();
    std::memset(x_, 0, kBytes);
    const int before = cuda_.live;
    work();
    EXPECT_EQ(cuda_.live, before + lost_) << "something was not given back";
    device_->free(x_);
    device_->free(y_);
    device_->destroy_stream(stream_);
  }

  const CapturedLog log_;
  FakeCuda cuda_;
  std::shared_ptr<Device> device_;
  float *x_ = nullptr, *y_ = nullptr;
  Stream stream_ = nullptr;
  float value_ = 0;
  uint64_t replays_ = 0;
  int lost_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Found, CudaDelegate,
    ::testing::Values(std::vector<CUcontext>{}, std::vector<CUcontext>{FakeCuda::primary(0)},
                      std::vector<CUcontext>{FakeCuda::primary(kGpu), FakeCuda::primary(2)}));

TEST_P(CudaDelegate, EverythingIsDoneOnItsGpuAndTheThreadStaysAsItWas) {
  with_callers_things([this] {
    EXPECT_EQ(live(), 0);
    EXPECT_GE(replays_, 3u);
  });
}

TEST_P(CudaDelegate, SoItIsWhicheverCallOfTheDriverFails) {
  with_callers_things([this] {
    cuda_.made = 0;
    EXPECT_EQ(live(), 0);
    const int calls = cuda_.made;
    ASSERT_GE(calls, 100);
    int reported = 0;
    for (int k = 1; k <= calls; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + " of " + std::to_string(calls));
      cuda_.made = 0;
      cuda_.fails_at = k;
      const int before = cuda_.live;
      const int failures = live();
      EXPECT_LE(failures, 1) << "a fault was answered more than once";
      reported += failures;
      cuda_.fails_at = 0;
      // Without a context nothing can be given back; the log says so.
      const int most_lost = cuda_.failed == "cuCtxPushCurrent" ? 1 : 0;
      EXPECT_LE(cuda_.live - before, most_lost) << cuda_.failed;
      lost_ += cuda_.live - before;
    }
    EXPECT_GE(reported, calls / 2);  // others are those of a capture, or give something back
  });
}

}  // namespace
}  // namespace executorch_tensorrt::test

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
