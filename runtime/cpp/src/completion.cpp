#include "completion.h"

#include <new>
#include <utility>

#include "last_error.h"

namespace executorch_tensorrt {

Result<std::unique_ptr<InFlight>> InFlight::create(std::shared_ptr<Device> device) {
  const auto done = device->create_event();
  if (!done.ok()) return done.error();
  return std::unique_ptr<InFlight>(new InFlight(std::move(device), *done));
}

InFlight::~InFlight() {
  // A failure is reported; nothing is left to return it to.
  if (fault_ != Error::Ok) {
    (void)device_->synchronize();  // the stream that could not be waited for may be gone
  } else if (recorded_) {
    (void)device_->synchronize_event(done_);
  }
  device_->destroy_event(done_);
}

Error InFlight::wait() {
  if (!recorded_) return Error::Ok;
  const Error error = device_->synchronize_event(done_);
  if (error == Error::Ok) recorded_ = false;
  return error;
}

Error InFlight::fault() const {
  if (fault_ == Error::Ok) return Error::Ok;
  return report(fault_, "this delegate met a fault that its device did not recover from: " +
                            fault_text_ + "; load the program again");
}

Completion::~Completion() {
  if (!settled_) drain();
}

Error Completion::order_after_last() {
  if (in_flight_.recorded_) {
    const Error error = in_flight_.device_->wait_event(stream_, in_flight_.done_);
    if (error != Error::Ok) return error;
  }
  ordered_ = true;
  return Error::Ok;
}

Error Completion::record() {
  const Error error = in_flight_.device_->record_event(in_flight_.done_, stream_);
  if (error != Error::Ok) return error;  // the destructor drains
  in_flight_.recorded_ = true;
  settled_ = true;
  return Error::Ok;
}

Error Completion::wait() {
  const Error error = in_flight_.device_->synchronize_stream(stream_);
  if (error != Error::Ok) return error;  // the destructor drains
  if (ordered_) in_flight_.recorded_ = false;
  settled_ = true;
  return Error::Ok;
}

void Completion::drain() noexcept try {
  // The execution's own error is what the caller gets; a drain that fails adds to its text, and is
  // what every later execution answers with.
  const std::string cause = last_error_message();
  const Error error = wait();
  if (error == Error::Ok) return;
  in_flight_.fault_ = error;
  in_flight_.fault_text_ = last_error_message();
  (void)report(
      error, cause + "; then waiting for what had been enqueued failed: " + in_flight_.fault_text_);
} catch (const std::bad_alloc&) {
  // No memory for the words; the fault itself is kept.
}

}  // namespace executorch_tensorrt
