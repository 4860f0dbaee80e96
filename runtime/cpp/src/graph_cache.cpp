#include "graph_cache.h"

#include <algorithm>

namespace executorch_tensorrt {

GraphCache::Entry* GraphCache::find(const std::vector<void*>& addresses) {
  for (Entry& entry : entries_) {
    if (entry.addresses == addresses) {
      entry.last_use = ++uses_;
      return &entry;
    }
  }
  return nullptr;
}

std::vector<GraphCache::Entry>::const_iterator GraphCache::oldest() const {
  return std::min_element(entries_.begin(), entries_.end(),
                          [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; });
}

bool GraphCache::has_graphs() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.graph != nullptr; });
}

bool GraphCache::add_drops_graph() const { return full() && oldest()->graph != nullptr; }

void GraphCache::add(const std::vector<void*>& addresses) {
  if (!full()) {
    entries_.push_back({addresses, nullptr, ++uses_});
    return;
  }
  Entry& oldest = entries_[this->oldest() - entries_.begin()];
  if (oldest.graph != nullptr) device_->destroy_graph(oldest.graph);
  oldest = {addresses, nullptr, ++uses_};
}

void GraphCache::clear() noexcept {
  for (const Entry& entry : entries_) {
    if (entry.graph != nullptr) device_->destroy_graph(entry.graph);
  }
  entries_.clear();
}

}  // namespace executorch_tensorrt
