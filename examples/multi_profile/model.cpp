#include "model.h"

#include <executorch/runtime/platform/runtime.h>
#include <executorch_tensorrt/backend.h>
#include <executorch_tensorrt/error.h>

#include <cstdio>
#include <type_traits>
#include <utility>

namespace multi_profile {

namespace {

using executorch::aten::ScalarType;
using executorch::extension::make_tensor_ptr;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;

constexpr char kMethod[] = "forward";

template <typename T>
TensorPtr filled(ScalarType dtype, std::vector<executorch::aten::SizesType> sizes, size_t count) {
  std::vector<uint8_t> bytes(count * sizeof(T));
  auto* values = reinterpret_cast<T*>(bytes.data());
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      values[i] = static_cast<T>(i % 2);
    } else {
      values[i] = static_cast<T>(static_cast<float>(i * 37 % 101) / 50.0f - 1.0f);
    }
  }
  return make_tensor_ptr(std::move(sizes), std::move(bytes), {}, {}, dtype);
}

void say_error(const char* what, Error error) {
  const std::string reported = executorch_tensorrt::last_error_message();
  std::fprintf(stderr, "%s: %s\n", what,
               reported.empty() ? executorch::runtime::to_string(error) : reported.c_str());
}

}  // namespace

TensorPtr make_tensor(ScalarType dtype, const std::vector<int64_t>& sizes) {
  std::vector<executorch::aten::SizesType> as_int(sizes.begin(), sizes.end());
  size_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<size_t>(size);
  switch (dtype) {
    case ScalarType::Float:
      return filled<float>(dtype, as_int, count);
    case ScalarType::Half:
      return filled<executorch::aten::Half>(dtype, as_int, count);
    case ScalarType::BFloat16:
      return filled<executorch::aten::BFloat16>(dtype, as_int, count);
    case ScalarType::Double:
      return filled<double>(dtype, as_int, count);
    case ScalarType::Char:
      return filled<int8_t>(dtype, as_int, count);
    case ScalarType::Byte:
      return filled<uint8_t>(dtype, as_int, count);
    case ScalarType::Int:
      return filled<int32_t>(dtype, as_int, count);
    case ScalarType::Long:
      return filled<int64_t>(dtype, as_int, count);
    case ScalarType::Bool:
      return filled<bool>(dtype, as_int, count);
    default:
      return nullptr;
  }
}

std::string shape_text(const std::vector<int64_t>& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

std::string shape_text(const executorch::aten::Tensor& tensor) {
  return shape_text({tensor.sizes().begin(), tensor.sizes().end()});
}

Model::Model(const std::string& path) : module_(path, Module::LoadMode::Mmap) {}

std::unique_ptr<Model> Model::load(const std::string& path) {
  executorch::runtime::runtime_init();
  if (const Error error = executorch_tensorrt::registration_status(); error != Error::Ok) {
    say_error("the backend is not registered", error);
    return nullptr;
  }
  std::unique_ptr<Model> model(new Model(path));
  const executorch_tensorrt::DelegateCollector collector;
  executorch_tensorrt::clear_last_error();
  if (const Error error = model->module_.load_method(kMethod); error != Error::Ok) {
    say_error(("cannot load '" + std::string(kMethod) + "' of " + path).c_str(), error);
    return nullptr;
  }
  model->delegates_ = collector.delegates();
  if (model->delegates_.empty()) {
    std::fprintf(stderr, "%s: '%s' has no TensorRT delegate\n", path.c_str(), kMethod);
    return nullptr;
  }
  return model;
}

std::string Model::last_profile() const {
  const auto last = delegates_.front()->statistics().last_profile;
  return last ? profiles()[*last].name : "none";
}

std::optional<Tensors> Model::make_inputs(const ProfileInfo& profile) const {
  // method_meta() loads what is not loaded, so it is not const; here all is.
  const auto meta = const_cast<Module&>(module_).method_meta(kMethod);
  if (!meta.ok() || !delegates_.front()->whole_method() ||
      meta->num_inputs() != profile.inputs.size()) {
    std::fprintf(stderr,
                 "the sizes of the method's inputs are known only where one delegate is the whole "
                 "method; this one has %zu and operators beside them\n",
                 delegates_.size());
    return std::nullopt;
  }
  Tensors inputs;
  for (size_t i = 0; i < profile.inputs.size(); ++i) {
    const auto& range = profile.inputs[i];
    const auto tensor = meta->input_tensor_meta(i);
    inputs.push_back(tensor.ok() ? make_tensor(tensor->scalar_type(), range.opt) : nullptr);
    if (inputs.back() == nullptr) {
      std::fprintf(
          stderr, "input '%s' is %s: this example makes none of that dtype\n", range.input.c_str(),
          tensor.ok() ? executorch::runtime::toString(tensor->scalar_type()) : "not a tensor");
      return std::nullopt;
    }
  }
  return inputs;
}

std::optional<Values> Model::execute(const Tensors& inputs) {
  executorch_tensorrt::clear_last_error();
  auto outputs = module_.execute(kMethod, Values(inputs.begin(), inputs.end()));
  if (!outputs.ok()) {
    say_error("execution failed", outputs.error());
    return std::nullopt;
  }
  return std::move(*outputs);
}

}  // namespace multi_profile
