// Loads a .pte, prints its profiles, and runs each: chosen by shape, and pinned.
//
//   multi_profile_main <model.pte> [<folder>]
//
// With a folder, which must exist, the bytes of the inputs and of the pinned outputs are written to
// <folder>/<profile>.input.<i> and .output.<i>.
#include <executorch_tensorrt/optimization_profile_guard.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "model.h"

namespace {

using multi_profile::Model;
using multi_profile::ProfileInfo;
using multi_profile::shape_text;

void print_profiles(const Model& model) {
  for (const auto& delegate : model.delegates()) {
    std::printf("%s on %s\n", delegate->engine().c_str(), delegate->device().c_str());
    for (size_t i = 0; i < delegate->profiles().size(); ++i) {
      const ProfileInfo& profile = delegate->profiles()[i];
      std::printf("  %zu '%s'", i, profile.name.c_str());
      for (const auto& range : profile.inputs) {
        std::printf("  %s %s to %s, best at %s", range.input.c_str(), shape_text(range.min).c_str(),
                    shape_text(range.max).c_str(), shape_text(range.opt).c_str());
      }
      std::printf("\n");
    }
  }
}

bool write_bytes(const std::string& path, const executorch::aten::Tensor& tensor) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(tensor.const_data_ptr()),
             static_cast<std::streamsize>(tensor.nbytes()));
  file.close();
  if (!file) std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return static_cast<bool>(file);
}

/// One execution, said in one line.
std::optional<multi_profile::Values> run(Model& model, const multi_profile::Tensors& inputs,
                                         const char* how) {
  auto outputs = model.execute(inputs);
  if (!outputs) return outputs;
  std::printf("%s %s: ran on '%s'", how, shape_text(*inputs.front()).c_str(),
              model.last_profile().c_str());
  for (const auto& output : *outputs) {
    if (output.isTensor()) std::printf(", output %s", shape_text(output.toTensor()).c_str());
  }
  std::printf("\n");
  return outputs;
}

/// Whether both runs went well and the pin was kept.
bool run_profile(Model& model, const ProfileInfo& profile, const std::string& folder) {
  const auto inputs = model.make_inputs(profile);
  if (!inputs || !run(model, *inputs, "by shape")) return false;

  const executorch_tensorrt::OptimizationProfileGuard pin(profile.name);
  const auto outputs = run(model, *inputs, "pinned  ");
  if (!outputs) return false;
  if (model.last_profile() != profile.name) {
    std::fprintf(stderr, "pinned '%s', ran on '%s'\n", profile.name.c_str(),
                 model.last_profile().c_str());
    return false;
  }
  if (folder.empty()) return true;
  const std::string prefix = folder + "/" + profile.name;
  for (size_t i = 0; i < inputs->size(); ++i) {
    if (!write_bytes(prefix + ".input." + std::to_string(i), *(*inputs)[i])) return false;
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    const auto& output = (*outputs)[i];
    if (output.isTensor() &&
        !write_bytes(prefix + ".output." + std::to_string(i), output.toTensor())) {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s <model.pte> [<folder for inputs and outputs>]\n", argv[0]);
    return 2;
  }
  const auto model = Model::load(argv[1]);
  if (model == nullptr) return 1;
  print_profiles(*model);
  bool all_ran = true;
  for (const ProfileInfo& profile : model->profiles()) {
    all_ran = run_profile(*model, profile, argc == 3 ? argv[2] : "") && all_ran;
  }
  return all_ran ? 0 : 1;
}
