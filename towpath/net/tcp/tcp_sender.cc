#include <algorithm>
#include <new>
#include <utility>

#include <towpath/net/tcp/tcp_sender.h>

namespace towpath::net {
namespace {

/// Of one connection in one call, as of what comes over it: others have a turn, too.
constexpr std::uint64_t kLeavePerCall = 1024 * 1024;

}  // namespace

TcpSender::~TcpSender() { drop_all(); }

void TcpSender::drop_all() {
  for (Unsent& message : unsent_) put_away(message);
  unsent_.clear();
}

std::uint64_t TcpSender::unsent_bytes() const noexcept {
  std::uint64_t all = 0;
  for (const Unsent& message : unsent_) all += message.bytes();
  return all;
}

std::size_t TcpSender::Unsent::parts(std::span<ConstByteSpan> into) {
  std::size_t count = 0;
  if (!left.empty()) into[count++] = left;
  if (rest != nullptr) return count + rest->parts(into.subspan(count));
  if (copied_left > 0) into[count++] = copied->filled().last(copied_left);
  return count;
}

void TcpSender::Unsent::advance(std::uint64_t bytes) {
  const std::size_t head = std::min<std::uint64_t>(bytes, left.size());
  left = left.subspan(head);
  bytes -= head;
  if (rest == nullptr) {
    copied_left -= bytes;
    return;
  }
  rest->left(bytes);
  rest_left -= bytes;
}

// No body is longer than a buffer, and those are used again.
void TcpSender::copy_rest(Unsent& message) {
  message.copied = buffers_.take();
  message.copied->size = message.copied_left = std::exchange(message.rest_left, 0);
  message.rest->copy_out(message.copied->room().first(message.copied_left));
  std::exchange(message.rest, nullptr)->done();
}

void TcpSender::put_away(Unsent& message) {
  if (message.copied) buffers_.give_back(std::move(message.copied));
  drop(std::move(message.buffer), std::exchange(message.rest, nullptr));
}

void TcpSender::drop(std::unique_ptr<MessageBuffer> buffer, BodySource* rest) {
  if (rest != nullptr) rest->done();
  if (buffer) buffers_.give_back(std::move(buffer));
}

Status TcpSender::leave(sys::ByteStream& stream, Unsent& message) {
  PartArray<ConstByteSpan> places;
  const std::span<ConstByteSpan> parts = places.all();
  if (!stream.moves_by_kernel() && message.rest != nullptr && message.rest->may_fault())
    copy_rest(message);
  while (message.bytes() > 0) {
    const std::size_t count = message.parts(parts);
    const auto some = stream.write_parts(parts.first(count));
    // The memory may have been unmapped by its owner: that is not the connection's fault.
    if (!some.ok() && some.code() == Code::out_of_range && message.rest != nullptr) {
      copy_rest(message);
      continue;
    }
    TOWPATH_TRY(some.status());
    if (*some == 0) return {};
    message.advance(*some);
    left_bytes_ += *some;
  }
  return {};
}

Status TcpSender::leave_all(sys::ByteStream& stream) {
  const std::uint64_t enough = left_bytes_ + kLeavePerCall;
  while (!unsent_.empty() && left_bytes_ < enough) {
    TOWPATH_TRY(leave(stream, unsent_.front()));
    if (unsent_.front().bytes() > 0) return {};
    put_away(unsent_.front());
    unsent_.pop_front();
  }
  return {};
}

Status TcpSender::send(sys::ByteStream* stream, std::unique_ptr<MessageBuffer> buffer,
                       BodySource* rest, std::uint64_t rest_bytes) {
  try {  // first: the rest of a message that has left in part must have a place
    unsent_.emplace_back();
  } catch (const std::bad_alloc&) {
    drop(std::move(buffer), rest);
    return no_memory_;
  }
  Unsent& message = unsent_.back();
  message.left = buffer->with_prefix(rest_bytes);
  message.buffer = std::move(buffer);
  message.rest = rest;
  message.rest_left = rest_bytes;
  if (stream == nullptr || unsent_.size() > 1) return {};
  return leave_at_once(*stream);
}

Status TcpSender::leave_at_once(sys::ByteStream& stream) {
  Status left;
  try {
    left = leave_all(stream);
  } catch (const std::bad_alloc&) {
    return {};  // it waits until the socket can be written
  }
  if (left.ok()) return {};
  put_away(unsent_.back());
  unsent_.pop_back();
  return left;
}

Status TcpSender::copy(BodySource& rest) {
  const auto found = std::ranges::find(unsent_, &rest, &Unsent::rest);
  if (found == unsent_.end()) return {};
  try {
    copy_rest(*found);
    return {};
  } catch (const std::bad_alloc&) {  // a message that has left in part cannot be left out
    drop_all();
    return no_memory_;
  }
}

}  // namespace towpath::net
