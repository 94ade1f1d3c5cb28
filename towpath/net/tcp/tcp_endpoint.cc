#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/net/tcp/tcp_endpoint.h>

namespace towpath::net {

TcpEndpoint::~TcpEndpoint() {
  for (Dial& dial : dials_) hang_up(dial);
  hang_up(way_);
  for (Unsent& message : unsent_) put_away(message);
}

// ---- Dialing

Status TcpEndpoint::dial(TcpPlace place) {
  place_ = std::move(place);
  for (const Endpoint& endpoint : place_.endpoints) {
    Dial dial{.where = to_string(to_address(endpoint))};
    auto stream = connect(endpoint);
    Status why = stream.status();
    if (stream.ok()) {
      dial.stream = *std::move(stream);
      auto tag = loop_.add(dial.stream->fd(), *this);
      why = tag.status();
      if (tag.ok()) dial.tag = *tag;
    }
    if (why.ok()) {
      dials_.push_back(std::move(dial));
    } else {
      refusals_ += cat(refusals_.empty() ? "" : "; ", dial.where, ": ", why.message());
    }
  }
  if (!dials_.empty()) return {};
  return error(Code::unavailable, cat("no address of the peer can be reached: ", refusals_),
               "look at the routes to the peer's network");
}

void TcpEndpoint::hang_up(Dial& dial) {
  if (dial.stream) loop_.remove(dial.stream->fd(), std::exchange(dial.tag, 0));
  dial.stream.reset();
}

void TcpEndpoint::drop(std::size_t index, const Status& why) {
  refusals_ += cat(refusals_.empty() ? "" : "; ", dials_[index].where, ": ", why.message());
  hang_up(dials_[index]);
  dials_.erase(dials_.begin() + static_cast<std::ptrdiff_t>(index));
  if (dials_.empty())
    breaks(error(Code::peer_lost, cat("nobody answers for the peer: ", refusals_)));
}

void TcpEndpoint::hear(std::size_t index) {
  Dial& dial = dials_[index];
  const auto got = dial.stream->read_some(std::span(dial.greeting).subspan(dial.heard));
  if (!got.ok()) return drop(index, got.status());
  if (got->ended) return drop(index, error(Code::peer_lost, "closed"));
  dial.heard += got->size_bytes;
  if (dial.heard < dial.greeting.size()) return;
  if (dial.greeting != greeting_of(place_.instance))
    return drop(index, error(Code::denied, "somebody else listens there"));
  Dial found = std::move(dial);
  dials_.erase(dials_.begin() + static_cast<std::ptrdiff_t>(index));
  for (Dial& other : dials_) hang_up(other);
  dials_.clear();
  if (const Status opened = open(std::move(found)); !opened.ok()) breaks(opened);
}

Status TcpEndpoint::open(Dial dial) {
  way_ = std::move(dial);
  TOWPATH_TRY(const std::size_t put, way_.stream->write_some(as_bytes(place_.secret)));
  if (put != place_.secret.size()) return error(Code::peer_lost, "no room for the secret");
  return leave_all();
}

// ---- Events

void TcpEndpoint::on_event(const run::PollEvent& event) {
  if (way_.tag != event.tag) {
    const auto dial = std::ranges::find(dials_, event.tag, &Dial::tag);
    if (dial != dials_.end()) hear(static_cast<std::size_t>(dial - dials_.begin()));
    return;
  }
  if (event.writable) {
    if (const Status left = leave_all(); !left.ok()) return breaks(left);
  }
  if (event.readable || event.broken) hear_end();
}

// Nothing is said on this way back: whatever comes is its end.
void TcpEndpoint::hear_end() {
  std::array<std::byte, 1> nothing;
  const auto got = way_.stream->read_some(nothing);
  if (got.ok() && !got->ended && got->size_bytes == 0) return;
  breaks(got.ok() ? error(Code::peer_lost, got->ended ? "the other side has closed the connection"
                                                      : "the other side speaks out of turn")
                  : got.status());
}

void TcpEndpoint::breaks(const Status& why) {
  if (std::exchange(is_broken_, true)) return;
  hang_up(way_);
  listener_.on_broken(owner_, error(Code::peer_lost, std::string(why.message())));
}

// ---- Messages

std::size_t TcpEndpoint::Unsent::parts(std::span<ConstByteSpan> into) {
  std::size_t count = 0;
  if (!left.empty()) into[count++] = left;
  if (rest != nullptr) return count + rest->parts(into.subspan(count));
  if (copied_left > 0) into[count++] = ConstByteSpan(copied).last(copied_left);
  return count;
}

void TcpEndpoint::Unsent::advance(std::uint64_t bytes) {
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

void TcpEndpoint::put_away(Unsent& message) {
  if (message.rest != nullptr) std::exchange(message.rest, nullptr)->done();
  if (message.buffer) buffers_.give_back(std::move(message.buffer));
}

Status TcpEndpoint::leave(Unsent& message) {
  std::array<ConstByteSpan, kMostParts> parts;
  while (!message.has_left()) {
    const std::size_t count = message.parts(parts);
    TOWPATH_TRY(const std::size_t some, way_.stream->write_parts(std::span(parts).first(count)));
    if (some == 0) return {};
    message.advance(some);
  }
  return {};
}

Status TcpEndpoint::leave_all() {
  Status left;
  while (left.ok() && !unsent_.empty()) {
    left = leave(unsent_.front());
    if (!left.ok() || !unsent_.front().has_left()) break;
    put_away(unsent_.front());
    unsent_.pop_front();
  }
  watch_room();
  return left;
}

void TcpEndpoint::watch_room() {
  if (!way_.stream || wants_writable_ != unsent_.empty()) return;
  wants_writable_ = !unsent_.empty();
  loop_.want_writable(way_.stream->fd(), way_.tag, wants_writable_);
}

Status TcpEndpoint::send(std::unique_ptr<MessageBuffer> buffer, BodySource* rest,
                         std::uint64_t rest_bytes, std::optional<unsigned>) {
  Unsent message{.left = buffer->with_prefix(rest_bytes), .rest = rest, .rest_left = rest_bytes};
  message.buffer = std::move(buffer);
  Status left = is_broken_ ? error(Code::peer_lost, "the connection is broken") : Status();
  if (left.ok() && way_.stream && unsent_.empty()) left = leave(message);
  if (!left.ok() || message.has_left()) {
    put_away(message);
    return left;
  }
  unsent_.push_back(std::move(message));
  watch_room();
  return {};
}

void TcpEndpoint::copy(BodySource& rest) {
  const auto found = std::ranges::find(unsent_, &rest, &Unsent::rest);
  if (found == unsent_.end()) return;
  found->copied.reserve(found->rest_left);
  std::array<ConstByteSpan, kMostParts> parts;
  while (found->rest_left > 0) {
    const std::size_t count = rest.parts(parts);
    std::uint64_t bytes = 0;
    for (const ConstByteSpan part : std::span(parts).first(count)) {
      found->copied.insert(found->copied.end(), part.begin(), part.end());
      bytes += part.size();
    }
    rest.left(bytes);
    found->rest_left -= bytes;
  }
  found->copied_left = found->copied.size();
  found->rest = nullptr;
  rest.done();
}

}  // namespace towpath::net
