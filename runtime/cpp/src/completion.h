// How one execution ends: recorded, waited for, or drained; never left running unknown.
#pragma once

#include <string>

#include "device.h"

namespace executorch_tensorrt {

/// The work that a delegate's executions put on streams, and whether it is known to have ended.
/// Guarded by the delegate's mutex.
class InFlight {
 public:
  static Result<std::unique_ptr<InFlight>> create(std::shared_ptr<Device> device);
  /// Waits for what is in flight.
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Waits on the host for the last recorded execution.
  [[nodiscard]] Error wait();
  bool recorded() const { return recorded_; }

  /// Whether there may be work in flight that could not be waited for.
  bool is_broken() const { return fault_ != Error::Ok; }
  /// Ok, or the fault that no drain could clear; then the delegate is of no more use.
  [[nodiscard]] Error fault() const;

 private:
  friend class Completion;

  InFlight(std::shared_ptr<Device> device, Event done) : device_(std::move(device)), done_(done) {}

  std::shared_ptr<Device> device_;
  Event done_;
  bool recorded_ = false;  // done_ marks the end of work that may still run
  Error fault_ = Error::Ok;
  std::string fault_text_;
};

/// The scope of one execution, from before its first asynchronous call on. Ends by exactly one of
/// record(), wait() or, on any other way out, by draining the stream.
class Completion {
 public:
  Completion(InFlight& in_flight, Stream stream) : in_flight_(in_flight), stream_(stream) {}
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// Orders the stream after the last recorded execution, on the device.
  [[nodiscard]] Error order_after_last();
  /// Marks the end of the execution on its stream, without waiting for it.
  [[nodiscard]] Error record();
  /// Waits until the stream has done all of the execution.
  [[nodiscard]] Error wait();
  /// Says, after a wait in the middle of the execution, that more of it follows.
  void go_on() { settled_ = false; }

 private:
  void drain() noexcept;

  InFlight& in_flight_;
  Stream stream_;
  bool ordered_ = false;  // after everything recorded before
  bool settled_ = false;
};

}  // namespace executorch_tensorrt
