#include "loaded_program.h"

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/extension/data_loader/mmap_data_loader.h>
#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/runtime.h>
#include <executorch_tensorrt/error.h>
#include <executorch_tensorrt/options.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace executorch_tensorrt::python {

namespace {

using executorch::runtime::BackendOption;
using executorch::runtime::DataLoader;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Span;

template <typename Sizes>
std::string shape_text(const Sizes& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return text + "]";
}

std::string range_text(const InputRange& range) {
  std::string text = range.input + " [";
  for (size_t i = 0; i < range.min.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(range.min[i]);
    if (range.max[i] != range.min[i]) text += ".." + std::to_string(range.max[i]);
  }
  return text + "]";
}

/// "; profiles: decode (ids [1..8, 1]), prefill (ids [1..8, 2..512])", "" without delegates.
std::string profiles_text(const std::vector<std::shared_ptr<const DelegateInfo>>& delegates) {
  if (delegates.empty()) return "";
  std::string text = "; profiles: ";
  for (const ProfileInfo& profile : delegates.front()->profiles()) {
    if (text.back() == ')') text += ", ";
    text += profile.name + " (";
    for (const InputRange& range : profile.inputs) {
      text += (text.back() == '(' ? "" : ", ") + range_text(range);
    }
    text += ")";
  }
  return text;
}

std::unique_ptr<DataLoader> mapped(const std::string& path) {
  using executorch::extension::MmapDataLoader;
  auto loader = MmapDataLoader::from(path.c_str(), MmapDataLoader::MlockConfig::NoMlock);
  check(loader.error(), "reading " + path);
  return std::make_unique<MmapDataLoader>(std::move(loader.get()));
}

}  // namespace

void check(Error error, const std::string& what) {
  if (error == Error::Ok) return;
  const std::string reported = last_error_message();
  throw RuntimeFailure(error, reported.empty() ? what + ": ExecuTorch answered " +
                                                     executorch::runtime::to_string(error)
                                               : reported);
}

LoadedMethod::LoadedMethod(std::shared_ptr<LoadedProgram> program, const std::string& name,
                           std::vector<BackendOption> options, bool traced)
    : program_(std::move(program)),
      name_(name),
      etdump_(traced ? std::make_unique<executorch::etdump::ETDumpGen>() : nullptr),
      module_(module_of(*program_)) {
  executorch::runtime::LoadBackendOptionsMap map;
  check(map.set_options(kBackendId, Span<BackendOption>(options.data(), options.size())),
        "setting the backend's options");
  DelegateCollector collector;
  clear_last_error();
  check(module_.load_method(name, nullptr, etdump_.get(), &map), "loading method '" + name + "'");
  method_ = module_.get(name);
  delegates_ = collector.delegates();
  takes_device_tensors_ = find_takes_device_tensors();
  for (size_t i = 0; i < method_->outputs_size(); ++i) {
    placeable_bytes_.push_back(find_placeable_bytes(i));
  }
}

LoadedMethod::MethodModule LoadedMethod::module_of(const LoadedProgram& program) {
  if (program.data_path_.empty()) return MethodModule(program.program_);
  // A Module reads no data file where it shares its program.
  return MethodModule(program.new_loader_(), nullptr, nullptr, nullptr, mapped(program.data_path_));
}

std::shared_ptr<StateSet> LoadedMethod::state() const {
  for (const auto& delegate : delegates_) {
    if (auto state = delegate->state()) return state;
  }
  return nullptr;
}

bool LoadedMethod::find_takes_device_tensors() const {
  if (delegates_.size() != 1 || !delegates_.front()->whole_method() ||
      delegates_.front()->device() == "cpu") {
    return false;
  }
  const auto meta = this->meta();
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    const auto tensor = meta.input_tensor_meta(i);
    if (tensor.ok() && tensor->is_memory_planned()) return false;
  }
  return true;
}

std::vector<Output> LoadedMethod::execute(const std::vector<EValue>& inputs,
                                          const std::vector<GivenMemory>& given) {
  const std::lock_guard<std::mutex> lock(mutex_);
  clear_last_error();
  if (inputs.size() != method_->inputs_size()) {
    throw RuntimeFailure(Error::InvalidArgument,
                         "method '" + name_ + "' takes " + std::to_string(method_->inputs_size()) +
                             " inputs; it was given " + std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) set_input(i, inputs[i]);
  std::vector<OutputMemory> memory(method_->outputs_size());
  for (size_t i = 0; i < memory.size(); ++i) {
    if (given.empty()) {
      memory[i] = prepare_output(i);
    } else {
      use_given(given.at(i), i);
    }
  }
  check(method_->execute(), "executing method '" + name_ + "'");
  std::vector<Output> outputs;
  for (size_t i = 0; i < memory.size(); ++i) {
    outputs.push_back(take_output(i, given.empty() ? nullptr : &given[i], std::move(memory[i])));
  }
  return outputs;
}

void LoadedMethod::set_input(size_t index, const EValue& value) {
  const Error error = method_->set_input(value, index);
  if (error == Error::Ok) return;
  const std::string what = "input " + std::to_string(index) + " of method '" + name_ + "'";
  const auto meta = this->meta().input_tensor_meta(index);
  if (!meta.ok() || !value.isTensor()) {
    throw RuntimeFailure(error, what + " is not of the kind that the method takes");
  }
  const auto& tensor = value.toTensor();
  throw RuntimeFailure(Error::InvalidArgument,
                       what + " is " + executorch::runtime::toString(tensor.scalar_type()) + " " +
                           shape_text(tensor.sizes()) + "; the program takes " +
                           executorch::runtime::toString(meta->scalar_type()) + " of rank " +
                           std::to_string(meta->sizes().size()) + ", at most " +
                           shape_text(meta->sizes()) + profiles_text(delegates_));
}

std::string LoadedMethod::take_etdump() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (etdump_ == nullptr) {
    throw RuntimeFailure(Error::InvalidState, "method '" + name_ +
                                                  "' was loaded without etdump=True, so nothing "
                                                  "was traced");
  }
  const auto dump = etdump_->get_etdump_data();
  if (dump.buf == nullptr) {
    throw RuntimeFailure(Error::InvalidState,
                         "method '" + name_ + "' was not executed since its ETDump was taken last");
  }
  const std::unique_ptr<void, decltype(&std::free)> owned(dump.buf, &std::free);
  std::string bytes(static_cast<const char*>(dump.buf), dump.size);
  etdump_->reset();
  return bytes;
}

std::optional<size_t> LoadedMethod::find_placeable_bytes(size_t index) const {
  const EValue& value = method_->get_output(index);
  if (!value.isTensor()) return std::nullopt;
  const auto is_same = [&value](const EValue& other) {
    return other.isTensor() &&
           other.toTensor().unsafeGetTensorImpl() == value.toTensor().unsafeGetTensorImpl();
  };
  // One value may be returned twice, and an input as it came.
  std::vector<EValue> inputs(method_->inputs_size());
// To be private to ExecuTorch one day; nothing else tells that an output is an input.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  check(method_->get_inputs(inputs.data(), inputs.size()), "reading the method's inputs");
#pragma GCC diagnostic pop
  if (std::any_of(inputs.begin(), inputs.end(), is_same)) return std::nullopt;
  for (size_t i = 0; i < index; ++i) {
    if (is_same(method_->get_output(i))) return std::nullopt;
  }
  const auto meta = this->meta().output_tensor_meta(index);
  if (!meta.ok() || meta->is_memory_planned()) return std::nullopt;
  return meta->nbytes();
}

OutputMemory LoadedMethod::prepare_output(size_t index) {
  const size_t bytes = placeable_bytes_[index].value_or(0);
  if (bytes == 0) return nullptr;
  OutputMemory memory(new uint8_t[bytes]);
  check(method_->set_output_data_ptr(memory.get(), bytes, index),
        "setting output " + std::to_string(index));
  return memory;
}

void LoadedMethod::use_given(const GivenMemory& given, size_t index) {
  if (given.shape) {
    // ExecuTorch compares the memory with the shape that the output has at the moment.
    const auto tensor = method_->get_output(index).toTensor();
    check(executorch::runtime::resize_tensor(tensor, {given.shape->data(), given.shape->size()}),
          "resizing output " + std::to_string(index));
  }
  check(method_->set_output_data_ptr(given.data, given.bytes, index),
        "setting output " + std::to_string(index));
}

Output LoadedMethod::take_output(size_t index, const GivenMemory* given, OutputMemory memory) {
  const EValue& value = method_->get_output(index);
  if (value.isNone()) return std::monostate{};
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  if (value.isBool()) return value.toBool();
  if (!value.isTensor()) {
    throw RuntimeFailure(Error::NotSupported, "output " + std::to_string(index) +
                                                  " is neither a tensor, a number nor None");
  }
  const auto& tensor = value.toTensor();
  if (given != nullptr && given->shape &&
      !std::equal(tensor.sizes().begin(), tensor.sizes().end(), given->shape->begin(),
                  given->shape->end())) {
    throw RuntimeFailure(Error::Internal, "output " + std::to_string(index) + " is " +
                                              shape_text(tensor.sizes()) + ", where memory for " +
                                              shape_text(*given->shape) + " was given");
  }
  if (memory == nullptr && given == nullptr) {
    // In memory of the program's, of an input's or of an output before it.
    memory.reset(new uint8_t[tensor.nbytes()]);
    if (tensor.nbytes() > 0) std::memcpy(memory.get(), tensor.const_data_ptr(), tensor.nbytes());
  }
  return TensorOutput{
      tensor.scalar_type(), {tensor.sizes().begin(), tensor.sizes().end()}, std::move(memory)};
}

LoadedProgram::LoadedProgram(NewLoader new_loader, const std::string& what,
                             const std::string& data_path)
    : new_loader_(std::move(new_loader)), data_path_(data_path), loader_(new_loader_()) {
  executorch::runtime::runtime_init();
  // Else ExecuTorch follows the offsets in a damaged file as they are.
  auto program = executorch::runtime::Program::load(
      loader_.get(), executorch::runtime::Program::Verification::InternalConsistency);
  check(program.error(), what + " is not an ExecuTorch program");
  program_ = std::make_shared<executorch::runtime::Program>(std::move(program.get()));
  if (data_path_.empty()) return;
  const auto data = mapped(data_path_);
  check(executorch::extension::FlatTensorDataMap::load(data.get()).error(),
        data_path_ + " is not an ExecuTorch data file");
}

std::shared_ptr<LoadedProgram> LoadedProgram::from_file(const std::string& path,
                                                        const std::string& data_path) {
  clear_last_error();
  return std::shared_ptr<LoadedProgram>(
      new LoadedProgram([path] { return mapped(path); }, path, data_path));
}

std::shared_ptr<LoadedProgram> LoadedProgram::from_bytes(const void* data, size_t size,
                                                         const std::string& data_path) {
  clear_last_error();
  const auto new_loader = [data, size] {
    return std::make_unique<executorch::extension::BufferDataLoader>(data, size);
  };
  return std::shared_ptr<LoadedProgram>(
      new LoadedProgram(new_loader, "a buffer of " + std::to_string(size) + " bytes", data_path));
}

std::vector<std::string> LoadedProgram::method_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < program_->num_methods(); ++i) {
    names.emplace_back(program_->get_method_name(i).get());
  }
  return names;
}

std::shared_ptr<LoadedMethod> LoadedProgram::load_method(const std::string& name,
                                                         std::vector<BackendOption> options,
                                                         bool traced) {
  return std::make_shared<LoadedMethod>(shared_from_this(), name, std::move(options), traced);
}

}  // namespace executorch_tensorrt::python
