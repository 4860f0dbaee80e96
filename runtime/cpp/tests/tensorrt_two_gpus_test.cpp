// Real engines on two GPUs of one host, from the folder that EXECUTORCH_TENSORRT_ENGINE_CASES names
// (see tensorrt_engine_cases_test.cpp). Skipped with fewer GPUs.
#ifdef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/platform/runtime.h>
#include <executorch_tensorrt/stream_guard.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_device.h"
#include "delegate.h"
#include "engine_cache.h"
#include "last_error_has.h"
#include "tensorrt_engine_cases.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::aten::SizesType;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

/// The ordinal of the GPU that is current on this thread; -1 where none is.
int current_gpu() {
  CUdevice device = -1;
  return (*cuda_driver())->cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

/// The tensors of one case, on a GPU, or on the host where none is given.
class CaseCall {
 public:
  CaseCall(const DelegateBlob& blob, const EngineCase& run, Device* gpu)
      : blob_(blob), run_(run), gpu_(gpu) {
    const size_t count = run.inputs.size() + run.outputs.size();
    host_.reserve(count);  // tensors point into it
    values_.reserve(count);
    args_.resize(blob.num_arguments, nullptr);
    for (const CaseTensor& input : run.inputs) add(input, input.bytes);
    for (const CaseTensor& output : run.outputs) add(output, std::string(output.bytes.size(), '?'));
  }

  Error execute(TensorRTDelegate& delegate) {
    return delegate.execute({args_.data(), args_.size()});
  }
  void run(TensorRTDelegate& delegate) {
    ASSERT_EQ(execute(delegate), Error::Ok) << last_error_message();
    for (size_t o = 0; o < run_.outputs.size(); ++o) {
      const CaseTensor& output = run_.outputs[o];
      std::string& got = host_[run_.inputs.size() + o];
      if (gpu_ != nullptr) {
        const void* memory = device_[run_.inputs.size() + o].data();
        ASSERT_EQ(
            gpu_->copy_async(got.data(), memory, got.size(), CopyKind::kDeviceToHost, nullptr),
            Error::Ok);
        ASSERT_EQ(gpu_->synchronize_stream(nullptr), Error::Ok);
      }
      expect_equal(blob_.bindings[find_binding(blob_, output.name)], got, output.bytes,
                   run_.tolerance);
      got.assign(got.size(), '?');
    }
  }

 private:
  void add(const CaseTensor& tensor, std::string bytes) {
    const Binding& binding = blob_.bindings[find_binding(blob_, tensor.name)];
    host_.push_back(std::move(bytes));
    void* memory = host_.back().data();
    if (gpu_ != nullptr) {
      DeviceBuffer& added = device_.emplace_back(*gpu_, MemoryKind::kDevice);
      EXPECT_EQ(added.reserve(host_.back().size()), Error::Ok);
      EXPECT_EQ(gpu_->copy_async(added.data(), memory, host_.back().size(), CopyKind::kHostToDevice,
                                 nullptr),
                Error::Ok);
      EXPECT_EQ(gpu_->synchronize_stream(nullptr), Error::Ok);
      memory = added.data();
    }
    std::vector<SizesType> sizes(tensor.dims.size.begin(),
                                 tensor.dims.size.begin() + tensor.dims.rank);
    tensors_.push_back(executorch::extension::from_blob(memory, std::move(sizes), binding.dtype));
    args_[binding.argument] = &values_.emplace_back(*tensors_.back());
  }

  const DelegateBlob& blob_;
  const EngineCase& run_;
  Device* const gpu_;
  std::vector<std::string> host_;
  std::vector<DeviceBuffer> device_;
  std::vector<TensorPtr> tensors_;
  std::vector<EValue> values_;
  std::vector<EValue*> args_;
};

class TensorRTTwoGpus : public testing::Test {
 protected:
  void SetUp() override {
    executorch::runtime::runtime_init();
    const char* folder = std::getenv("EXECUTORCH_TENSORRT_ENGINE_CASES");
    if (folder == nullptr) GTEST_SKIP() << "EXECUTORCH_TENSORRT_ENGINE_CASES is not set";
    if (gpu_count() < 2) GTEST_SKIP() << "needs two GPUs; here are " << gpu_count();
    files = read_cases(folder);
    ASSERT_FALSE(files.empty()) << folder;
    blob = parse(affine());
    for (int i = 0; i < 2; ++i) gpus.push_back(cuda_device(i).get());
  }

  const CaseFile& affine() { return find_case(files, "affine.blob"); }

  Result<std::unique_ptr<TensorRTDelegate>> load(int gpu, const RuntimeOptions& options = {}) {
    DelegateParts parts;
    parts.blob = blob;
    parts.options = options;
    parts.device = gpus[gpu];
    const auto engine = shared_tensorrt_engine(blob, *parts.device, options.engine);
    if (!engine.ok()) return engine.error();
    parts.engine = *engine;
    parts.active = std::make_shared<ActiveProfile>();
    parts.record =
        std::make_shared<DelegateRecord>(blob, "forward", parts.device->name(), "", true);
    return TensorRTDelegate::create(std::move(parts));
  }
  std::unique_ptr<TensorRTDelegate> loaded(int gpu) {
    auto delegate = load(gpu);
    if (!delegate.ok()) throw std::runtime_error(last_error_message());
    return std::move(*delegate);
  }

  /// Runs every case several times, so that graphs are captured and replayed, from memory of `gpu`.
  void run_all(TensorRTDelegate& delegate, Device* gpu, int rounds = 4) {
    for (const EngineCase& each : affine().cases) {
      CaseCall call(blob, each, gpu);
      for (int round = 0; round < rounds; ++round) call.run(delegate);
    }
  }

  std::vector<CaseFile> files;
  DelegateBlob blob;
  std::vector<std::shared_ptr<Device>> gpus;
};

/// Works on the second GPU while none is current, or the first.
class TensorRTSecondGpu : public TensorRTTwoGpus, public testing::WithParamInterface<bool> {
 protected:
  /// On a thread of its own, with no GPU current or the first, which it must be in the end too.
  template <typename Work>
  void with_other_gpu_current(const Work& work) {
    std::thread([&] {
      if (!GetParam()) {
        work(-1);
        EXPECT_EQ(current_gpu(), -1);
        return;
      }
      const DeviceScope first(*gpus[0]);
      work(0);
      EXPECT_EQ(current_gpu(), 0);
    }).join();
  }
};

INSTANTIATE_TEST_SUITE_P(Current, TensorRTSecondGpu, testing::Bool(),
                         [](const auto& info) { return info.param ? "FirstGpu" : "None"; });

TEST_P(TensorRTSecondGpu, LoadingRunningAndUnloadingLeavesTheCurrentOneAsItWas) {
  with_other_gpu_current([this](int current) {
    auto delegate = loaded(1);
    EXPECT_EQ(current_gpu(), current);
    for (Device* memory : {static_cast<Device*>(nullptr), gpus[1].get()}) {
      run_all(*delegate, memory);
      EXPECT_EQ(current_gpu(), current);
    }
    EXPECT_GT(delegate->record()->statistics().graph_replays, 0u);
    delegate.reset();
    EXPECT_EQ(current_gpu(), current);
  });
}

TEST_P(TensorRTSecondGpu, EveryEngineGivesTheAnswersOfPyTorch) {
  with_other_gpu_current([this](int) {
    for (const CaseFile& f : files) {
      const DelegateBlob engine = parse(f);
      Runner runner(engine, *gpus[1]);
      for (size_t c = 0; c < f.cases.size(); ++c) {
        SCOPED_TRACE(f.name + ", case " + std::to_string(c));
        const auto context = runner.context(f.cases[c].profile);
        runner.run(*context, f.cases[c]);
      }
    }
  });
}

TEST_P(TensorRTSecondGpu, FailuresLeaveTheCurrentOneAsItWas) {
  with_other_gpu_current([this](int current) {
    const auto refused = [&](const Result<std::unique_ptr<TensorRTDelegate>>& result) {
      EXPECT_FALSE(result.ok());
      EXPECT_EQ(current_gpu(), current) << last_error_message();
    };
    RuntimeOptions options;
    options.default_profile = std::string("no such profile");
    refused(load(1, options));
    options = {};
    options.engine.weight_streaming_budget = 0;  // the engine was not built for it
    refused(load(1, options));
    const DelegateBlob right = blob;
    blob.engine.size /= 2;
    blob.engine_id[0] ^= 1;  // or the cache would give the engine of the test before
    refused(load(1));
    blob = right;
    blob.bindings[0].name = "other";
    blob.engine_id[0] ^= 1;
    refused(load(1));
    blob = right;
    EXPECT_FALSE(cuda_device(gpu_count()).ok());
    EXPECT_EQ(current_gpu(), current);

    const auto delegate = loaded(1);
    EngineCase wrong = affine().cases[0];
    wrong.inputs[0].dims.size[0] = 9;  // no profile takes it
    wrong.inputs[0].bytes.resize(9 * 64 * sizeof(float));
    CaseCall call(blob, wrong, gpus[1].get());
    EXPECT_EQ(call.execute(*delegate), Error::InvalidArgument);
    EXPECT_EQ(current_gpu(), current);
    Runner runner(blob, *gpus[1]);
    const auto context = runner.context(0);
    EXPECT_EQ(context->enqueue(runner.stream()), Error::Internal);  // without a shape
    EXPECT_EQ(current_gpu(), current);
    run_all(*delegate, gpus[1].get());
  });
}

TEST_P(TensorRTSecondGpu, ATensorOnTheOtherGpuIsRefusedByNameWithBoth) {
  with_other_gpu_current([this](int current) {
    const auto delegate = loaded(1);
    CaseCall call(blob, affine().cases[0], gpus[0].get());
    EXPECT_EQ(call.execute(*delegate), Error::InvalidArgument);
    EXPECT_TRUE(last_error_has("tensor 'x' is on cuda:0; this program was loaded on cuda:1"));
    EXPECT_EQ(current_gpu(), current);
    run_all(*delegate, gpus[1].get());
  });
}

TEST_P(TensorRTSecondGpu, AStreamOfTheOtherGpuIsRefusedWithBothAndOneOfItsOwnIsUsed) {
  with_other_gpu_current([this](int current) {
    const auto delegate = loaded(1);
    CaseCall call(blob, affine().cases[0], gpus[1].get());
    const Stream foreign = gpus[0]->create_stream().get();
    {
      const StreamGuard guard(foreign);
      EXPECT_EQ(call.execute(*delegate), Error::InvalidArgument);
      EXPECT_TRUE(last_error_has("can not be used on cuda:1: it belongs to cuda:0"));
      EXPECT_EQ(current_gpu(), current);
    }
    gpus[0]->destroy_stream(foreign);
    const Stream own = gpus[1]->create_stream().get();
    for (const Stream stream : {own, Stream{nullptr}}) {
      const StreamGuard guard(stream);
      for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(call.execute(*delegate), Error::Ok) << last_error_message();
      }
      ASSERT_EQ(gpus[1]->synchronize(), Error::Ok);
      EXPECT_EQ(current_gpu(), current);
    }
    call.run(*delegate);
    gpus[1]->destroy_stream(own);
  });
}

TEST_F(TensorRTTwoGpus, DelegatesOfOneEngineShareItOnEachGpu) {
  const auto first = shared_tensorrt_engine(blob, *gpus[0], {});
  const auto second = shared_tensorrt_engine(blob, *gpus[1], {});
  ASSERT_TRUE(first.ok() && second.ok()) << last_error_message();
  EXPECT_NE(*first, *second);
  EXPECT_EQ(shared_tensorrt_engine(blob, *gpus[0], {}).get(), *first);
  EXPECT_EQ(shared_tensorrt_engine(blob, *gpus[1], {}).get(), *second);
}

TEST_F(TensorRTTwoGpus, TheSameProgramRunsOnBothAtOnceAndIsRight) {
  std::vector<std::unique_ptr<TensorRTDelegate>> delegates;
  for (int i = 0; i < 2; ++i) delegates.push_back(loaded(i));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 25; ++round) {
        run_all(*delegates[i], round % 2 == 0 ? gpus[i].get() : nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(TensorRTTwoGpus, UnloadingOneWhileTheOtherRunsDoesNotTouchIt) {
  const auto running = loaded(1);
  std::atomic<bool> done{false};
  std::atomic<int> rounds{0};
  std::thread runner([&] {
    while (!done || rounds < 2) {
      run_all(*running, gpus[1].get());
      ++rounds;
    }
  });
  for (int i = 0; i < 10; ++i) {
    auto other = loaded(0);
    run_all(*other, gpus[0].get());
    other.reset();
  }
  done = true;
  runner.join();
  EXPECT_EQ(running->record()->statistics().failures, 0u);
}

}  // namespace
}  // namespace executorch_tensorrt::test

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
