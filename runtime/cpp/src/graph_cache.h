// The CUDA graphs of one execution context, by the addresses that they were captured with.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "device.h"

namespace executorch_tensorrt {

/// A graph is of the context's state when it was captured, its shapes among it, and is void once
/// they change ("Modifying the context from which the graph was captured will result in undefined
/// behavior", TensorRT Developer Guide, CUDA Graphs): clear() then.
class GraphCache {
 public:
  struct Entry {
    std::vector<void*> addresses;  // one a binding
    Graph graph = nullptr;         // nullptr until it is captured
    uint64_t last_use = 0;
  };

  GraphCache(Device& device, size_t capacity) : device_(&device), capacity_(capacity) {}
  ~GraphCache() { clear(); }
  GraphCache(GraphCache&& other) noexcept
      : device_(other.device_),
        capacity_(other.capacity_),
        entries_(std::exchange(other.entries_, {})),
        uses_(other.uses_) {}
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;
  GraphCache& operator=(GraphCache&&) = delete;

  /// Whether clear() destroys graphs.
  bool has_graphs() const;
  /// Whether add() destroys a graph, that of the least recently used entry.
  bool add_drops_graph() const;

  /// The entry of these addresses, now the last used; nullptr where there is none.
  Entry* find(const std::vector<void*>& addresses);
  /// An entry for addresses that have none. The capacity is at least 1.
  void add(const std::vector<void*>& addresses);
  /// None of the graphs may be in flight.
  void clear() noexcept;

 private:
  bool full() const { return entries_.size() >= capacity_; }
  std::vector<Entry>::const_iterator oldest() const;

  Device* device_;
  size_t capacity_;
  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace executorch_tensorrt
