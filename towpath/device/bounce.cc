#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/device/bounce.h>

namespace towpath::device {

Result<std::uint64_t> BounceSlots::bytes_of(Size size) {
  const auto bytes = checked_multiply(size.slots, size.slot_bytes);
  if (!bytes || *bytes == 0)
    return error(Code::invalid_argument,
                 cat(size.slots, " bounce buffers of ", size.slot_bytes, " bytes"),
                 "ask for one or more, and for less memory");
  return *bytes;
}

void BounceSlots::divide(ByteSpan bytes, Size size) {
  bytes_ = bytes;
  size_ = size;
  free_.reserve(size.slots);
  for (std::uint64_t i = size.slots; i-- > 0;)
    free_.push_back(bytes.subspan(i * size.slot_bytes, size.slot_bytes));
}

Result<BounceSlots> BounceSlots::make_pinned(Device& device, Size size) {
  TOWPATH_TRY(const std::uint64_t bytes, bytes_of(size));
  BounceSlots made;
  auto pinned = device.allocate_pinned(bytes);
  if (!pinned.ok())
    return error(Code::exhausted, cat("no ", bytes, " bytes of pinned memory"))
        .because(pinned.status());
  made.pinned_ = *std::move(pinned);
  made.divide(bytes_at(made.pinned_.address(), bytes), size);
  return made;
}

Result<BounceSlots> BounceSlots::make(Device* device, Size size) {
  TOWPATH_TRY(const std::uint64_t bytes, bytes_of(size));
  BounceSlots made;
  if (device != nullptr) {
    auto pinned = make_pinned(*device, size);
    if (pinned.ok()) return pinned;
    made.refusal_ = pinned.status();
  }
  TOWPATH_TRY(made.plain_, sys::Mapping::anonymous(bytes));
  made.divide(made.plain_.bytes().first(bytes), size);
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
  return give([&](Stream& stream) -> Status {
    TOWPATH_TRY(stream.copy_batch(copies));
    return stream.synchronize();
  });
}

void CopyStream::drop() noexcept {
  if (stream_ != nullptr) (void)stream_->synchronize();
  stream_.reset();
}

}  // namespace towpath::device
