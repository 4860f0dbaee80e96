// Traffic of one kind on one thread, each answer compared with the one that is right.
#pragma once

#include <executorch/extension/module/module.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "delegate_blob.h"
#include "device.h"

namespace executorch_tensorrt::benchmark {

struct SoakTarget {
  std::string program;
  std::string device;  // "cuda" or "cpu"
  const DelegateBlob* blob;
  Device* memory;  // where the program's tensors lie
};

/// One execution's inputs and what comes out of it.
struct SoakCase {
  size_t profile;
  std::vector<Dims> shapes;                   // of the inputs
  std::vector<std::vector<uint8_t>> inputs;   // their values
  std::vector<std::vector<uint8_t>> outputs;  // the answers that are right
};

/// Each profile's smallest, opt and largest shapes, answered once by a load without CUDA graphs.
std::vector<SoakCase> soak_cases(const SoakTarget& target);

/// How a thread calls.
struct TrafficKind {
  const char* name;
  enum class Place { kDevice, kPageLocked, kPageable } place;
  bool pinned;         // to the case's profile, by name
  bool on_stream;      // of the caller's
  int calls_per_load;  // 0: loaded once
};

struct TrafficCounts {
  std::atomic<uint64_t> calls{0};     // that gave the right answer
  std::atomic<uint64_t> reported{0};  // that gave an injected fault's error
  std::atomic<uint64_t> failures{0};  // that gave another error
  std::atomic<uint64_t> wrong{0};     // answers
  std::atomic<uint64_t> loads{0};

  std::mutex mutex;
  std::vector<double> latencies;  // in microseconds, since somebody last took them
};

/// Until `stop`.
void run_traffic(const SoakTarget& target, const std::vector<SoakCase>& cases, TrafficKind kind,
                 const std::atomic<bool>& stop, TrafficCounts& counts);

}  // namespace executorch_tensorrt::benchmark
