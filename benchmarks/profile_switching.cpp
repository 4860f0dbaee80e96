// What switching between two profiles costs: through ExecuTorch with CUDA graphs, without, and with
// one switched context, beside the bare graph launch of the same engine, all in one run.
#include <executorch_tensorrt/backend.h>
#include <executorch_tensorrt/stream_guard.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "floor.h"
#include "loaded_program.h"
#include "statistics.h"

namespace executorch_tensorrt::benchmark {
namespace {

struct Arguments {
  std::string program;
  std::string json;
  int rounds = 300;
  int decode_steps = 32;  // for each prefill, in the served pattern
};

constexpr char kUsage[] =
    "profile_switching PROGRAM.pte [--rounds N (2 or more)] [--decode-steps N (1 or more)] "
    "[--json FILE]";

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      if (!arguments.program.empty()) refuse("one program, not also '" + word + "'", kUsage);
      arguments.program = word;
      continue;
    }
    if (++i == argc) refuse(word + " takes a value", kUsage);
    if (word == "--rounds") {
      arguments.rounds = parse_count(word, argv[i], 2, kUsage);  // the first is dropped
    } else if (word == "--decode-steps") {
      arguments.decode_steps = parse_count(word, argv[i], 1, kUsage);
    } else if (word == "--json") {
      arguments.json = argv[i];
    } else {
      refuse("unknown option " + word, kUsage);
    }
  }
  if (arguments.program.empty()) refuse("no program", kUsage);
  return arguments;
}

/// A way of executing the two profiles, and what it took.
struct Mode {
  std::string name;
  std::function<void(size_t profile)> execute;
  std::map<std::pair<std::string, size_t>, Samples> latencies;  // by pattern and profile

  void timed(const char* pattern, size_t profile, bool keep) {
    const auto start = std::chrono::steady_clock::now();
    execute(profile);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (keep) latencies[{pattern, profile}].add(took.count());
  }
};

/// Takes the modes in turns, a block of calls each, so that the state of the machine is the same
/// for all. The first call of a block of one profile is dropped: it finds the caches of another
/// mode.
void measure(const Arguments& arguments, std::vector<Mode>& modes) {
  constexpr int kBlock = 20;
  for (Mode& mode : modes) {
    for (int i = 0; i < 10; ++i) {
      mode.execute(0);
      mode.execute(1);
    }
  }
  for (int done = 0; done < arguments.rounds; done += kBlock) {
    const int block = std::min(kBlock, arguments.rounds - done) + 1;
    for (Mode& mode : modes) {
      for (size_t profile = 0; profile < 2; ++profile) {
        for (int i = 0; i < block; ++i) mode.timed("staying", profile, i > 0);
      }
      for (int i = 0; i < block; ++i) {
        mode.timed("alternating", 0, i > 0);
        mode.timed("alternating", 1, i > 0);
      }
    }
  }
  for (int done = 0; done < arguments.rounds; done += arguments.decode_steps) {
    for (Mode& mode : modes) {
      mode.execute(0);
      mode.timed("served", 1, true);
      for (int i = 0; i < arguments.decode_steps; ++i) mode.timed("served", 0, true);
    }
  }
}

/// The bare engine's two profiles, on one stream as steps of one model are.
struct Bare {
  Bare(const DelegateBlob& blob, Engine& engine, Memory memory, Device& device)
      : activations(allocate(blob, engine, device)),
        stream(create_stream(device)),
        decode(blob, 0, memory, engine, device, stream, activations),
        prefill(blob, 1, memory, engine, device, stream, activations) {}

  static Stream create_stream(Device& device) {
    const auto stream = device.create_stream();
    require(stream.error(), "creating a stream");
    return *stream;
  }

  static void* allocate(const DelegateBlob& blob, Engine& engine, Device& device) {
    size_t bytes = 1;
    for (size_t p = 0; p < 2; ++p) {
      bytes = std::max(bytes, engine.activation_bytes(blob.profiles[p].engine_profile));
    }
    const auto memory = device.allocate(bytes);
    require(memory.error(), "allocating activations");
    return *memory;
  }

  void* activations;
  Stream stream;
  Floor decode, prefill;
};

/// How long the host takes to put an execution on a stream: a bare graph launch, and the delegate
/// on a stream of the caller's, which it does not wait for.
std::array<Samples, 2> measure_submission(const Arguments& arguments, Bare& bare, Loaded& graphs,
                                          Device& device) {
  std::array<Samples, 2> latencies;
  const auto stream = device.create_stream();
  require(stream.error(), "creating a stream");
  const StreamGuard guard(*stream);
  const auto timed = [](Samples& kept, const std::function<void()>& submit) {
    const auto start = std::chrono::steady_clock::now();
    submit();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    kept.add(took.count());
  };
  for (int i = 0; i < arguments.rounds; ++i) {
    timed(latencies[0], [&] { bare.decode.launch(); });
    bare.decode.wait();
    timed(latencies[1], [&] { graphs.execute(0); });
    require(device.synchronize_stream(*stream), "waiting");
  }
  return latencies;
}

struct Row {
  std::string io, mode, pattern, profile;
  double median, p99, over_floor;
  size_t count;
};

void print(const std::vector<Row>& rows) {
  std::printf("%-8s %-8s %-12s %-10s %12s %10s %8s %7s\n", "io", "mode", "pattern", "profile",
              "median us", "p99 us", "floor x", "calls");
  for (const Row& row : rows) {
    std::printf("%-8s %-8s %-12s %-10s %12.1f %10.1f %8.3f %7zu\n", row.io.c_str(),
                row.mode.c_str(), row.pattern.c_str(), row.profile.c_str(), row.median, row.p99,
                row.over_floor, row.count);
  }
}

std::string as_json(const Row& row) {
  std::ostringstream json;
  json << "{\"io\": \"" << row.io << "\", \"mode\": \"" << row.mode << "\", \"pattern\": \""
       << row.pattern << "\", \"profile\": \"" << row.profile << "\", \"median_us\": " << row.median
       << ", \"p99_us\": " << row.p99 << ", \"over_floor\": " << row.over_floor
       << ", \"calls\": " << row.count << "}";
  return json.str();
}

int run(const Arguments& arguments) {
  require(registration_status(), "registering the backend");
  const ProgramFile program = read_program(arguments.program, kUsage);
  const DelegateBlob& blob = program.blob;
  if (blob.profiles.size() < 2) refuse("the program has one profile; two are compared", kUsage);
  const auto device = cuda_device(0);
  require(device.error(), "finding the GPU");
  const auto engine = create_tensorrt_engine(blob, **device, {});
  require(engine.error(), "loading the engine");

  std::vector<Row> rows;
  for (const Memory memory : {Memory::kDevice, Memory::kPageLocked, Memory::kPageable}) {
    Bare bare(blob, **engine, memory, **device);
    Loaded graphs(arguments.program, blob, "graphs", memory, **device);
    Loaded enqueue(arguments.program, blob, "enqueue", memory, **device);
    Loaded single(arguments.program, blob, "single", memory, **device);
    std::vector<Mode> modes = {
        {"floor", [&](size_t p) { (p == 0 ? bare.decode : bare.prefill).run(); }, {}},
        {"graphs", [&](size_t p) { graphs.execute(p); }, {}},
        {"enqueue", [&](size_t p) { enqueue.execute(p); }, {}},
        {"single", [&](size_t p) { single.execute(p); }, {}}};
    measure(arguments, modes);
    if (memory == Memory::kDevice) {
      const auto submission = measure_submission(arguments, bare, graphs, **device);
      for (size_t i = 0; i < 2; ++i) {
        rows.push_back({"device", modes[i].name, "submission", blob.profiles[0].name,
                        submission[i].median(), submission[i].p99(),
                        ratio(submission[i].median(), submission[0].median()),
                        submission[i].count()});
      }
    }
    for (const char* pattern : {"staying", "alternating", "served"}) {
      for (size_t profile = 0; profile < 2; ++profile) {
        for (const Mode& mode : modes) {
          const Samples& latencies = mode.latencies.at({pattern, profile});
          const double floor = modes[0].latencies.at({pattern, profile}).median();
          rows.push_back({kMemoryNames[static_cast<int>(memory)], mode.name, pattern,
                          blob.profiles[profile].name, latencies.median(), latencies.p99(),
                          ratio(latencies.median(), floor), latencies.count()});
        }
      }
    }
  }
  print(rows);
  if (!arguments.json.empty()) {
    std::vector<std::string> objects;
    for (const Row& row : rows) objects.push_back(as_json(row));
    write_json(arguments.json, objects);
  }
  return 0;
}

}  // namespace
}  // namespace executorch_tensorrt::benchmark

int main(int argc, char** argv) {
  return executorch_tensorrt::benchmark::run(executorch_tensorrt::benchmark::parse(argc, argv));
}
