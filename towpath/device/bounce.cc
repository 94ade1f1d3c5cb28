#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/device/bounce.h>

namespace towpath::device {

Result<BounceSlots> BounceSlots::make(Device* device, Size size) {
  const auto bytes = checked_multiply(size.slots, size.slot_bytes);
  if (!bytes || *bytes == 0)
    return error(Code::invalid_argument,
                 cat(size.slots, " bounce buffers of ", size.slot_bytes, " bytes"),
                 "ask for one or more, and for less memory");
  BounceSlots made;
  made.size_ = size;
  if (device != nullptr) {
    if (auto pinned = device->allocate_pinned(*bytes); pinned.ok())
      made.pinned_ = *std::move(pinned);
    else
      made.refusal_ = pinned.status().to_string();
  }
  if (!made.pinned_) {
    TOWPATH_TRY(made.plain_, sys::Mapping::anonymous(*bytes));
  }
  made.bytes_ =
      made.pinned_ ? bytes_at(made.pinned_.address(), *bytes) : made.plain_.bytes().first(*bytes);
  made.free_.reserve(size.slots);
  for (std::uint64_t i = size.slots; i-- > 0;)
    made.free_.push_back(made.bytes_.subspan(i * size.slot_bytes, size.slot_bytes));
  return made;
}

ByteSpan BounceSlots::take() noexcept {
  if (free_.empty()) return {};
  const ByteSpan slot = free_.back();
  free_.pop_back();
  return slot;
}

Result<Stream*> CopyStream::get() {
  if (stream_ == nullptr) {
    TOWPATH_TRY(stream_, device_->create_stream());
  }
  return stream_.get();
}

Status CopyStream::copy_and_wait(std::span<const Copy> copies) {
  if (copies.empty()) return {};
  TOWPATH_TRY(Stream * stream, get());
  const Status given = stream->copy_batch(copies);
  const Status done = stream->synchronize();  // also what was given of a batch that failed
  if (given.ok() && done.ok()) return {};
  stream_.reset();
  return given.ok() ? done : given;
}

void CopyStream::drop() noexcept {
  if (stream_ != nullptr) (void)stream_->synchronize();
  stream_.reset();
}

}  // namespace towpath::device
