// What a second GPU gives: the same program loaded on both and executed from a thread each, beside
// one of them alone and beside two threads on one GPU, all in one run.
#include <executorch_tensorrt/backend.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "arguments.h"
#include "floor.h"
#include "loaded_program.h"
#include "statistics.h"

namespace executorch_tensorrt::benchmark {
namespace {

constexpr char kUsage[] =
    "two_gpus PROGRAM.pte [--rounds N (1 or more)] [--milliseconds N, of each measurement (10 or "
    "more)] [--json FILE]";

struct Arguments {
  std::string program;
  std::string json;
  int rounds = 10;
  int milliseconds = 300;
};

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
      arguments.rounds = parse_count(word, argv[i], 1, kUsage);
    } else if (word == "--milliseconds") {
      arguments.milliseconds = parse_count(word, argv[i], 10, kUsage);
    } else if (word == "--json") {
      arguments.json = argv[i];
    } else {
      refuse("unknown option " + word, kUsage);
    }
  }
  if (arguments.program.empty()) refuse("no program", kUsage);
  return arguments;
}

/// Executes each program from a thread of its own, all for the same time; executions a second of
/// all together.
double throughput(const std::vector<Loaded*>& programs, size_t profile, int milliseconds) {
  std::atomic<size_t> ready{0};
  std::vector<double> rates(programs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < programs.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int warm = 0; warm < 5; ++warm) programs[i]->execute(profile);
      ++ready;
      while (ready < programs.size()) std::this_thread::yield();
      const auto start = std::chrono::steady_clock::now();
      std::chrono::duration<double> took{};
      size_t executions = 0;
      while (took < std::chrono::milliseconds(milliseconds)) {
        programs[i]->execute(profile);
        ++executions;
        took = std::chrono::steady_clock::now() - start;
      }
      rates[i] = static_cast<double>(executions) / took.count();
    });
  }
  double total = 0;
  for (size_t i = 0; i < programs.size(); ++i) {
    threads[i].join();
    total += rates[i];
  }
  return total;
}

/// Programs that are executed at once, and how they did, a value a round.
struct Mode {
  std::string name;
  std::vector<Loaded*> programs;
  Samples per_second{}, over_one{};

  bool alone() const { return programs.size() == 1; }
};

struct Row {
  std::string io, profile, mode;
  double per_second, over_one;
};

/// The modes take turns, so that the state of the machine is the same for all. What they come to is
/// compared with the mean of the round's GPUs alone.
void measure(const Arguments& arguments, size_t profile, std::vector<Mode>& modes) {
  for (int round = 0; round < arguments.rounds; ++round) {
    Samples alone;
    std::vector<double> rates;
    for (Mode& mode : modes) {
      rates.push_back(throughput(mode.programs, profile, arguments.milliseconds));
      mode.per_second.add(rates.back());
      if (mode.alone()) alone.add(rates.back());
    }
    for (size_t m = 0; m < modes.size(); ++m) {
      modes[m].over_one.add(ratio(rates[m], alone.mean()));
    }
  }
}

void print(const std::vector<Row>& rows) {
  std::printf("%-8s %-12s %-24s %14s %12s\n", "io", "profile", "mode", "executions/s",
              "one alone x");
  for (const Row& row : rows) {
    std::printf("%-8s %-12s %-24s %14.1f %12.3f\n", row.io.c_str(), row.profile.c_str(),
                row.mode.c_str(), row.per_second, row.over_one);
  }
}

std::string as_json(const Row& row) {
  std::ostringstream json;
  json << "{\"io\": \"" << row.io << "\", \"profile\": \"" << row.profile << "\", \"mode\": \""
       << row.mode << "\", \"executions_per_second\": " << row.per_second
       << ", \"over_one_alone\": " << row.over_one << "}";
  return json.str();
}

int run(const Arguments& arguments) {
  require(registration_status(), "registering the backend");
  const ProgramFile program = read_program(arguments.program, kUsage);
  const DelegateBlob& blob = program.blob;
  std::vector<std::shared_ptr<Device>> gpus;
  for (int i = 0; i < 2; ++i) {
    const auto gpu = cuda_device(i);
    require(gpu.error(), "finding two GPUs");
    gpus.push_back(*gpu);
  }

  std::vector<Row> rows;
  for (const Memory memory : {Memory::kDevice, Memory::kPageLocked}) {
    const auto load = [&](int gpu) {
      return std::make_unique<Loaded>(arguments.program, blob, "graphs", memory, *gpus[gpu]);
    };
    const auto first = load(0), second = load(1), beside_first = load(0);
    for (size_t profile = 0; profile < first->profiles.size(); ++profile) {
      std::vector<Mode> modes = {{"cuda:0 alone", {first.get()}},
                                 {"cuda:1 alone", {second.get()}},
                                 {"both at once", {first.get(), second.get()}},
                                 {"two threads on cuda:0", {first.get(), beside_first.get()}}};
      measure(arguments, profile, modes);
      for (const Mode& mode : modes) {
        rows.push_back({kMemoryNames[static_cast<int>(memory)], blob.profiles[profile].name,
                        mode.name, mode.per_second.median(), mode.over_one.median()});
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
