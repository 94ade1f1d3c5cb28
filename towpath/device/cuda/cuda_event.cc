#include <cmath>

#include <towpath/device/cuda/cuda_stream.h>

namespace towpath::device::cuda {

Result<const CudaEvent*> cuda_event(const Event& event) {
  if (const auto* const ours = dynamic_cast<const CudaEvent*>(&event)) return ours;
  return error(Code::invalid_argument, "the event is of another driver",
               "make it with a device of the same driver");
}

Result<std::shared_ptr<Event>> CudaEvent::create(std::shared_ptr<CudaDevice> device,
                                                 const EventOptions& options) {
  if (options.timed && options.interprocess)
    return error(Code::invalid_argument, "an interprocess event cannot be timed", "choose one");
  unsigned flags = options.timed ? 0 : kEventDisableTiming;
  if (options.interprocess) flags |= kEventInterprocess;
  if (options.blocking_wait) flags |= kEventBlockingSync;
  const CurrentScope scope(device->context());
  TOWPATH_TRY(scope.status());
  CuEvent event = nullptr;
  TOWPATH_TRY(device->cuda().check(device->cuda().call().event_create(&event, flags),
                                   "cannot make an event on GPU ", device->info().ordinal));
  return std::make_shared<CudaEvent>(std::move(device), event, options.timed);
}

CudaEvent::~CudaEvent() {
  const CurrentScope scope(device_->context());
  (void)device_->cuda().call().event_destroy(event_);
}

Result<bool> CudaEvent::is_done() const {
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  const CuResult result = device_->cuda().call().event_query(event_);
  if (result == kNotReady) return false;
  TOWPATH_TRY(device_->cuda().check(result, "the work before an event failed"));
  return true;
}

Status CudaEvent::wait() const {
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  return device_->cuda().check(device_->cuda().call().event_synchronize(event_),
                               "the work before an event failed");
}

Result<Duration> CudaEvent::since(const Event& earlier) const {
  TOWPATH_TRY(const CudaEvent* from, cuda_event(earlier));
  if (!timed_ || !from->timed_)
    return error(Code::invalid_argument, "no time lies between events that are not timed",
                 "set EventOptions::timed for both");
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  float milliseconds = 0;
  TOWPATH_TRY(device_->cuda().check(
      device_->cuda().call().event_elapsed(&milliseconds, from->event_, event_),
      "cannot determine the time between two events"));
  return Duration(std::llround(static_cast<double>(milliseconds) * 1e6));
}

}  // namespace towpath::device::cuda
