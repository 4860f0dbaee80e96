#include "engine_cache.h"

#include <array>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <tuple>

#include "siphash.h"

namespace executorch_tensorrt {

namespace {

struct Entry {
  std::mutex loading;
  std::weak_ptr<Engine> engine;
};

/// The options count too: an engine that was let run host code is not for those who forbid it.
using Key = std::tuple<std::string, std::array<uint8_t, 32>, size_t, SipHash128, EngineOptions>;

/// Of the bytes under a secret of this process, so that nobody can make an engine that passes for
/// another. SHA-256 would do as well, and takes several times as long.
SipHash128 hash_of(const Section& engine) {
  static const SipHashKey secret = [] {
    std::random_device random;  // the system's generator
    SipHashKey key;
    for (uint8_t& byte : key) byte = static_cast<uint8_t>(random());
    return key;
  }();
  return siphash128(secret, engine.data, engine.size);
}

/// Whether the table alone has it, so that nobody gets it while the table is locked, and its engine
/// is gone. The lock is free then; it makes what the last one to load wrote there visible here.
bool is_idle(const std::shared_ptr<Entry>& entry) {
  if (entry.use_count() != 1) return false;
  const std::lock_guard<std::mutex> lock(entry->loading);
  return entry->engine.expired();
}

std::shared_ptr<Entry> entry_of(Key key) {
  static std::mutex mutex;
  static auto* entries = new std::map<Key, std::shared_ptr<Entry>>;  // outlives static delegates
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto it = entries->begin(); it != entries->end();) {
    it = is_idle(it->second) ? entries->erase(it) : std::next(it);
  }
  auto& entry = (*entries)[std::move(key)];
  if (entry == nullptr) entry = std::make_shared<Entry>();
  return entry;
}

}  // namespace

Result<std::shared_ptr<Engine>> shared_tensorrt_engine(const DelegateBlob& blob, Device& device,
                                                       const EngineOptions& options,
                                                       EngineLoader load) {
  const auto entry =
      entry_of({device.name(), blob.engine_id, blob.engine.size, hash_of(blob.engine), options});
  const std::lock_guard<std::mutex> lock(entry->loading);
  if (auto engine = entry->engine.lock()) {
    if (const Error error = engine->check_describes(blob); error != Error::Ok) return error;
    return engine;
  }
  auto engine = load(blob, device, options);
  if (engine.ok()) entry->engine = *engine;
  return engine;
}

}  // namespace executorch_tensorrt
