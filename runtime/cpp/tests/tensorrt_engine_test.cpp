// Finding TensorRT, and refusing what does not fit; with a GPU, real engines too.
#ifdef EXECUTORCH_TENSORRT_WITH_TENSORRT

#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cuda_driver.h"
#include "engine.h"
#include "fake_device.h"
#include "last_error_has.h"
#include "tensorrt_library.h"
#include "tensorrt_logger.h"

namespace executorch_tensorrt::test {
namespace {

constexpr char kVariable[] = "EXECUTORCH_TENSORRT_LIBRARY";

/// The variable has this value while it lives; null: it is not set.
class Variable {
 public:
  explicit Variable(const char* value) {
    const char* before = std::getenv(kVariable);
    had_ = before != nullptr;
    if (had_) before_ = before;
    set(value);
  }
  ~Variable() { set(had_ ? before_.c_str() : nullptr); }

 private:
  static void set(const char* value) {
    if (value == nullptr) {
      unsetenv(kVariable);
    } else {
      setenv(kVariable, value, 1);
    }
  }

  bool had_;
  std::string before_;
};

class TensorRTLibraryTest : public ::testing::Test {
 protected:
  TensorRTLibraryTest() { executorch::runtime::runtime_init(); }
};

TEST_F(TensorRTLibraryTest, OneThatDoesNotLoadIsNotFoundAndTheErrorNamesTheVariableAndThePath) {
  const Variable variable("/nowhere/libnvinfer.so.11");
  EXPECT_EQ(tensorrt_library(Flavour::kTensorRT).error(), Error::NotFound);
  EXPECT_TRUE(last_error_has("EXECUTORCH_TENSORRT_LIBRARY=/nowhere/libnvinfer.so.11"));
  EXPECT_TRUE(last_error_has("cannot open shared object file"));
}

TEST_F(TensorRTLibraryTest, OneThatIsNoTensorRTIsNotFoundAndTheErrorNamesTheFunctionItLacks) {
  const Variable variable("libm.so.6");
  EXPECT_EQ(tensorrt_library(Flavour::kTensorRT).error(), Error::NotFound);
  EXPECT_TRUE(last_error_has("libm.so.6 is no TensorRT library: it has no getInferLibVersion"));
}

TEST_F(TensorRTLibraryTest, WithoutOneTheErrorListsWhereItLookedAndWhatToInstall) {
  const Variable unset(nullptr);
  if (tensorrt_library(Flavour::kTensorRT).ok()) GTEST_SKIP() << "TensorRT is installed here";
  EXPECT_EQ(tensorrt_library(Flavour::kTensorRT).error(), Error::NotFound);
  EXPECT_TRUE(last_error_has("pip install executorch-tensorrt[tensorrt]"));
  EXPECT_TRUE(last_error_has(kVariable));
  EXPECT_TRUE(last_error_has("libnvinfer.so.11"));
  EXPECT_TRUE(last_error_has("/tensorrt_libs/libnvinfer.so.11: no such file"));
}

TEST_F(TensorRTLibraryTest, OnlyVersionsWithTheTablesOfThisBuildsHeadersAreCalled) {
  const bool built_with_11 = NV_TENSORRT_MAJOR == 11;
  EXPECT_EQ(can_call(Flavour::kTensorRT, {11, 0, 0, 0}), built_with_11);
  EXPECT_EQ(can_call(Flavour::kTensorRT, {11, 4, 1, 0}), built_with_11);
  EXPECT_EQ(can_call(Flavour::kTensorRT, {10, 1, 0, 0}), !built_with_11);
  EXPECT_EQ(can_call(Flavour::kTensorRTRTX, {1, 6, 1, 120}), built_with_11);
  EXPECT_FALSE(can_call(Flavour::kTensorRTRTX, {1, 4, 0, 0}));
  EXPECT_FALSE(can_call(Flavour::kTensorRTRTX, {2, 0, 0, 0}));
  EXPECT_FALSE(can_call(Flavour::kTensorRT, {10, 0, 1, 0}));
  EXPECT_FALSE(can_call(Flavour::kTensorRT, {12, 0, 0, 0}));
}

TEST(TensorRTLogger, KeepsTheErrorsOfThisThreadForTheMessage) {
  executorch::runtime::runtime_init();
  using Severity = nvinfer1::ILogger::Severity;
  tensorrt_logger().log(Severity::kERROR, "from before");
  forget_tensorrt_errors();
  tensorrt_logger().log(Severity::kWARNING, "only a warning");
  tensorrt_logger().log(Severity::kERROR, "the cause");
  tensorrt_logger().log(Severity::kINTERNAL_ERROR, "what followed");
  std::thread([] { tensorrt_logger().log(Severity::kERROR, "of another thread"); }).join();
  EXPECT_EQ(report_tensorrt(Error::Internal, "no luck"), Error::Internal);
  EXPECT_STREQ(last_error_message(), "no luck. TensorRT says: the cause; what followed");
  const std::string endless(1500, '.');
  for (int i = 0; i < 4; ++i) tensorrt_logger().log(Severity::kERROR, endless.c_str());
  EXPECT_LT(tensorrt_errors().size(), 4000u);
  forget_tensorrt_errors();
  EXPECT_EQ(report_tensorrt(Error::Internal, "no luck"), Error::Internal);
  EXPECT_STREQ(last_error_message(), "no luck");
}

DelegateBlob blob_of(Flavour flavour, TensorRTVersion version) {
  DelegateBlob blob;
  blob.flavour = flavour;
  blob.version = version;
  return blob;
}

TEST(TensorRTEngine, RefusesTheHostAsItsDevice) {
  executorch::runtime::runtime_init();
  const DelegateBlob blob = blob_of(Flavour::kTensorRTRTX, {1, 6, 1, 120});
  EXPECT_EQ(create_tensorrt_engine(blob, *host_device(), {}).error(), Error::InvalidArgument);
  EXPECT_TRUE(last_error_has("a TensorRT engine runs on a GPU, not on cpu"));
}

/// Skipped where TensorRT-RTX is not installed. Needs no GPU.
class RealTensorRTRTX : public TensorRTLibraryTest {
 protected:
  void SetUp() override {
    if (NV_TENSORRT_MAJOR != 11) GTEST_SKIP() << "TensorRT 10's headers can not call TensorRT-RTX";
    auto found = tensorrt_library(Flavour::kTensorRTRTX);
    if (!found.ok()) GTEST_SKIP() << last_error_message();
    library = found.get();
  }

  const TensorRTLibrary* library = nullptr;
  FakeDevice gpu;  // for what is checked before a GPU is used
};

TEST_F(RealTensorRTRTX, IsFoundOnceWithItsPathAndVersion) {
  EXPECT_EQ(tensorrt_library(Flavour::kTensorRTRTX).get(), library);
  EXPECT_EQ(library->flavour, Flavour::kTensorRTRTX);
  EXPECT_EQ(library->version.major, 1u);
  EXPECT_GE(library->version.minor, 5u);
  EXPECT_NE(library->version.build, 0u);
  EXPECT_NE(library->path.find("libtensorrt_rtx.so.1"), std::string::npos) << library->path;
}

TEST_F(RealTensorRTRTX, IsTakenFromTheVariableAndRefusedAsAnotherFlavour) {
  const std::string path = library->path;
  const Variable variable(path.c_str());
  ASSERT_TRUE(tensorrt_library(Flavour::kTensorRTRTX).ok());
  EXPECT_EQ(tensorrt_library(Flavour::kTensorRTRTX).get()->path, path);
  const DelegateBlob blob = blob_of(Flavour::kTensorRT, {11, 1, 0, 106});
  EXPECT_EQ(create_tensorrt_engine(blob, gpu, {}).error(), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("the engine was built with TensorRT, but " + std::string(kVariable) +
                             "=" + path + " is TensorRT-RTX " + to_string(library->version)));
}

TEST_F(RealTensorRTRTX, AnEngineOfAnotherVersionIsRefusedWithBothVersions) {
  TensorRTVersion other = library->version;
  other.minor -= 1;
  const DelegateBlob blob = blob_of(Flavour::kTensorRTRTX, other);
  EXPECT_EQ(create_tensorrt_engine(blob, gpu, {}).error(), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("built with TensorRT-RTX " + to_string(other)));
  EXPECT_TRUE(last_error_has("found is " + library->describe()));
}

TEST_F(RealTensorRTRTX, WithoutADriverTheErrorNamesIt) {
  if (cuda_driver().ok()) GTEST_SKIP() << "this machine has a driver";
  const DelegateBlob blob = blob_of(Flavour::kTensorRTRTX, library->version);
  EXPECT_EQ(create_tensorrt_engine(blob, gpu, {}).error(), Error::NotFound);
  EXPECT_TRUE(last_error_has("libcuda.so.1"));
}

}  // namespace
}  // namespace executorch_tensorrt::test

#endif  // EXECUTORCH_TENSORRT_WITH_TENSORRT
