#include "loaded_program.h"

#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch_tensorrt/options.h>

#include <algorithm>

namespace executorch_tensorrt::benchmark {

namespace {

using executorch::aten::SizesType;
using executorch::extension::Module;

}  // namespace

Tensors::Tensors(const DelegateBlob& blob, size_t profile, Memory kind, Device& device) {
  for (const Binding& binding : blob.bindings) {
    const Dims shape = binding.is_input ? blob.profiles[profile].inputs[inputs.size()].opt : Dims();
    const size_t bytes = binding.is_input ? bytes_of(binding, shape) : binding.max_bytes;
    std::vector<uint8_t> values = values_for(binding.dtype, bytes);
    void* memory = nullptr;
    if (kind == Memory::kPageable) {
      memory_.push_back(std::move(values));
      memory = memory_.back().data();
    } else {
      const auto allocated =
          kind == Memory::kDevice ? device.allocate(bytes) : device.allocate_host(bytes);
      require(allocated.error(), "allocating");
      memory = *allocated;
      require(device.copy_async(memory, values.data(), bytes, CopyKind::kHostToDevice, nullptr),
              "copying");
      require(device.synchronize(), "copying");
    }
    if (binding.is_input) {
      std::vector<SizesType> sizes(shape.size.begin(), shape.size.begin() + shape.rank);
      tensors_.push_back(executorch::extension::from_blob(memory, std::move(sizes), binding.dtype));
      inputs.emplace_back(*tensors_.back());
    } else {
      outputs.push_back({memory, bytes});
    }
  }
}

Loaded::Loaded(const std::string& program, const DelegateBlob& blob, const std::string& mode,
               Memory memory, Device& device)
    : module(program, Module::LoadMode::Mmap) {
  const size_t count = std::min<size_t>(2, blob.profiles.size());
  for (size_t p = 0; p < count; ++p) profiles.emplace_back(blob, p, memory, device);
  executorch::runtime::BackendOptions<3> options;
  require(options.set_option(option::kDevice, device.name().c_str()), "setting options");
  require(options.set_option(option::kCudaGraphs, mode == "graphs"), "setting options");
  require(options.set_option(option::kProfileContexts, mode == "single" ? "single" : "per_profile"),
          "setting options");
  executorch::runtime::LoadBackendOptionsMap map;
  require(map.set_options(kBackendId, options.view()), "setting options");
  require(module.load_method("forward", nullptr, nullptr, &map), "loading the program");
}

void Loaded::execute(size_t profile) {
  Tensors& tensors = profiles[profile];
  executorch::runtime::Method& method = module.method();
  for (size_t i = 0; i < tensors.inputs.size(); ++i) {
    require(method.set_input(tensors.inputs[i], i), "setting an input");
  }
  for (size_t i = 0; i < tensors.outputs.size(); ++i) {
    const auto [memory, bytes] = tensors.outputs[i];
    require(method.set_output_data_ptr(memory, bytes, i), "setting an output");
  }
  require(method.execute(), "executing");
}

}  // namespace executorch_tensorrt::benchmark
