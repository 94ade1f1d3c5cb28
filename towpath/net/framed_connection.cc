#include <algorithm>
#include <array>

#include <towpath/net/framed_connection.h>

namespace towpath::net {

namespace {

constexpr std::size_t kChunkBytes = 16 * 1024;  // on the stack

}  // namespace

// What came, 0 when there is nothing now.
Result<std::size_t> FramedConnection::read_some(ByteSpan into, std::size_t& budget_bytes) {
  const std::size_t most = std::max(budget_bytes, stream_->buffered_bytes());
  TOWPATH_TRY(const auto read, stream_->read_some(into.first(std::min(into.size(), most))));
  if (read.ended)
    return error(Code::peer_lost, reader_.is_inside_frame()
                                      ? "the peer closed in the middle of a frame"
                                      : "the peer closed");
  budget_bytes -= std::min(budget_bytes, read.size_bytes);
  received_bytes_ += read.size_bytes;
  return read.size_bytes;
}

Result<std::optional<Frame>> FramedConnection::receive(std::size_t& budget_bytes) {
  std::array<std::byte, kChunkBytes> chunk;
  while (may_read(budget_bytes)) {
    const std::size_t wanted = std::min(reader_.wanted_bytes(), chunk.size());
    TOWPATH_TRY(const std::size_t got, read_some(ByteSpan(chunk).first(wanted), budget_bytes));
    if (got == 0) break;
    TOWPATH_TRY(auto frame, reader_.take(ConstByteSpan(chunk).first(got)));
    if (frame) return frame;
  }
  return std::optional<Frame>();
}

Status FramedConnection::discard(std::size_t& budget_bytes) {
  std::array<std::byte, kChunkBytes> chunk;
  while (may_read(budget_bytes)) {
    TOWPATH_TRY(const std::size_t got, read_some(chunk, budget_bytes));
    if (got == 0) break;
  }
  return {};
}

Status FramedConnection::flush() {
  while (!outgoing_.empty()) {
    const auto rest = ConstByteSpan(*outgoing_.front()).subspan(sent_of_first_);
    TOWPATH_TRY(const std::size_t sent, stream_->write_some(rest));
    if (sent == 0) return {};
    sent_of_first_ += sent;
    if (sent_of_first_ < outgoing_.front()->size()) continue;
    outgoing_.pop_front();
    sent_of_first_ = 0;
  }
  return {};
}

}  // namespace towpath::net
