#include "active_profile.h"

#include <map>
#include <mutex>
#include <tuple>

namespace executorch_tensorrt {

std::shared_ptr<ActiveProfile> ActiveProfile::of_method(const void* allocator, const char* method,
                                                        const std::vector<Profile>& profiles) {
  using Key = std::tuple<const void*, std::string, std::vector<std::string>>;
  static std::mutex mutex;
  static auto* known =
      new std::map<Key, std::weak_ptr<ActiveProfile>>;  // outlives static delegates

  std::vector<std::string> names;
  for (const Profile& profile : profiles) names.push_back(profile.name);
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto entry = known->begin(); entry != known->end();) {
    entry = entry->second.expired() ? known->erase(entry) : std::next(entry);
  }
  auto& entry = (*known)[Key(allocator, method == nullptr ? "" : method, std::move(names))];
  auto active = entry.lock();
  if (active == nullptr) {
    active = std::make_shared<ActiveProfile>();
    entry = active;
  }
  return active;
}

}  // namespace executorch_tensorrt
