#include <algorithm>
#include <vector>

#include <towpath/device/cuda/cuda_stream.h>
#include <towpath/device/kernels/box_launch.h>

namespace towpath::device::cuda {

Result<CudaStream*> cuda_stream(Stream& stream) {
  if (auto* const ours = dynamic_cast<CudaStream*>(&stream)) return ours;
  return error(Code::invalid_argument, "the stream is of another driver",
               "make it with a device of the same driver");
}

// Functions of the user's -------------------------------------------------------------------------

HostFunctions::Entry* HostFunctions::add(HostFunction function) {
  const run::MutexLock lock(mutex_);
  entries_.push_back({.owner = this, .function = std::move(function), .place = {}});
  entries_.back().place = std::prev(entries_.end());
  return &entries_.back();
}

void HostFunctions::remove(Entry* entry) {
  std::list<Entry> gone;  // dies without the lock: what the function holds may be anything
  const run::MutexLock lock(mutex_);
  gone.splice(gone.begin(), entries_, entry->place);
}

void HostFunctions::run(void* entry) {
  auto* const ours = static_cast<Entry*>(entry);
  ours->function();
  ours->owner->remove(ours);
}

// The stream --------------------------------------------------------------------------------------

Result<std::shared_ptr<Stream>> CudaStream::create(std::shared_ptr<CudaDevice> device) {
  const CurrentScope scope(device->context());
  TOWPATH_TRY(scope.status());
  CuStream stream = nullptr;
  TOWPATH_TRY(device->cuda().check(device->cuda().call().stream_create(&stream, kStreamNonBlocking),
                                   "cannot make a stream on GPU ", device->info().ordinal));
  return std::make_shared<CudaStream>(std::move(device), stream);
}

CudaStream::~CudaStream() {
  const CurrentScope scope(device_->context());
  (void)device_->cuda().wait_for(stream_);
  (void)device_->cuda().call().stream_destroy(stream_);
}

Status CudaStream::copy(const Copy& what) { return copy_one_by_one({&what, 1}); }

Status CudaStream::copy_one_by_one(std::span<const Copy> copies) {
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  const CudaLibrary& cuda = device_->cuda();
  for (const Copy& one : copies) {
    if (one.length == 0) continue;
    TOWPATH_TRY(cuda.check(cuda.call().copy(one.target, one.source, one.length, stream_),
                           "cannot copy ", one.length, " bytes from ", hex(one.source), " to ",
                           hex(one.target)));
  }
  return {};
}

Status CudaStream::copy_batch(std::span<const Copy> copies) {
  const CudaLibrary& cuda = device_->cuda();
  const bool has_batches = cuda.call().copy_batch != nullptr && device_->reaches_host_addresses();
  if (!has_batches || copies.size() < 2) return copy_one_by_one(copies);
  std::vector<CuAddress> targets;
  std::vector<CuAddress> sources;
  std::vector<std::size_t> sizes;
  for (const Copy& one : copies) {
    if (one.length == 0) continue;  // which the driver refuses
    targets.push_back(one.target);
    sources.push_back(one.source);
    sizes.push_back(one.length);
  }
  if (sizes.empty()) return {};
  CopyAttributes attributes;
  std::size_t first = 0;
  std::size_t failed = SIZE_MAX;
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  const CuResult result =
      cuda.call().copy_batch(targets.data(), sources.data(), sizes.data(), sizes.size(),
                             &attributes, &first, 1, &failed, stream_);
  if (result == kNotSupported) return copy_one_by_one(copies);
  if (failed >= sizes.size()) failed = 0;  // the driver does not report which
  return cuda.check(result, "cannot copy a batch of ", sizes.size(), ", such as ", sizes[failed],
                    " bytes from ", hex(sources[failed]), " to ", hex(targets[failed]));
}

Status CudaStream::copy_rows(const Copy2d& what) {
  std::vector<Copy> rows;
  rows.reserve(what.rows);
  for (std::uint64_t row = 0; row < what.rows; ++row)
    rows.push_back({.target = what.target + row * what.target_pitch,
                    .source = what.source + row * what.source_pitch,
                    .length = what.width});
  return copy_batch(rows);
}

Status CudaStream::copy_2d(const Copy2d& what) {
  if (what.target_pitch < what.width || what.source_pitch < what.width)
    return error(Code::invalid_argument,
                 cat("rows of ", what.width, " bytes overlap: the pitches are ", what.source_pitch,
                     " and ", what.target_pitch),
                 "a pitch is not less than the width");
  if (what.width == 0 || what.rows == 0) return {};
  if (std::max(what.target_pitch, what.source_pitch) > device_->max_pitch()) return copy_rows(what);
  const Memcpy2d theirs{.source_device = what.source,
                        .source_pitch = what.source_pitch,
                        .target_device = what.target,
                        .target_pitch = what.target_pitch,
                        .width = what.width,
                        .height = what.rows};
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  const CuResult result = device_->cuda().call().copy_2d(&theirs, stream_);
  // Within a device it may refuse pitches that cuMemAllocPitch did not choose.
  if (result == kInvalidValue) return copy_rows(what);
  return device_->cuda().check(result, "cannot copy ", what.rows, " rows of ", what.width,
                               " bytes from ", hex(what.source), " to ", hex(what.target));
}

Status CudaStream::copy_boxes(std::span<const BoxCopy> boxes) {
  TOWPATH_TRY(device_->has_box_kernel());
  TOWPATH_TRY(const std::vector<kernel::BoxLaunch> launches, kernel::launches_of(boxes));
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  for (const kernel::BoxLaunch& one : launches)
    TOWPATH_TRY(device_->box_kernel().launch(one, stream_));
  return {};
}

Status CudaStream::fill(const Fill& what) {
  if (what.length == 0) return {};
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  return device_->cuda().check(
      device_->cuda().call().fill(what.address, static_cast<unsigned char>(what.value), what.length,
                                  stream_),
      "cannot fill ", what.length, " bytes at ", hex(what.address));
}

Status CudaStream::write_word(const WordWrite& what) {
  if (what.address == 0 || what.address % sizeof what.value != 0)
    return error(Code::invalid_argument, cat("cannot write a word at ", hex(what.address)),
                 "words lie at multiples of 8");
  const auto write = device_->cuda().call().write_word;
  if (write == nullptr)
    return error(Code::unsupported, "the driver has no cuStreamWriteValue64_v2",
                 "install a driver of CUDA 11.7 or newer (515 or newer)");
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  // No flags: the write waits for all that the stream did before, and for who may see it.
  return device_->cuda().check(write(stream_, what.address, what.value, 0), "cannot write ",
                               what.value, " at ", hex(what.address), " in a stream's order");
}

Status CudaStream::run(HostFunction function) {
  if (!function) return error(Code::invalid_argument, "no function to run");
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  HostFunctions::Entry* const entry = functions_.add(std::move(function));
  const CuResult result = device_->cuda().call().stream_run(stream_, &HostFunctions::run, entry);
  if (result != kSuccess) functions_.remove(entry);
  return device_->cuda().check(result, "cannot give a stream a function to run");
}

Status CudaStream::record(Event& event) {
  TOWPATH_TRY(const CudaEvent* ours, cuda_event(event));
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  return device_->cuda().check(device_->cuda().call().event_record(ours->get(), stream_),
                               "cannot record an event");
}

Status CudaStream::wait(const Event& event) {
  TOWPATH_TRY(const CudaEvent* ours, cuda_event(event));
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  return device_->cuda().check(device_->cuda().call().stream_wait(stream_, ours->get(), 0),
                               "cannot let a stream wait for an event");
}

Result<bool> CudaStream::is_idle() const {
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  const CuResult result = device_->cuda().call().stream_query(stream_);
  if (result == kNotReady) return false;
  TOWPATH_TRY(device_->cuda().check(result, "work of a stream failed"));
  return true;
}

Status CudaStream::synchronize() {
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());  // a context that cannot be entered is gone, and its work with it
  return device_->cuda().check(device_->cuda().wait_for(stream_), "work of a stream failed");
}

}  // namespace towpath::device::cuda
