#include <algorithm>
#include <bit>

#include <towpath/backends/messages/link_table.h>

namespace towpath::backends::messages {

MessageConnection::~MessageConnection() {
  if (link == nullptr) return;
  std::erase(link->connections, this);
  if (link->lost && link->connections.empty() && link->notes.waiting.empty()) table->erase(*link);
}

// ---- Which there are

Link* LinkTable::find(std::uint64_t session) const {
  const auto found = links_.find(session);
  return found == links_.end() || found->second->lost ? nullptr : found->second.get();
}

Link* LinkTable::find_by_peer(std::uint64_t peer_session) const {
  const auto found = by_peer_session_.find(peer_session);
  return found == by_peer_session_.end() || found->second->lost ? nullptr : found->second;
}

// What others began is not used: who dials knows with whom it speaks, who is dialled does not.
Link* LinkTable::find_dialled(std::uint64_t instance) const {
  const auto found = std::ranges::find_if(links_, [&](const auto& entry) {
    const Link& link = *entry.second;
    return link.is_dialled && link.session->peer().instance == instance && !link.lost;
  });
  return found == links_.end() ? nullptr : found->second.get();
}

// With room for what is noted of it when there may be no memory: once as busy, and as lost once by
// the carrier and once by us.
Link* LinkTable::keep(std::uint64_t session, std::unique_ptr<Link> link) {
  const std::size_t most = std::bit_ceil(links_.size() + 1);
  busy_.reserve(most);
  broken_.reserve(2 * most);
  return links_.emplace(session, std::move(link)).first->second.get();
}

Status LinkTable::know(Link& link, std::uint64_t peer_session) {
  if (by_peer_session_.emplace(peer_session, &link).second) return {};
  return error(Code::denied, "another peer has this session");
}

void LinkTable::erase(Link& link) {
  if (link.is_listed) std::erase(busy_, &link);
  const auto [ours, theirs] = link.session->numbers();
  const auto found = by_peer_session_.find(theirs);
  if (found != by_peer_session_.end() && found->second == &link) by_peer_session_.erase(found);
  links_.erase(ours);
}

void LinkTable::break_off(Link& link, Status why) {
  if (link.lost) return;
  link.lost = true;
  link.why = std::move(why);
  note_broken(link, link.why);
}

// ---- What is sent

void LinkTable::send(Link& link, OutboundFrame out) {
  Status sent;
  if (link.lost || link.session->endpoint() == nullptr) {
    if (out.rest != nullptr) out.rest->done();
    out.drop_room();
  } else {
    sent = hand_over(*link.session, out);
  }
  if (out.buffer != nullptr) buffers_.give_back(std::move(out.buffer));
  if (!sent.ok()) break_off(link, std::move(sent));
}

Status LinkTable::hand_over(net::Session& session, OutboundFrame& out) {
  const Instant now = clock_.now();
  if (out.room == nullptr)
    return session.send(std::move(out.buffer), now, out.rest, out.payload_bytes, out.into);
  Status sent = session.send_room(*out.room, out.begin, out.bytes_in_room(), out.into, now);
  if (!sent.ok()) out.drop_room();
  return sent;
}

void LinkTable::send_plain(Link& link, FrameKind kind, std::uint8_t flags, std::uint64_t id) {
  auto buffer = buffers_.take();
  FrameHeader header = link.header(kind, clock_.now());
  header.flags |= flags;
  header.id = id;
  FrameWriter(*buffer, header).finish();
  send(link, {.buffer = std::move(buffer)});
}

}  // namespace towpath::backends::messages
