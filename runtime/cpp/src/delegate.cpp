#include "delegate.h"

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>
#include <executorch_tensorrt/stream_guard.h>

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "enqueue_mutex.h"
#include "last_error.h"
#include "thread_state.h"
#include "warm_up.h"

namespace executorch_tensorrt {

namespace {

using executorch::runtime::EValue;
using executorch::runtime::EventTracer;
using executorch::runtime::Span;

std::vector<std::string> input_names(const DelegateBlob& blob) {
  std::vector<std::string> names;
  for (size_t i = 0; i < blob.num_inputs; ++i) names.push_back(blob.bindings[i].name);
  return names;
}

}  // namespace

TensorRTDelegate::TensorRTDelegate(DelegateParts parts)
    : parts_(std::move(parts)),
      profiles_(input_names(parts_.blob), parts_.blob.profiles),
      arguments_(parts_.blob),
      guard_(*parts_.device, MemoryKind::kDevice),
      guard_on_host_(*parts_.device, MemoryKind::kHost),
      placeholder_(*parts_.device, MemoryKind::kDevice) {}

Result<std::unique_ptr<TensorRTDelegate>> TensorRTDelegate::create(DelegateParts parts) {
  std::unique_ptr<TensorRTDelegate> delegate(new TensorRTDelegate(std::move(parts)));
  if (const Error error = delegate->prepare(); error != Error::Ok) return error;
  return delegate;
}

Error TensorRTDelegate::prepare() {
  const DelegateBlob& blob = parts_.blob;
  Device& device = *parts_.device;
  if (const Error error = profiles_.check(parts_.options.default_profile); error != Error::Ok) {
    return error;
  }
  for (const Binding& binding : blob.bindings) {
    has_shape_tensors_ |= binding.is_input && binding.is_shape_tensor;
    staging_.push_back(
        {DeviceBuffer(device, MemoryKind::kDevice), DeviceBuffer(device, MemoryKind::kHost)});
    own_outputs_.emplace_back(device, MemoryKind::kHost);
  }
  staged_inputs_.reserve(blob.bindings.size());
  staged_outputs_.reserve(blob.bindings.size());
  addresses_.resize(blob.num_tensors());
  parts_.record->set_output_shapes_follow_inputs(parts_.engine->knows_shapes_before_enqueue() &&
                                                 !has_shape_tensors_);
  const bool switched = parts_.options.profile_contexts == ProfileContexts::kSingle &&
                        count_engine_profiles(blob) > 1;
  graphs_enabled_ = parts_.options.cuda_graphs && !device.reads_host_memory() &&
                    !has_shape_tensors_ && !switched && parts_.engine->can_be_captured();
  if (const Error error = placeholder_.reserve(1); error != Error::Ok) return error;

  const auto stream = device.create_stream();
  if (!stream.ok()) return stream.error();
  stream_ = *stream;
  has_stream_ = true;

  auto in_flight = InFlight::create(parts_.device);
  if (!in_flight.ok()) return in_flight.error();
  in_flight_ = std::move(*in_flight);

  auto contexts = ContextSet::create(parts_.engine, parts_.device, blob, parts_.options);
  if (!contexts.ok()) return contexts.error();
  contexts_ = std::move(*contexts);
  {
    Completion completion(*in_flight_, stream_);
    Error error = contexts_->place_on_profiles(stream_);
    if (error == Error::Ok) error = completion.wait();
    if (error != Error::Ok) return error;
  }
  const Error error = warm_up(*contexts_, *parts_.engine, blob, device, *in_flight_, stream_);
  return error == Error::Ok ? prepare_state() : error;
}

TensorRTDelegate::~TensorRTDelegate() {
  const std::lock_guard<std::mutex> lock(mutex_);
  in_flight_.reset();  // waits, before anything that the work may use goes
  contexts_.reset();
  if (has_stream_) parts_.device->destroy_stream(stream_);
}

Error TensorRTDelegate::execute(Span<EValue*> args, EventTracer* tracer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto start = tracer == nullptr ? 0 : executorch::runtime::pal_current_ticks();
  size_t profile = 0;
  const Error error = execute_locked(args, tracer != nullptr, profile);
  if (error == Error::Ok) {
    parts_.record->count_execution(profile);
    if (tracer != nullptr) trace(*tracer, profile, start);
  } else {
    parts_.record->count_failure();
  }
  return error;
}

void TensorRTDelegate::trace(EventTracer& tracer, size_t profile, et_timestamp_t start) const {
  // Under the profile's name, which is known only now; preprocess mapped each to the source nodes.
  const std::string where = parts_.record->engine() + " on " + parts_.record->device();
  executorch::runtime::event_tracer_log_profiling_delegate(
      &tracer, parts_.blob.profiles[profile].name.c_str(),
      executorch::runtime::kUnsetDelegateDebugIntId, start,
      executorch::runtime::pal_current_ticks(), where.data(), where.size());
}

Error TensorRTDelegate::execute_locked(Span<EValue*> args, bool traced, size_t& profile) {
  if (const Error error = in_flight_->fault(); error != Error::Ok) return error;
  if (const Error error = arguments_.read(args); error != Error::Ok) return error;
  const auto selected = select_profile();
  if (!selected.ok()) return selected.error();
  profile = *selected;

  StateUse use(*in_flight_);  // ends after what is in flight of the call
  Call call;
  if (!parts_.blob.states.empty()) {
    if (const Error error = begin_state(use); error != Error::Ok) return error;
    call.state = &use;
  }
  if (const Error error = choose_stream(call); error != Error::Ok) return error;
  if (const Error error = check_state_capture(call); error != Error::Ok) return error;
  if (const Error error = find_indices(call); error != Error::Ok) return error;
  call.synchronous |= traced;
  if (const Error error = run(profile, call); error != Error::Ok) {
    // What was remembered of the context may not be so any more. Of calls before there may be work
    // in flight where a capture of the caller's failed, and of this one where it could not be
    // waited for: the graphs then stay until the next call, or the delegate's end, has waited.
    const bool may_run = call.capturing || in_flight_->is_broken();
    if (call.slot != nullptr && may_run) call.slot->shapes_known = false;
    if (call.slot != nullptr && !may_run) call.slot->forget_shapes();
    return error;
  }
  deliver_host_outputs();
  parts_.active->set(profile);
  return Error::Ok;
}

Error TensorRTDelegate::choose_stream(Call& call) {
  const auto callers = StreamGuard::current();
  call.stream = callers.value_or(stream_);
  call.synchronous = !callers.has_value() || !parts_.blob.guard.empty();
  if (!callers) return Error::Ok;
  if (const Error error = parts_.device->check_stream(*callers); error != Error::Ok) return error;
  const auto capturing = parts_.device->is_capturing(*callers);
  if (!capturing.ok()) return capturing.error();
  call.capturing = *capturing;
  return Error::Ok;
}

Error TensorRTDelegate::run(size_t profile, Call& call) {
  // Into a capture of the caller's the call only puts its work, of which nothing runs now.
  if (call.capturing) {
    const Error error = enqueue(profile, call);
    if (error == Error::Ok && call.state != nullptr) call.state->commit();
    return error;
  }
  Completion completion(*in_flight_, call.stream);
  call.completion = &completion;
  Error error = read_indices(call);
  if (error == Error::Ok) error = completion.order_after_last();
  if (error == Error::Ok && call.state != nullptr) error = call.state->order(call.stream);
  if (error == Error::Ok) error = enqueue(profile, call);
  if (error == Error::Ok) error = settle(completion, call);
  if (error == Error::Ok && call.state != nullptr) call.state->commit();
  return error;
}

Error TensorRTDelegate::settle(Completion& completion, Call& call) {
  if (!call.synchronous) {
    if (call.state != nullptr) {
      const Error error = call.state->record(call.stream);
      if (error != Error::Ok) return error;
    }
    return completion.record();
  }
  if (!parts_.device->reads_host_memory()) parts_.record->count_host_synchronization();
  if (const Error error = completion.wait(); error != Error::Ok) return error;
  if (call.state == nullptr) return Error::Ok;
  call.state->waited();
  return check_guard();
}

Result<size_t> TensorRTDelegate::select_profile() const {
  const ProfileRequest* pinned = pinned_profile();
  return profiles_.select(pinned != nullptr ? *pinned : parts_.options.default_profile,
                          parts_.options.profile_selection, parts_.active->get(),
                          arguments_.input_shapes());
}

Error TensorRTDelegate::enqueue(size_t profile, Call& call) {
  const DelegateBlob& blob = parts_.blob;
  const uint32_t engine_profile = blob.profiles[profile].engine_profile;
  if (call.capturing && !contexts_->is_on_profile(engine_profile)) {
    return refuse_capture_of_new_shapes();
  }
  const auto slot = contexts_->on_profile(engine_profile, call.stream);
  if (!slot.ok()) return slot.error();
  call.slot = *slot;
  staged_inputs_.clear();
  staged_outputs_.clear();

  if (const Error error = set_input_shapes(call); error != Error::Ok) return error;
  for (size_t i = 0; i < blob.num_inputs; ++i) {
    const Error error =
        blob.bindings[i].is_shape_tensor ? bind_shape_tensor(i, call) : bind_input(i, call);
    if (error != Error::Ok) return error;
  }
  if (const Error error = find_output_shapes(call); error != Error::Ok) return error;
  if (parts_.engine->knows_shapes_before_enqueue()) {
    for (size_t i = blob.num_inputs; i < blob.bindings.size(); ++i) {
      if (const Error error = bind_output(i, call); error != Error::Ok) return error;
    }
  }
  if (call.reads_indices) {
    if (const Error error = wait_for_indices(*call.completion); error != Error::Ok) return error;
  }
  if (call.state != nullptr) {
    note_state_addresses(call);
    if (!call.capturing) call.state->touch();
  }
  const Error error =
      graphs_enabled_ && !call.capturing ? replay_or_submit(call) : submit_call(call);
  return error == Error::Ok ? collect_outputs(call) : error;
}

Error TensorRTDelegate::replay_or_submit(Call& call) {
  GraphCache& graphs = call.slot->graphs;
  GraphCache::Entry* entry = graphs.find(addresses_);
  if (entry != nullptr && entry->graph != nullptr) {
    parts_.record->count_graph_replay();
    return parts_.device->launch_graph(entry->graph, call.stream);
  }
  parts_.record->count_graph_miss();
  if (const Error error = submit_call(call); error != Error::Ok) return error;
  if (entry != nullptr) {
    capture(*entry, call);
    return Error::Ok;
  }
  if (graphs.add_drops_graph()) {
    // The one that goes may be what the last recorded execution runs.
    if (const Error error = in_flight_->wait(); error != Error::Ok) return error;
  }
  graphs.add(addresses_);
  return Error::Ok;
}

Error TensorRTDelegate::submit_call(Call& call) {
  if (call.capturing) {
    const std::lock_guard<std::shared_mutex> alone(enqueue_mutex());
    call.slot->in_callers_graph = true;
    return submit(*call.slot, call.stream);
  }
  const auto lock = lock_enqueue(*parts_.device);
  return submit(*call.slot, call.stream);
}

void TensorRTDelegate::capture(GraphCache::Entry& entry, Call& call) {
  // While another thread enqueues, which may take as long as compiling a kernel does, the next call
  // is soon enough.
  const std::unique_lock<std::shared_mutex> alone(enqueue_mutex(), std::try_to_lock);
  if (!alone.owns_lock()) return;
  // On the delegate's own stream, as a caller's may be one that cannot be captured. The context has
  // just executed in these shapes, which TensorRT asks for before it is captured.
  const UnloggedErrors quiet;
  Error error = parts_.device->begin_capture(stream_);
  if (error == Error::Ok) {
    error = submit(*call.slot, stream_);
    const auto graph = parts_.device->end_capture(stream_);
    if (error == Error::Ok) error = graph.error();
    if (error == Error::Ok) {
      entry.graph = *graph;
      parts_.record->count_graph_capture();
      return;
    }
    if (graph.ok() && *graph != nullptr) parts_.device->destroy_graph(*graph);
  }
  graphs_enabled_ = false;
  ET_LOG(Info, "TensorRT: method %s runs without CUDA graphs, as one cannot be captured: %s",
         parts_.record->method().c_str(), last_error_message());
  clear_last_error();
}

/// A new shape has TensorRT do more than enqueue, and values of shape tensors are read on the host.
Error TensorRTDelegate::refuse_capture_of_new_shapes() const {
  return report(
      Error::InvalidArgument,
      has_shape_tensors_
          ? "an engine whose shapes depend on values cannot be captured"
          : "while the caller's stream is being captured, inputs must have the shapes of "
            "the execution before on their profile: execute once with them, then capture");
}

Error TensorRTDelegate::set_input_shapes(Call& call) {
  ContextSlot& slot = *call.slot;
  const auto shapes = arguments_.input_shapes();
  const bool same = std::equal(shapes.begin(), shapes.end(), slot.input_shapes.begin());
  // The values of shape tensors bear on the outputs' shapes too, and are not compared.
  if (same && slot.shapes_known && !has_shape_tensors_) return Error::Ok;
  if (call.capturing) return refuse_capture_of_new_shapes();

  const bool replaced = !same && contexts_->count_shape_change(slot);
  if (slot.graphs.has_graphs() || replaced) {
    // Graphs of the old shapes or the context go, and must not be in flight.
    if (const Error error = in_flight_->wait(); error != Error::Ok) return error;
  }
  slot.forget_shapes();
  if (replaced) {
    // This call may have put a switch of the profile on the stream.
    const Error error = parts_.device->synchronize_stream(call.stream);
    if (error != Error::Ok) return error;
    contexts_->replace(slot, call.stream);
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Error error = slot.context->set_input_shape(i, shapes[i]);
    if (error != Error::Ok) return error;
    slot.input_shapes[i] = shapes[i];
  }
  return Error::Ok;
}

Error TensorRTDelegate::find_output_shapes(Call& call) {
  ContextSlot& slot = *call.slot;
  if (slot.shapes_known || !parts_.engine->knows_shapes_before_enqueue()) return Error::Ok;
  for (size_t i = 0; i < slot.output_shapes.size(); ++i) {
    const auto shape = slot.context->output_shape(parts_.blob.num_inputs + i);
    if (!shape.ok()) return shape.error();
    slot.output_shapes[i] = *shape;
  }
  slot.shapes_known = true;
  return Error::Ok;
}

}  // namespace executorch_tensorrt
