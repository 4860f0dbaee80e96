// Mixed traffic on one program for minutes: threads with tensors on the device, page-locked and
// pageable, pinned and by shape, on streams of their own, one that loads and unloads; and, told so,
// faults at the seam to CUDA. Every answer is checked. Ends with 0 if none was wrong, no call
// failed but for an injected fault, and memory stayed flat.
#include <executorch/runtime/platform/runtime.h>
#include <executorch_tensorrt/backend.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "arguments.h"
#include "device_memory.h"
#include "faulty_device.h"
#include "floor.h"
#include "soak_traffic.h"
#include "statistics.h"

namespace executorch_tensorrt::benchmark {
namespace {

using std::chrono::steady_clock;
using Place = TrafficKind::Place;

constexpr TrafficKind kTraffic[] = {
    {"device tensors, own stream", Place::kDevice, false, true, 0},
    {"device tensors, pinned", Place::kDevice, true, false, 0},
    {"page-locked tensors", Place::kPageLocked, false, false, 0},
    {"pageable tensors, pinned, own stream", Place::kPageable, true, true, 0},
    {"loads and unloads", Place::kDevice, false, false, 50},
};
constexpr size_t kKinds = std::size(kTraffic);
constexpr int kWindows = 10;
// What may come and go with the driver's own pools.
constexpr double kSlackMiB = 64;
// What TensorRT-RTX 1.6 keeps for good of an execution context that goes (docs/reliability.md): a
// load makes one a profile, and after 4096 changes of shapes another takes its place.
constexpr double kHostMiBPerLoad = 8, kHostMiBPerCall = 2.0 / 4096, kDeviceMiBPerLoad = 1;

struct Arguments {
  std::string program, device = "cuda", json;
  double minutes = 5;
  int fault_every_ms = 0;  // 0: none
};

constexpr char kUsage[] =
    "soak PROGRAM.pte [--minutes N] [--fault-every-ms N] [--device cuda|cpu] [--json FILE]";

[[noreturn]] void usage(const std::string& problem) { refuse(problem, kUsage); }

double parse_number(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0) || value > 1e6) {
    usage(option + " takes a number above 0, not '" + text + "'");
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
    const std::string value = argv[i];
    if (word == "--minutes") {
      arguments.minutes = parse_number(word, value);
    } else if (word == "--fault-every-ms") {
      arguments.fault_every_ms = static_cast<int>(parse_number(word, value));
    } else if (word == "--device") {
      if (value != "cuda" && value != "cpu")
        usage("--device takes cuda or cpu, not '" + value + "'");
      arguments.device = value;
    } else if (word == "--json") {
      arguments.json = value;
    } else {
      usage("unknown option " + word);
    }
  }
  if (arguments.program.empty()) usage("no program");
  return arguments;
}

/// What a tenth of the time came to.
struct Window {
  double median[kKinds], p99[kKinds];
  double host_mib, device_mib;  // at most
  uint64_t calls, loads;        // up to its end
};

struct Summary {
  uint64_t calls = 0, reported = 0, failures = 0, wrong = 0, loads = 0, injected = 0;
  std::vector<Window> windows;
  std::vector<std::string> problems;
};

double host_mib() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

Window observe(std::vector<std::unique_ptr<TrafficCounts>>& counts, double seconds,
               Device& device) {
  Window window{};
  const auto end = steady_clock::now() + std::chrono::duration<double>(seconds);
  while (steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    window.host_mib = std::max(window.host_mib, host_mib());
    window.device_mib = std::max(window.device_mib, used_device_mib(device));
  }
  for (size_t i = 0; i < kKinds; ++i) {
    window.calls += counts[i]->calls;
    window.loads += counts[i]->loads;
    std::vector<double> taken;
    {
      const std::lock_guard<std::mutex> lock(counts[i]->mutex);
      taken.swap(counts[i]->latencies);
    }
    Samples latencies;
    for (const double each : taken) latencies.add(each);
    window.median[i] = latencies.median();
    window.p99[i] = latencies.p99();
  }
  return window;
}

/// The first window warms up: kernels are compiled, graphs captured, pools filled.
void judge(Summary& summary, bool on_gpu, bool faults) {
  const auto problem = [&summary](const std::string& text) { summary.problems.push_back(text); };
  if (summary.calls == 0) problem("no call went well");
  if (summary.wrong > 0) problem(std::to_string(summary.wrong) + " answers were wrong");
  if (summary.failures > 0) problem(std::to_string(summary.failures) + " calls failed");
  if (faults && summary.injected == 0) problem("no fault was injected");
  const Window &early = summary.windows[1], &late = summary.windows.back();
  double host = kSlackMiB, device = kSlackMiB;
  if (on_gpu) {
    const auto calls = static_cast<double>(late.calls - early.calls);
    const auto loads = static_cast<double>(late.loads - early.loads);
    host += kHostMiBPerLoad * loads + kHostMiBPerCall * calls;
    device += kDeviceMiBPerLoad * loads;
  }
  if (late.host_mib > early.host_mib + host) problem("host memory grew");
  if (late.device_mib > early.device_mib + device) problem("device memory grew");
  for (size_t i = 0; i < kKinds && !faults; ++i) {
    if (late.median[i] > 2 * early.median[i]) problem(std::string(kTraffic[i].name) + " slowed");
  }
}

void print(const Summary& summary, const Arguments& arguments) {
  const Window &early = summary.windows[1], &late = summary.windows.back();
  std::printf("%-40s %14s %14s %12s\n", "traffic", "median us", "(at last)", "p99 us");
  for (size_t i = 0; i < kKinds; ++i) {
    std::printf("%-40s %14.1f %14.1f %12.1f\n", kTraffic[i].name, early.median[i], late.median[i],
                late.p99[i]);
  }
  std::printf("host memory   %10.1f MiB, at last %10.1f MiB\n", early.host_mib, late.host_mib);
  std::printf("device memory %10.1f MiB, at last %10.1f MiB\n", early.device_mib, late.device_mib);
  std::printf(
      "soak of %.1f minutes: %llu calls right, %llu wrong, %llu failed; %llu loads; %llu faults "
      "injected, %llu reported to callers: %s\n",
      arguments.minutes, static_cast<unsigned long long>(summary.calls),
      static_cast<unsigned long long>(summary.wrong),
      static_cast<unsigned long long>(summary.failures),
      static_cast<unsigned long long>(summary.loads),
      static_cast<unsigned long long>(summary.injected),
      static_cast<unsigned long long>(summary.reported),
      summary.problems.empty() ? "passed" : "FAILED");
  for (const std::string& problem : summary.problems) std::printf("  %s\n", problem.c_str());
}

void write_json(const Summary& summary, const Arguments& arguments) {
  std::ofstream file(arguments.json);
  file << "{\"minutes\": " << arguments.minutes << ", \"device\": \"" << arguments.device
       << "\", \"fault_every_ms\": " << arguments.fault_every_ms
       << ",\n \"calls\": " << summary.calls << ", \"wrong\": " << summary.wrong
       << ", \"failures\": " << summary.failures << ", \"loads\": " << summary.loads
       << ",\n \"faults_injected\": " << summary.injected
       << ", \"faults_reported\": " << summary.reported
       << ", \"passed\": " << (summary.problems.empty() ? "true" : "false") << ",\n \"windows\": [";
  for (size_t w = 0; w < summary.windows.size(); ++w) {
    const Window& window = summary.windows[w];
    file << (w > 0 ? "," : "") << "\n  {\"host_mib\": " << window.host_mib
         << ", \"device_mib\": " << window.device_mib;
    for (size_t i = 0; i < kKinds; ++i) {
      file << ", \"" << kTraffic[i].name << "\": {\"median_us\": " << window.median[i]
           << ", \"p99_us\": " << window.p99[i] << "}";
    }
    file << "}";
  }
  file << "\n]}\n";
  if (!file.flush()) usage("cannot write " + arguments.json);
}

/// Fails a call every so often, some way into whatever runs then.
void inject(const Arguments& arguments, const std::atomic<bool>& stop) {
  std::mt19937 random(1);
  while (!stop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(arguments.fault_every_ms));
    inject_fault(static_cast<int>(random() % 50));
  }
}

int run(const Arguments& arguments) {
  executorch::runtime::runtime_init();
  require(registration_status(), "registering the backend");
  const ProgramFile program = read_program(arguments.program, kUsage);
  const DelegateBlob& blob = program.blob;
  std::shared_ptr<Device> device = host_device();
  if (arguments.device == "cuda") {
    auto found = cuda_device(0);
    require(found.error(), "finding the GPU");
    device = std::move(*found);
  }
  const SoakTarget target{arguments.program, arguments.device, &blob, device.get()};
  const std::vector<SoakCase> cases = soak_cases(target);

  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<TrafficCounts>> counts;
  std::vector<std::thread> threads;
  for (const TrafficKind& kind : kTraffic) {
    counts.push_back(std::make_unique<TrafficCounts>());
    threads.emplace_back(run_traffic, std::cref(target), std::cref(cases), kind, std::cref(stop),
                         std::ref(*counts.back()));
  }
  if (arguments.fault_every_ms > 0) {
    threads.emplace_back(inject, std::cref(arguments), std::cref(stop));
  }
  Summary summary;
  for (int w = 0; w < kWindows; ++w) {
    summary.windows.push_back(observe(counts, arguments.minutes * 60 / kWindows, *device));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : counts) {
    summary.calls += each->calls;
    summary.reported += each->reported;
    summary.failures += each->failures;
    summary.wrong += each->wrong;
    summary.loads += each->loads;
  }
  summary.injected = injected_faults();
  judge(summary, arguments.device == "cuda", arguments.fault_every_ms > 0);
  print(summary, arguments);
  if (!arguments.json.empty()) write_json(summary, arguments);
  return summary.problems.empty() ? 0 : 1;
}

}  // namespace
}  // namespace executorch_tensorrt::benchmark

int main(int argc, char** argv) {
  return executorch_tensorrt::benchmark::run(executorch_tensorrt::benchmark::parse(argc, argv));
}
