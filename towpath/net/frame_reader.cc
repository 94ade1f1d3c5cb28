#include <utility>

#include <towpath/core/check.h>
#include <towpath/net/frame_reader.h>

namespace towpath::net {

void FrameReader::expect(const wire::OpenLimits& limits) {
  TOWPATH_CHECK(!is_inside_frame(), "other limits in the middle of a frame");
  limits_ = limits;
}

std::size_t FrameReader::wanted_bytes() const noexcept {
  const std::uint64_t total = header_ ? header_->total_bytes() : wire::kHeaderBytes;
  return static_cast<std::size_t>(total - buffer_.size());
}

Result<std::optional<Frame>> FrameReader::take(ConstByteSpan bytes) {
  TOWPATH_CHECK(bytes.size() <= wanted_bytes(), "more bytes than were wanted");
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (!header_) TOWPATH_TRY(wire::check_beginning(buffer_));
  if (!header_ && buffer_.size() == wire::kHeaderBytes) {
    TOWPATH_TRY(header_, wire::read_header(buffer_, limits_));
  }
  if (!header_ || buffer_.size() < header_->total_bytes()) return std::optional<Frame>();
  const wire::Header header = *std::exchange(header_, std::nullopt);
  Frame frame{.kind = header.kind,
              .sealed = std::exchange(buffer_, {}),
              .payload_offset = static_cast<std::size_t>(header.header_bytes)};
  TOWPATH_TRY(wire::open(frame.sealed, limits_).status());
  return std::optional<Frame>(std::move(frame));
}

}  // namespace towpath::net
