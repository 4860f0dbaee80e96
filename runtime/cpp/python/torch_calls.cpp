#include "torch_calls.h"

#include <executorch_tensorrt/stream_guard.h>

#include <string>
#include <utility>

#include "tensors.h"

namespace executorch_tensorrt::python {

namespace nb = nanobind;
using namespace nanobind::literals;

using executorch::aten::SizesType;
using executorch::runtime::EValue;

namespace {

/// More shapes than a method is expected to see; where it does see more, all are forgotten.
constexpr size_t kMaxKnown = 4096;

int gpu_of(const LoadedMethod& method) {
  const std::string& device = method.delegates().front()->device();
  return std::stoi(device.substr(device.find(':') + 1));
}

/// What torch.cuda.current_stream() asks, without an object made of the answer; None where PyTorch
/// does not have it.
nb::object raw_stream_function(const nb::object& torch) {
  return nb::getattr(torch.attr("_C"), "_cuda_getCurrentRawStream", nb::none());
}

std::vector<int64_t> key_of(const std::vector<EValue>& inputs) {
  std::vector<int64_t> key;
  for (const EValue& input : inputs) {
    const auto sizes = input.toTensor().sizes();
    key.push_back(static_cast<int64_t>(sizes.size()));
    key.insert(key.end(), sizes.begin(), sizes.end());
  }
  return key;
}

}  // namespace

TorchCalls::TorchCalls(std::shared_ptr<LoadedMethod> method, nb::object torch)
    : method_(std::move(method)),
      gpu_(gpu_of(*method_)),
      torch_(std::move(torch)),
      tensor_type_(torch_.attr("Tensor")),
      to_dlpack_(torch_.attr("utils").attr("dlpack").attr("to_dlpack")),
      empty_like_(torch_.attr("empty_like")),
      current_stream_(raw_stream_function(torch_)),
      contiguous_(torch_.attr("contiguous_format")) {}

std::optional<nb::list> TorchCalls::capsules(const nb::tuple& inputs) const {
  nb::list capsules;
  for (const nb::handle value : inputs) {
    if (!value.type().is(tensor_type_) || nb::cast<int>(value.attr("get_device")()) != gpu_ ||
        nb::cast<bool>(value.attr("requires_grad")) ||
        !nb::cast<bool>(value.attr("is_contiguous")())) {
      return std::nullopt;
    }
    // On whatever stream the tensor is, the call is on the same; __dlpack__ would ask much more.
    capsules.append(to_dlpack_(value));
  }
  return capsules;
}

nb::object TorchCalls::call(const nb::tuple& inputs, const std::optional<Profile>& profile) {
  if (current_stream_.is_none() || known_.empty() || StreamGuard::current()) return nb::none();
  const auto capsules = this->capsules(inputs);
  if (!capsules) return nb::none();
  const CallInputs call(*capsules, *method_);
  const auto found = known_.find(key_of(call.values()));
  if (found == known_.end()) return nb::none();
  const auto known = found->second;  // held, as another thread may make all forgotten

  nb::list outputs;
  std::vector<GivenMemory> memory;
  for (const KnownOutput& output : *known) {
    nb::object tensor = empty_like_(output.like, "memory_format"_a = contiguous_);
    memory.push_back({reinterpret_cast<void*>(nb::cast<uintptr_t>(tensor.attr("data_ptr")())),
                      output.bytes, output.sizes});
    outputs.append(std::move(tensor));
  }
  const auto stream = nb::cast<uintptr_t>(current_stream_(gpu_));
  execute_unlocked(*method_, call.values(), memory, {profile, stream});
  return nb::tuple(outputs);
}

void TorchCalls::remember(const nb::tuple& inputs, const nb::list& outputs) {
  const auto capsules = this->capsules(inputs);
  if (!capsules) return;
  auto known = std::make_shared<std::vector<KnownOutput>>();
  for (const nb::handle output : outputs) {
    const nb::object dtype = torch_.attr(nb::str(output[0])), shape = output[1];
    const nb::object element = torch_.attr("zeros")(
        nb::tuple(), "dtype"_a = dtype, "device"_a = torch_.attr("device")("cuda", gpu_));
    KnownOutput one{element.attr("expand")(shape), 0, {}};
    for (const nb::handle size : shape) one.sizes.push_back(nb::cast<SizesType>(size));
    one.bytes = nb::cast<size_t>(one.like.attr("nbytes"));
    known->push_back(std::move(one));
  }
  if (known_.size() >= kMaxKnown) known_.clear();
  known_[key_of(CallInputs(*capsules, *method_).values())] = std::move(known);
}

}  // namespace executorch_tensorrt::python
