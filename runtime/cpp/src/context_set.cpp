#include "context_set.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "last_error.h"

namespace executorch_tensorrt {

namespace {

Error switch_profile(ContextSlot& slot, uint32_t engine_profile, Stream stream) {
  if (slot.engine_profile == engine_profile) return Error::Ok;
  slot.engine_profile.reset();
  slot.forget_shapes();
  const Error error = slot.context->set_optimization_profile(engine_profile, stream);
  if (error != Error::Ok) return error;
  slot.engine_profile = engine_profile;
  return Error::Ok;
}

CreatedContext create_context(Engine& engine) noexcept try {
  auto context = engine.create_execution_context();
  if (!context.ok()) return {nullptr, context.error(), last_error_message()};
  return {std::move(*context), Error::Ok, {}};
} catch (const std::bad_alloc&) {
  return {nullptr, Error::MemoryAllocationFailed, {}};
}

/// Each takes seconds, and TensorRT lets several be created at once ("the following operations are
/// thread safe: ... Creating an execution context from an engine", Developer Guide, Threading).
std::vector<CreatedContext> create_contexts(Engine& engine, size_t count) {
  std::vector<CreatedContext> created(count);
  std::vector<std::thread> threads;
  threads.reserve(count);
  size_t started = 1;  // the first is created on this thread
  try {
    for (; started < count; ++started) {
      threads.emplace_back([&engine, &slot = created[started]] { slot = create_context(engine); });
    }
  } catch (const std::system_error&) {
    // The process may have no more threads: this one creates what is left.
  }
  created[0] = create_context(engine);
  for (size_t i = started; i < count; ++i) created[i] = create_context(engine);
  for (std::thread& thread : threads) thread.join();
  return created;
}

}  // namespace

uint32_t count_engine_profiles(const DelegateBlob& blob) {
  uint32_t count = 0;
  for (const Profile& profile : blob.profiles) count = std::max(count, profile.engine_profile + 1);
  return count;
}

Error ContextSet::add_slots(const DelegateBlob& blob, size_t count, size_t max_graphs) {
  std::vector<CreatedContext> created = create_contexts(*engine_, count);
  for (CreatedContext& each : created) {
    if (each.error != Error::Ok) return report(each.error, std::move(each.text));
    slots_.emplace_back(std::move(each.context), GraphCache(*device_, max_graphs), blob.num_inputs,
                        blob.bindings.size() - blob.num_inputs);
  }
  return Error::Ok;
}

Result<std::unique_ptr<ContextSet>> ContextSet::create(std::shared_ptr<Engine> engine,
                                                       std::shared_ptr<Device> device,
                                                       const DelegateBlob& blob,
                                                       const RuntimeOptions& options) {
  std::unique_ptr<ContextSet> set(new ContextSet(std::move(engine), std::move(device)));
  const uint32_t num_profiles = count_engine_profiles(blob);
  for (uint32_t p = 0; p < num_profiles; ++p) {
    set->activation_bytes_ = std::max(set->activation_bytes_, set->engine_->activation_bytes(p));
  }
  if (set->activation_bytes_ > 0) {
    const Error error = set->activations_.reserve(set->activation_bytes_);
    if (error != Error::Ok) return error;
  }
  const bool single = options.profile_contexts == ProfileContexts::kSingle;
  const Error error = set->add_slots(blob, single ? 1 : num_profiles, options.max_cuda_graphs);
  if (error != Error::Ok) return error;
  return set;
}

Error ContextSet::place_on_profiles(Stream stream) {
  for (uint32_t p = 0; p < slots_.size(); ++p) {
    if (const Error error = switch_profile(slots_[p], p, stream); error != Error::Ok) return error;
    const Error error =
        slots_[p].context->set_activation_memory(activations_.data(), activation_bytes_);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

Result<ContextSlot*> ContextSet::on_profile(uint32_t engine_profile, Stream stream) {
  ContextSlot& slot = slots_.size() == 1 ? slots_.front() : slots_[engine_profile];
  if (const Error error = switch_profile(slot, engine_profile, stream); error != Error::Ok) {
    return error;
  }
  return &slot;
}

bool ContextSet::count_shape_change(ContextSlot& slot) {
  const size_t max = engine_->max_shape_changes();
  if (max == 0 || slot.in_callers_graph) return false;
  ++slot.shape_changes;
  if (slot.shape_changes < max / 2) return false;
  if (!slot.successor.valid()) {
    slot.successor = std::async([engine = engine_] { return create_context(*engine); });
  }
  return slot.shape_changes >= max ||
         slot.successor.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void ContextSet::replace(ContextSlot& slot, Stream stream) {
  slot.shape_changes = 0;
  CreatedContext created = slot.successor.get();
  if (created.error == Error::Ok) {
    created.error = created.context->set_activation_memory(activations_.data(), activation_bytes_);
    if (created.error == Error::Ok) {
      created.error = created.context->set_optimization_profile(*slot.engine_profile, stream);
    }
    if (created.error == Error::Ok) {
      slot.context = std::move(created.context);
      return;
    }
    created.text = last_error_message();
    clear_last_error();
  }
  ET_LOG(Error,
         "TensorRT: an execution context that has seen many shapes stays, and its memory with it, "
         "as none could be made in its place: %s",
         created.text.c_str());
}

}  // namespace executorch_tensorrt
