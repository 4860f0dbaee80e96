// Golden programs (tests/data), through ExecuTorch's own loader on the CPU fallback: each version
// of the blob loads and gives the answers that the file beside it says; a newer major is refused.
#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch_tensorrt/backend.h>
#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/optimization_profile_guard.h>
#include <executorch_tensorrt/options.h>
#include <executorch_tensorrt/state.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "captured_log.h"
#include "crc32.h"
#include "delegate_record.h"
#include "golden_blob.h"
#include "last_error_has.h"

namespace executorch_tensorrt::test {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::extension::BufferDataLoader;
using executorch::extension::Module;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using Bytes = std::vector<uint8_t>;

struct Value {
  ScalarType dtype;
  std::vector<SizesType> sizes;
  Bytes bytes;
};

template <typename Number>
void read_numbers(std::istream& words, Bytes& bytes) {
  for (Number number; words >> number;) {
    const auto* begin = reinterpret_cast<const uint8_t*>(&number);
    bytes.insert(bytes.end(), begin, begin + sizeof(number));
  }
}

Value read_value(std::istream& words) {
  std::string dtype;
  size_t rank = 0;
  words >> dtype >> rank;
  Value value{
      dtype == "float32" ? ScalarType::Float : ScalarType::Long, std::vector<SizesType>(rank), {}};
  for (SizesType& size : value.sizes) words >> size;
  value.dtype == ScalarType::Float ? read_numbers<float>(words, value.bytes)
                                   : read_numbers<int64_t>(words, value.bytes);
  return value;
}

struct Call {
  std::string profile;  // empty: none
  std::vector<Value> inputs, outputs;
};

/// What a `.calls` file says: make_golden_programs.py writes it.
struct Answers {
  std::vector<Call> calls;
  std::map<std::string, Value> states;

  explicit Answers(const std::string& name) {
    const Bytes text = read_test_data(name + ".calls");
    std::istringstream lines({text.begin(), text.end()});
    for (std::string line, kind; std::getline(lines, line);) {
      std::istringstream words(line);
      words >> kind;
      if (kind == "call") {
        words >> calls.emplace_back().profile;
      } else if (kind == "state") {
        std::string state;
        words >> state;
        states[state] = read_value(words);
      } else {
        (kind == "input" ? calls.back().inputs : calls.back().outputs).push_back(read_value(words));
      }
    }
  }
};

/// A program in memory, loaded on the CPU.
class Loaded {
 public:
  explicit Loaded(Bytes program)
      : program_(std::move(program)),
        module_(std::make_unique<BufferDataLoader>(program_.data(), program_.size())) {
    executorch::runtime::BackendOptions<1> options;
    executorch::runtime::LoadBackendOptionsMap map;
    EXPECT_EQ(options.set_option(option::kDevice, "cpu"), Error::Ok);
    EXPECT_EQ(map.set_options(kBackendId, options.view()), Error::Ok);
    const DelegateCollector collector;
    clear_last_error();
    error_ = module_.load_method("forward", nullptr, nullptr, &map);
    delegates_ = collector.delegates();
  }

  Error error() const { return error_; }

  void expect(const Answers& answers) {
    ASSERT_EQ(error_, Error::Ok) << last_error_message();
    for (const Call& call : answers.calls) expect(call);
    ASSERT_EQ(delegates_.size(), 1u);
    const auto state = delegates_.front()->state();
    ASSERT_EQ(state == nullptr, answers.states.empty());
    for (const auto& [name, value] : answers.states) {
      Bytes bytes(value.bytes.size());
      ASSERT_EQ(state->read(name, bytes.data(), bytes.size()), Error::Ok) << last_error_message();
      EXPECT_EQ(bytes, value.bytes) << "of state " << name;
    }
  }

 private:
  void expect(const Call& call) {
    std::vector<executorch::extension::TensorPtr> tensors;
    std::vector<EValue> inputs;
    for (const Value& value : call.inputs) {
      auto* data = const_cast<uint8_t*>(value.bytes.data());
      tensors.push_back(executorch::extension::from_blob(data, value.sizes, value.dtype));
      inputs.emplace_back(*tensors.back());
    }
    std::unique_ptr<OptimizationProfileGuard> pin;
    if (!call.profile.empty()) pin = std::make_unique<OptimizationProfileGuard>(call.profile);
    const auto outputs = module_.forward(inputs);
    ASSERT_TRUE(outputs.ok()) << last_error_message();
    ASSERT_EQ(outputs->size(), call.outputs.size());
    for (size_t i = 0; i < outputs->size(); ++i) {
      const auto& tensor = outputs->at(i).toTensor();
      const Value& right = call.outputs[i];
      ASSERT_EQ(tensor.scalar_type(), right.dtype);
      EXPECT_EQ(std::vector<SizesType>(tensor.sizes().begin(), tensor.sizes().end()), right.sizes);
      ASSERT_EQ(tensor.nbytes(), right.bytes.size());
      const auto* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
      EXPECT_EQ(Bytes(data, data + tensor.nbytes()), right.bytes);
    }
  }

  const Bytes program_;
  Module module_;
  Error error_;
  std::vector<std::shared_ptr<const DelegateInfo>> delegates_;
};

void put(Bytes& bytes, size_t at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

/// `cache_1_1` with its blob under another version, and a field behind those that are known.
Bytes in_version(uint16_t major, uint16_t minor, const std::string& appended) {
  Bytes program = read_test_data("cache_1_1.pte");
  const std::string magic = "ETRT";
  const size_t blob =
      std::search(program.begin(), program.end(), magic.begin(), magic.end()) - program.begin();
  const size_t metadata = blob + 64;
  size_t size = program[blob + 24] | program[blob + 25] << 8;
  const size_t engine = program[blob + 32] | program[blob + 33] << 8;
  EXPECT_LE(64 + size + appended.size(), engine) << "the padding has no room for it";
  std::copy(appended.begin(), appended.end(), program.begin() + metadata + size);
  size += appended.size();
  for (const size_t at : {blob + 4, metadata}) {
    put(program, at, major, 2);
    put(program, at + 2, minor, 2);
  }
  put(program, blob + 12, crc32(&program[metadata], size), 4);
  put(program, blob + 24, size, 8);
  return program;
}

class GoldenProgram : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenProgram, GivesTheRightAnswersAndStates) {
  const std::string name = GetParam();
  const Answers answers(name);
  ASSERT_FALSE(answers.calls.empty());
  Loaded(read_test_data(name + ".pte")).expect(answers);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenProgram, ::testing::Values("features_1_0", "cache_1_1"),
                         [](const auto& info) { return std::string(info.param); });

TEST(GoldenProgramTest, OfANewerMinorVersionExecutesWithoutTheFieldsThatAreNotKnown) {
  Loaded(in_version(1, 999, "fields of a later version")).expect(Answers("cache_1_1"));
}

TEST(GoldenProgramTest, OfANewerMajorVersionIsRefusedByItsNumber) {
  const CapturedLog log;
  EXPECT_EQ(Loaded(in_version(2, 7, "")).error(), Error::DelegateInvalidCompatibility);
  EXPECT_TRUE(last_error_has("blob version 2.7; this build reads 1.x: upgrade"));
}

}  // namespace
}  // namespace executorch_tensorrt::test
