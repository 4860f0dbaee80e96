// The CPU fallback: the partition as an ExecuTorch program of its own, run inside the delegate.
#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/core/error.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine.h"
#include "last_error.h"

namespace executorch_tensorrt {

namespace {

using executorch::aten::SizesType;
using executorch::extension::BufferDataLoader;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

constexpr char kMethod[] = "forward";

/// What ExecuTorch asks of a program's first byte, and its kernels of constants.
constexpr size_t kProgramAlignment = 64;

Error program_error(Error error, const char* what) {
  return report(error, std::string("the CPU fallback program ") + what + " (" +
                           executorch::runtime::to_string(error) + ")");
}

/// The program's bytes where they may stand: as they are, or a copy at an aligned address.
class AlignedSection {
 public:
  static Result<std::unique_ptr<AlignedSection>> of(Section section) {
    if (reinterpret_cast<uintptr_t>(section.data) % kProgramAlignment == 0) {
      return std::unique_ptr<AlignedSection>(new AlignedSection(section, nullptr));
    }
    const size_t rounded = (section.size / kProgramAlignment + 1) * kProgramAlignment;
    void* copy = std::aligned_alloc(kProgramAlignment, rounded);
    if (copy == nullptr) {
      return report(
          Error::MemoryAllocationFailed,
          "out of host memory: " + std::to_string(rounded) + " bytes for the CPU fallback program");
    }
    std::memcpy(copy, section.data, section.size);
    return std::unique_ptr<AlignedSection>(
        new AlignedSection({static_cast<const uint8_t*>(copy), section.size}, copy));
  }
  ~AlignedSection() { std::free(copy_); }
  AlignedSection(const AlignedSection&) = delete;
  AlignedSection& operator=(const AlignedSection&) = delete;

  Section get() const { return section_; }

 private:
  AlignedSection(Section section, void* copy) : section_(section), copy_(copy) {}

  Section section_;
  void* copy_;
};

class FallbackContext final : public ExecutionContext {
 public:
  FallbackContext(std::shared_ptr<AlignedSection> section, const DelegateBlob& blob)
      : section_(std::move(section)),
        tensors_(blob.tensors()),
        module_(std::make_unique<BufferDataLoader>(section_->get().data, section_->get().size)) {
    // The program takes the bindings' inputs, then the states; it gives likewise, then the guard.
    for (const Binding& tensor : tensors_) {
      ordinals_.push_back(tensor.is_input ? inputs_.size() : num_outputs_++);
      if (tensor.is_input) inputs_.push_back({nullptr, tensor.dims, tensor.dtype});
    }
  }

  Error load() {
    // A blob's CRC does not cover the program, and ExecuTorch follows the offsets in it as they
    // are.
    const Error found =
        module_.load(executorch::runtime::Program::Verification::InternalConsistency);
    if (found != Error::Ok) return program_error(found, "is damaged");
    if (const Error error = module_.load_method(kMethod); error != Error::Ok) {
      return program_error(error, "does not load");
    }
    const auto meta = module_.method_meta(kMethod);
    if (!meta.ok()) return program_error(meta.error(), "has no method 'forward'");
    if (meta->num_inputs() != inputs_.size() || meta->num_outputs() != num_outputs_) {
      return report(Error::DelegateInvalidCompatibility,
                    "the CPU fallback program takes " + std::to_string(meta->num_inputs()) +
                        " inputs and gives " + std::to_string(meta->num_outputs()) +
                        " outputs; the delegate's tensors are " + std::to_string(inputs_.size()) +
                        " and " + std::to_string(num_outputs_));
    }
    return Error::Ok;
  }

  // The program serves every profile alike, and plans its own memory.
  Error set_optimization_profile(uint32_t, Stream) override { return Error::Ok; }
  Error set_activation_memory(void*, size_t) override { return Error::Ok; }

  Error set_input_shape(size_t binding, const Dims& shape) override {
    inputs_[ordinals_[binding]].shape = shape;
    return Error::Ok;
  }

  Error set_tensor_address(size_t binding, void* address, size_t) override {
    if (tensors_[binding].is_input) inputs_[ordinals_[binding]].address = address;
    return Error::Ok;
  }

  Error enqueue(Stream) override {
    std::vector<EValue> values;
    std::vector<TensorPtr> tensors;
    for (const Input& input : inputs_) {
      const Dims& shape = input.shape;
      std::vector<SizesType> sizes(shape.size.begin(), shape.size.begin() + shape.rank);
      tensors.push_back(
          executorch::extension::from_blob(input.address, std::move(sizes), input.dtype));
      values.emplace_back(*tensors.back());
    }
    auto outputs = module_.execute(kMethod, values);
    if (!outputs.ok()) return program_error(outputs.error(), "failed");
    outputs_ = std::move(outputs.get());
    return Error::Ok;
  }

  Result<Dims> output_shape(size_t binding) override {
    const EValue& value = outputs_[ordinals_[binding]];
    if (!value.isTensor() || value.toTensor().dim() > kMaxRank ||
        value.toTensor().scalar_type() != tensors_[binding].dtype) {
      return report(Error::DelegateInvalidCompatibility,
                    "the CPU fallback program's output " + tensors_[binding].name +
                        " is not the tensor that the blob describes");
    }
    Dims shape;
    for (const auto size : value.toTensor().sizes()) shape.size[shape.rank++] = size;
    return shape;
  }

  Error copy_output(size_t binding, void* address, size_t bytes, Stream) override {
    if (const auto shape = output_shape(binding); !shape.ok()) return shape.error();
    const auto& tensor = outputs_[ordinals_[binding]].toTensor();
    if (tensor.nbytes() != bytes) {
      return report(Error::Internal, "output " + tensors_[binding].name + " has " +
                                         std::to_string(tensor.nbytes()) + " bytes, not " +
                                         std::to_string(bytes));
    }
    std::memcpy(address, tensor.const_data_ptr(), bytes);
    return Error::Ok;
  }

 private:
  struct Input {
    void* address;
    Dims shape;
    executorch::aten::ScalarType dtype;
  };

  std::shared_ptr<AlignedSection> section_;
  const std::vector<Binding> tensors_;  // the blob's, in its order
  std::vector<size_t> ordinals_;        // of each among the program's inputs, or its outputs
  std::vector<Input> inputs_;
  size_t num_outputs_ = 0;
  std::vector<EValue> outputs_;  // of the last enqueue; they alias the module's memory
  Module module_;
};

class FallbackEngine final : public Engine {
 public:
  FallbackEngine(const DelegateBlob& blob, std::shared_ptr<AlignedSection> section)
      : section_(std::move(section)), blob_(blob) {}

  size_t activation_bytes(uint32_t) const override { return 0; }
  bool knows_shapes_before_enqueue() const override { return false; }
  bool can_be_captured() const override { return false; }

  Result<std::unique_ptr<ExecutionContext>> create_execution_context() override {
    auto context = std::make_unique<FallbackContext>(section_, blob_);
    if (const Error error = context->load(); error != Error::Ok) return error;
    return std::unique_ptr<ExecutionContext>(std::move(context));
  }

 private:
  std::shared_ptr<AlignedSection> section_;
  const DelegateBlob blob_;
};

}  // namespace

Result<std::shared_ptr<Engine>> create_fallback_engine(const DelegateBlob& blob) {
  if (blob.fallback.size == 0) {
    return report(Error::NotFound,
                  "this program carries no CPU fallback: export it with "
                  "CompileOptions(cpu_fallback=True), or load it on a GPU");
  }
  auto section = AlignedSection::of(blob.fallback);
  if (!section.ok()) return section.error();
  return std::shared_ptr<Engine>(
      std::make_shared<FallbackEngine>(blob, std::shared_ptr<AlignedSection>(std::move(*section))));
}

}  // namespace executorch_tensorrt
