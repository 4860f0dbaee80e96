// What switching between two profiles costs: through ExecuTorch with CUDA graphs, without, and with
// one switched context, beside the bare graph launch of the same engine, all in one run.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch_tensorrt/backend.h>
#include <executorch_tensorrt/options.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include "floor.h"
#include "statistics.h"

namespace executorch_tensorrt::benchmark {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

struct Arguments {
  std::string program;
  std::string json;
  int rounds = 300;
  int decode_steps = 32;  // for each prefill, in the served pattern
};

[[noreturn]] void usage(const std::string& problem) {
  std::fprintf(stderr,
               "%s\nusage: profile_switching PROGRAM.pte [--rounds N (2 or more)] "
               "[--decode-steps N (1 or more)] [--json FILE]\n",
               problem.c_str());
  std::exit(2);
}

int parse_count(const std::string& option, const std::string& text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    usage(option + " takes a whole number of " + std::to_string(least) + " or more, not '" + text +
          "'");
  }
  return value;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      if (!arguments.program.empty()) usage("one program, not also '" + word + "'");
      arguments.program = word;
      continue;
    }
    if (++i == argc) usage(word + " takes a value");
    if (word == "--rounds") {
      arguments.rounds = parse_count(word, argv[i], 2);  // the first is dropped
    } else if (word == "--decode-steps") {
      arguments.decode_steps = parse_count(word, argv[i], 1);
    } else if (word == "--json") {
      arguments.json = argv[i];
    } else {
      usage("unknown option " + word);
    }
  }
  if (arguments.program.empty()) usage("no program");
  return arguments;
}

/// One profile's inputs and outputs, in host or device memory, in the profile's opt shapes.
class Tensors {
 public:
  Tensors(const DelegateBlob& blob, size_t profile, bool host, Device& device) {
    for (const Binding& binding : blob.bindings) {
      const Dims shape =
          binding.is_input ? blob.profiles[profile].inputs[inputs.size()].opt : Dims();
      const size_t bytes = binding.is_input ? bytes_of(binding, shape) : binding.max_bytes;
      std::vector<uint8_t> values = random(binding.dtype, bytes);
      void* memory = values.data();
      if (host) {
        memory_.push_back(std::move(values));
        memory = memory_.back().data();
      } else {
        const auto allocated = device.allocate(bytes);
        require(allocated.error(), "allocating");
        require(device.copy_async(*allocated, memory, bytes, CopyKind::kHostToDevice, nullptr),
                "copying");
        require(device.synchronize(), "copying");
        memory = *allocated;
      }
      if (binding.is_input) {
        std::vector<SizesType> sizes(shape.size.begin(), shape.size.begin() + shape.rank);
        tensors_.push_back(
            executorch::extension::from_blob(memory, std::move(sizes), binding.dtype));
        inputs.emplace_back(*tensors_.back());
      } else {
        outputs.push_back({memory, bytes});
      }
    }
  }

  std::vector<EValue> inputs;
  std::vector<std::pair<void*, size_t>> outputs;

 private:
  static std::vector<uint8_t> random(ScalarType dtype, size_t bytes) {
    std::vector<uint8_t> values(bytes);
    std::mt19937 generator(1);
    if (dtype == ScalarType::Long) {
      auto* numbers = reinterpret_cast<int64_t*>(values.data());
      for (size_t i = 0; i < bytes / sizeof(int64_t); ++i) numbers[i] = generator() % 32;
    }
    return values;
  }

  std::vector<std::vector<uint8_t>> memory_;
  std::vector<TensorPtr> tensors_;
};

/// Gives a Module's method outputs of the caller's.
class BenchmarkModule : public Module {
 public:
  using Module::Module;
  executorch::runtime::Method& method() { return *methods_.at("forward").method; }
};

/// A way of executing one of the two profiles once.
using Step = std::function<void(size_t profile)>;

/// profile -> pattern -> latencies
using Measured = std::array<std::map<std::string, Latencies>, 2>;

Measured measure(const Arguments& arguments, const Step& step) {
  Measured measured;
  const auto timed = [&](size_t profile, const char* pattern, bool keep) {
    const auto start = std::chrono::steady_clock::now();
    step(profile);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (keep) measured[profile][pattern].add(took.count());
  };
  for (int i = 0; i < 10; ++i) {
    step(0);
    step(1);
  }
  for (size_t profile = 0; profile < 2; ++profile) {
    for (int i = 0; i < arguments.rounds; ++i) timed(profile, "staying", i > 0);
  }
  for (int i = 0; i < arguments.rounds; ++i) {
    timed(0, "alternating", i > 0);
    timed(1, "alternating", i > 0);
  }
  const int blocks = std::max(2, arguments.rounds / arguments.decode_steps);
  for (int block = 0; block < blocks; ++block) {
    timed(1, "served", block > 0);
    for (int i = 0; i < arguments.decode_steps; ++i) timed(0, "served", block > 0);
  }
  return measured;
}

Measured measure_module(const Arguments& arguments, const DelegateBlob& blob, const char* mode,
                        bool host, Device& device) {
  executorch::runtime::BackendOptions<3> options;
  options.set_option(option::kDevice, "cuda");
  options.set_option(option::kCudaGraphs, std::strcmp(mode, "graphs") == 0);
  options.set_option(option::kProfileContexts,
                     std::strcmp(mode, "single") == 0 ? "single" : "per_profile");
  executorch::runtime::LoadBackendOptionsMap map;
  require(map.set_options(kBackendId, options.view()), "setting options");
  BenchmarkModule module(arguments.program, Module::LoadMode::Mmap);
  require(module.load_method("forward", nullptr, nullptr, &map), "loading the program");
  Tensors profiles[] = {{blob, 0, host, device}, {blob, 1, host, device}};
  return measure(arguments, [&](size_t profile) {
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
  });
}

Measured measure_floor(const Arguments& arguments, const DelegateBlob& blob, Engine& engine,
                       bool host, Device& device) {
  size_t bytes = 0;
  for (uint32_t p = 0; p < 2; ++p) {
    bytes = std::max(bytes, engine.activation_bytes(blob.profiles[p].engine_profile));
  }
  const auto activations = device.allocate(std::max<size_t>(bytes, 1));
  require(activations.error(), "allocating activations");
  Floor decode(blob, 0, host, engine, device, *activations);
  Floor prefill(blob, 1, host, engine, device, *activations);
  const Measured measured =
      measure(arguments, [&](size_t profile) { (profile == 0 ? decode : prefill).run(); });
  return measured;
}

struct Row {
  std::string io, mode, pattern, profile;
  double median, p99, over_floor;
  size_t count;
};

void print(const std::vector<Row>& rows) {
  std::printf("%-7s %-8s %-12s %-10s %12s %10s %8s %7s\n", "io", "mode", "pattern", "profile",
              "median us", "p99 us", "floor x", "calls");
  for (const Row& row : rows) {
    std::printf("%-7s %-8s %-12s %-10s %12.1f %10.1f %8.3f %7zu\n", row.io.c_str(),
                row.mode.c_str(), row.pattern.c_str(), row.profile.c_str(), row.median, row.p99,
                row.over_floor, row.count);
  }
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream file(path);
  file << "[\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    file << "  {\"io\": \"" << row.io << "\", \"mode\": \"" << row.mode << "\", \"pattern\": \""
         << row.pattern << "\", \"profile\": \"" << row.profile
         << "\", \"median_us\": " << row.median << ", \"p99_us\": " << row.p99
         << ", \"over_floor\": " << row.over_floor << ", \"calls\": " << row.count << "}"
         << (i + 1 < rows.size() ? "," : "") << "\n";
  }
  file << "]\n";
  if (!file.flush()) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    std::exit(1);
  }
}

int run(const Arguments& arguments) {
  require(registration_status(), "registering the backend");
  std::ifstream file(arguments.program, std::ios::binary);
  if (!file) usage("cannot read " + arguments.program);
  const std::vector<uint8_t> program((std::istreambuf_iterator<char>(file)), {});
  const Section bytes = find_blob(program);
  const auto blob = DelegateBlob::parse(bytes.data, bytes.size);
  require(blob.error(), "reading the delegate blob");
  if (blob->profiles.size() < 2) usage("the program has one profile; two are compared");
  const auto device = cuda_device(0);
  require(device.error(), "finding the GPU");
  const auto engine = create_tensorrt_engine(*blob, **device, false);
  require(engine.error(), "loading the engine");

  std::vector<Row> rows;
  for (const bool host : {false, true}) {
    const Measured floor = measure_floor(arguments, *blob, **engine, host, **device);
    for (const char* mode : {"floor", "graphs", "enqueue", "single"}) {
      const Measured measured = std::strcmp(mode, "floor") == 0
                                    ? floor
                                    : measure_module(arguments, *blob, mode, host, **device);
      for (const char* pattern : {"staying", "alternating", "served"}) {
        for (size_t profile = 0; profile < 2; ++profile) {
          const Latencies& latencies = measured[profile].at(pattern);
          rows.push_back({host ? "host" : "device", mode, pattern, blob->profiles[profile].name,
                          latencies.median(), latencies.p99(),
                          ratio(latencies.median(), floor[profile].at(pattern).median()),
                          latencies.count()});
        }
      }
    }
  }
  print(rows);
  if (!arguments.json.empty()) write_json(arguments.json, rows);
  return 0;
}

}  // namespace
}  // namespace executorch_tensorrt::benchmark

int main(int argc, char** argv) {
  return executorch_tensorrt::benchmark::run(executorch_tensorrt::benchmark::parse(argc, argv));
}
