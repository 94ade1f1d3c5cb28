#include <algorithm>
#include <cstring>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_address.h>
#include <towpath/net/tcp/tcp_receiver.h>

namespace towpath::net {
namespace {

/// Of one connection in one call, bytes that came and bytes of answers: others have a turn, too. A
/// request of a hundred bytes may ask for half a million.
constexpr std::uint64_t kWorkPerCall = 1024 * 1024;
/// What a message is worth in bytes beside its own: a call takes 256 that are empty.
constexpr std::uint64_t kWorkPerMessage = 4096;
/// Of a body that are waited for together.
constexpr std::uint64_t kBytesPerWake = 128 * 1024;
/// Behind a head: short bodies come with it.
constexpr std::size_t kStagedBodyBytes = 8 * 1024;

}  // namespace

TcpReceiver::TcpReceiver(sys::ByteStream& stream, std::uint64_t from, const Limits& limits,
                         MessageListener& listener)
    : stream_(stream),
      from_(from),
      limits_(limits),
      listener_(listener),
      stage_bytes_(MessagePrefix::kBytes + limits.head_bytes + kStagedBodyBytes),
      stage_(std::make_unique_for_overwrite<std::byte[]>(stage_bytes_)) {}

TcpReceiver::~TcpReceiver() {
  if (sink_ != nullptr) sink_->done(false);
}

bool TcpReceiver::has_done_enough() const noexcept { return work_ >= kWorkPerCall; }

Status TcpReceiver::take() {
  work_ = 0;
  if (is_cut_short_) TOWPATH_TRY(take_staged());
  while (!has_done_enough()) {
    std::uint64_t asked = 0;
    TOWPATH_TRY(const std::uint64_t came, read(asked));
    work_ += came;
    TOWPATH_TRY(take_staged());
    if (came < asked) break;  // there was no more
  }
  wait_for_more();
  return {};
}

// A body comes in many segments: to be woken for each costs more than to copy it.
void TcpReceiver::wait_for_more() {
  const std::uint64_t wanted = std::clamp<std::uint64_t>(missing_, 1, kBytesPerWake);
  if (wanted == wakes_at_) return;
  wakes_at_ = wanted;
  stream_.wake_at(wanted);
}

// Straight into the memory of the body that comes, as far as it is wanted; what is behind it, or
// all else, into the stage.
Result<std::uint64_t> TcpReceiver::read(std::uint64_t& asked) {
  PartArray<ByteSpan, kMostParts + 1> places;
  const std::span<ByteSpan> parts = places.all();
  std::size_t count = 0;
  std::uint64_t straight = 0;
  if (missing_ > 0 && sink_ != nullptr && !is_dropped_) {
    const std::size_t given = sink_->room(parts.first(kMostParts));
    is_dropped_ = given == 0;
    for (; count < given && straight < missing_; ++count) {
      parts[count] =
          parts[count].first(std::min<std::uint64_t>(parts[count].size(), missing_ - straight));
      straight += parts[count].size();
    }
  }
  asked = straight;
  if (straight == missing_ || is_dropped_ || sink_ == nullptr) {
    parts[count++] = {stage_.get() + end_, stage_bytes_ - end_};
    asked += stage_bytes_ - end_;
  }
  const auto read = stream_.read_parts(parts.first(count));
  // The memory may have been unmapped by its owner: that is not the connection's fault.
  if (!read.ok() && read.code() == Code::out_of_range && straight > 0) {
    is_dropped_ = !sink_->faulted();
    return asked = 0;
  }
  TOWPATH_TRY(read.status());
  const sys::ByteStream::Read& got = *read;
  if (got.ended) return error(Code::peer_lost, "the other side has closed the connection");
  const std::uint64_t placed = std::min<std::uint64_t>(got.size_bytes, straight);
  if (placed > 0) {
    sink_->came(placed);
    missing_ -= placed;
    if (missing_ == 0) put_down();
  }
  end_ += got.size_bytes - placed;
  return got.size_bytes;
}

void TcpReceiver::consume(std::size_t bytes) noexcept {
  begin_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
}

// Whole messages stay there when the call has done enough: has_rest().
Status TcpReceiver::take_staged() {
  for (;;) {
    if (missing_ > 0) {
      if (begin_ == end_) return {};
      take_body();
      continue;
    }
    is_cut_short_ = has_done_enough() && begin_ != end_;
    if (is_cut_short_ || begin_ == end_) return {};
    TOWPATH_TRY(const bool is_whole, take_head());
    if (is_whole) continue;
    // What is there of a head goes to the begin: the rest fits behind it.
    std::memmove(stage_.get(), stage_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    return {};
  }
}

/// False: it has not come as a whole.
Result<bool> TcpReceiver::take_head() {
  const ConstByteSpan come = staged();
  if (come.size() < MessagePrefix::kBytes) return false;
  const MessagePrefix prefix = load_prefix(come);
  if (prefix.head_bytes > limits_.head_bytes || prefix.body_bytes > limits_.body_bytes) {
    return error(Code::corrupt, cat("a message of ", prefix.head_bytes, " and ", prefix.body_bytes,
                                    " bytes; at most ", limits_.head_bytes, " and ",
                                    limits_.body_bytes, " were agreed on"));
  }
  const ConstByteSpan behind = come.subspan(MessagePrefix::kBytes);
  if (behind.size() < prefix.head_bytes) return false;
  ConstByteSpan head = behind.first(prefix.head_bytes);
  // It must last until the body has come, and the stage is written over before.
  if (behind.size() - head.size() < prefix.body_bytes) {
    head_.assign(head.begin(), head.end());
    head = head_;
  }
  sink_ = listener_.on_message({.head = head, .body_bytes = prefix.body_bytes, .from = from_});
  if (prefix.body_bytes == 0) sink_ = nullptr;
  if (sink_ != nullptr && !stream_.moves_by_kernel()) sink_->comes_by_process();
  missing_ = prefix.body_bytes;
  is_dropped_ = false;
  work_ += kWorkPerMessage;
  consume(MessagePrefix::kBytes + prefix.head_bytes);
  return true;
}

void TcpReceiver::take_body() {
  const ConstByteSpan come = staged().first(std::min<std::uint64_t>(staged().size(), missing_));
  if (sink_ != nullptr && !is_dropped_) is_dropped_ = !sink_->take(come);
  missing_ -= come.size();
  if (missing_ == 0) put_down();
  consume(come.size());
}

void TcpReceiver::put_down() {
  if (BodySink* const sink = std::exchange(sink_, nullptr)) sink->done(true);
}

}  // namespace towpath::net
