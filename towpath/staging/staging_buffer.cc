#include <towpath/staging/staging_buffer.h>

namespace towpath::staging {

Result<StagingBuffer> StagingBuffer::make(std::shared_ptr<device::Device> device,
                                          std::uint64_t size_bytes) {
  StagingBuffer made;
  auto pinned = device->allocate_pinned(size_bytes);
  if (pinned.ok()) {
    made.pinned_ = *std::move(pinned);
    made.bytes_ = bytes_at(made.pinned_.address(), size_bytes);
  } else {
    made.refusal_ = pinned.status().to_string();
    TOWPATH_TRY(made.plain_, sys::Mapping::anonymous(size_bytes));
    made.bytes_ = made.plain_.bytes().first(size_bytes);
  }
  TOWPATH_TRY(made.to_device_, device->create_stream());
  TOWPATH_TRY(made.to_host_, device->create_stream());
  made.device_ = std::move(device);
  return made;
}

}  // namespace towpath::staging
