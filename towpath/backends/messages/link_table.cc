#include <algorithm>
#include <bit>
#include <utility>

#include <towpath/backends/messages/link_table.h>

namespace towpath::backends::messages {

MessageConnection::~MessageConnection() {
  if (link == nullptr) return;
  std::erase(link->connections, this);
  if (link->lost && link->connections.empty() && link->notes.waiting.empty()) table->erase(*link);
}

// ---- Which there are

Rail* LinkTable::find(std::uint64_t session) const {
  const auto found = rails_.find(session);
  return found == rails_.end() || found->second->lost ? nullptr : found->second;
}

Rail* LinkTable::find_by_peer(std::uint64_t peer_session) const {
  const auto found = by_peer_session_.find(peer_session);
  return found == by_peer_session_.end() || found->second->lost ? nullptr : found->second;
}

// What others began is not used: who dials knows with whom it speaks, who is dialled does not.
Link* LinkTable::find_dialled(std::uint64_t instance) const {
  const auto found = std::ranges::find_if(links_, [&](const auto& link) {
    return link->is_dialled && link->instance() == instance && !link->is_over();
  });
  return found == links_.end() ? nullptr : found->get();
}

Link* LinkTable::find_accepted(std::uint64_t instance, std::uint64_t number) const {
  const auto found = std::ranges::find_if(links_, [&](const auto& link) {
    return !link->is_dialled && link->instance() == instance && link->number == number &&
           !link->is_over();
  });
  return found == links_.end() ? nullptr : found->get();
}

// For what is noted when there may be no memory: a link once as busy, a rail as lost once by the
// carrier and once by us, and what it had under way as to be done again.
void LinkTable::reserve_for(Link& link, std::size_t rails) {
  const std::size_t most = std::bit_ceil(rails_.size() + 1);
  busy_.reserve(most);
  broken_.reserve(2 * most);
  if (rails > 1) link.again.reserve(rails * kWindow);
}

Rail* LinkTable::keep(std::uint64_t session, std::unique_ptr<Link> link) {
  reserve_for(*link, 1);
  links_.reserve(std::bit_ceil(links_.size() + 1));
  Rail* const rail = link->rails.front().get();
  rails_.emplace(session, rail);
  links_.push_back(std::move(link));
  return rail;
}

Rail* LinkTable::keep(std::uint64_t session, std::unique_ptr<Rail> rail) {
  Link& link = rail->link;
  reserve_for(link, link.rails.size() + 1);
  link.rails.reserve(link.rails.size() + 1);
  rails_.emplace(session, rail.get());
  return link.rails.emplace_back(std::move(rail)).get();
}

Status LinkTable::know(Rail& rail, std::uint64_t peer_session) {
  if (by_peer_session_.emplace(peer_session, &rail).second) return {};
  return error(Code::denied, "another peer has this session");
}

void LinkTable::take_out(const Rail& rail) {
  const auto [ours, theirs] = rail.session->numbers();
  const auto found = by_peer_session_.find(theirs);
  if (found != by_peer_session_.end() && found->second == &rail) by_peer_session_.erase(found);
  rails_.erase(ours);
}

void LinkTable::erase(Link& link) {
  if (link.is_listed) std::erase(busy_, &link);
  for (const auto& rail : link.rails) take_out(*rail);
  std::erase_if(links_, [&](const auto& one) { return one.get() == &link; });
}

void LinkTable::erase(Rail& rail) {
  take_out(rail);
  std::erase_if(rail.link.rails, [&](const auto& one) { return one.get() == &rail; });
}

void LinkTable::break_off(Rail& rail, Status why) {
  if (rail.lost) return;
  rail.lost = true;
  rail.why = std::move(why);
  note_broken(rail, rail.why);
}

void LinkTable::break_off(Link& link, const Status& why) {
  if (link.lost) return;
  link.lost = true;
  link.why = why;
  for (const auto& rail : link.rails) break_off(*rail, why);
}

// ---- What is sent

// A kernel to which something comes for a closed socket drops what it had still to deliver of it.
void LinkTable::send(Rail& rail, OutboundFrame out) {
  Status sent;
  if (rail.lost || rail.link.is_closed_there || rail.session->endpoint() == nullptr) {
    if (out.rest != nullptr) out.rest->done();
    out.drop_room();
  } else {
    sent = hand_over(*rail.session, out);
  }
  if (out.buffer != nullptr) buffers_.give_back(std::move(out.buffer));
  if (!sent.ok()) break_off(rail, std::move(sent));
}

Status LinkTable::hand_over(net::Session& session, OutboundFrame& out) {
  const Instant now = clock_.now();
  if (out.room == nullptr)
    return session.send(std::move(out.buffer), now, out.rest, out.payload_bytes, out.into);
  Status sent = session.send_room(*out.room, out.begin, out.bytes_in_room(), out.into, now);
  if (!sent.ok()) out.drop_room();
  return sent;
}

void LinkTable::send_plain(Rail& rail, FrameKind kind, std::uint8_t flags, std::uint64_t id) {
  auto buffer = buffers_.take();
  FrameHeader header = rail.header(kind, clock_.now());
  header.flags |= flags;
  header.id = id;
  FrameWriter(*buffer, header).finish();
  send(rail, {.buffer = std::move(buffer)});
}

}  // namespace towpath::backends::messages
