// How links come up: sessions (net/session), whose handshakes travel in frames of the kind hello.
#include <algorithm>
#include <new>
#include <utility>

#include <towpath/backends/messages/core.h>
#include <towpath/core/format.h>
#include <towpath/sys/random.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

/// And half of those that peers may begin at most, where each takes a descriptor.
constexpr std::size_t kMostHalfOpen = 1024;
/// Over connections: one that is repeated by others must not bar the honest one.
constexpr std::size_t kMostHalfOpenOfOne = 16;
/// That a peer may have, those among them that were given up and are not known to be.
constexpr std::size_t kMostRailsOfOne = 64;

void wrap_handshake(net::MessageBuffer& into, const net::SessionNumbers& numbers,
                    ConstByteSpan handshake) {
  FrameWriter frame(into,
                    {.kind = FrameKind::hello, .session = numbers.ours, .id = numbers.theirs});
  frame.append(handshake);
  frame.finish();
}

}  // namespace

void MessageBackend::open_sessions(telemetry::Metrics* metrics) {
  telemetry::Counter* const refused =
      metrics == nullptr ? nullptr
                         : &metrics->counter("towpath_refused_sessions",
                                             {{"backend", carrier_.name},
                                              {"agent", telemetry::name_label(self_.name)}});
  sessions_.emplace(*worker_, clock_,
                    net::SessionOptions{
                        .wrap = wrap_handshake,
                        .has_connections = carrier_.has_connections,
                        .most_half_open = std::min(kMostHalfOpen, carrier_.most_accepted / 2),
                        .most_half_open_of_one = carrier_.has_connections ? kMostHalfOpenOfOne : 1,
                        .every = timing_.heartbeat,
                        .speaks_after = timing_.heartbeat,
                        .timeout = timing_.timeout},
                    log_, refused);
}

net::SessionParty MessageBackend::party(std::uint64_t session, std::uint64_t link) const {
  PartyData data{.session = session, .address = {}, .link = link, .lease = timing_.lease};
  if (!carrier_.has_connections) data.address = info_.address;
  return {.agent = self_, .instance = info_.instance, .data = encode(data)};
}

// ---- The side that dials

Result<std::unique_ptr<net::Session>> MessageBackend::greet(const net::SessionPeer& peer,
                                                            const ConnectionInfo& info,
                                                            ConstByteSpan address,
                                                            std::uint64_t session,
                                                            std::uint64_t link) {
  return sessions_->dial(
      {info.secret, carrier_.name}, party(session, link),
      {.peer = peer, .numbers = {.ours = session, .theirs = 0}, .address = address});
}

Result<Link*> MessageBackend::dial(const AgentIdentity& peer, const ConnectionInfo& info) {
  const std::uint64_t number = sys::random_u64();
  auto link = std::make_unique<Link>(
      true, net::SessionPeer{.agent = peer, .instance = info.instance, .name = to_string(peer)},
      number);
  if (carrier_.rails > 1) link->info = std::make_unique<const ConnectionInfo>(info);
  TOWPATH_TRY(auto session, greet(link->known_peer(), info, info.address, number,
                                  carrier_.rails > 1 ? number : 0));
  link->rails.front()->adopt(std::move(session));
  return &links_->keep(number, std::move(link))->link;
}

// By one of the addresses that are tried: the first that answers.
Status MessageBackend::on_answer(void* owner, const net::Message& message, ConstByteSpan body) {
  TOWPATH_TRY(const Frame frame, decode_frame(message.head, body.size()));
  if (closing_ || frame.header.kind != FrameKind::hello)
    return error(Code::denied, "no answer to a hello");
  return take_answer(*static_cast<Rail*>(static_cast<net::Session*>(owner)->owner), message.from,
                     body);
}

Status MessageBackend::take_answer(Rail& rail, std::uint64_t from, ConstByteSpan answer) {
  TOWPATH_TRY(const auto outcome, rail.session->prove(answer));
  TOWPATH_TRY(const PartyData listener, decode_party_data(outcome.listener_data));
  TOWPATH_TRY(links_->know(rail, listener.session));
  Status confirmed = sessions_->confirm(*rail.session, outcome, listener.session, from);
  if (!confirmed.ok()) links_->forget(listener.session);
  Link& link = rail.link;
  if (confirmed.ok() && link.info != nullptr && !link.has_several && listener.link != 0) {
    RmaProtocol::begin_to_measure(link);
    links_->list(link);
  }
  return confirmed;
}

// ---- The side that is dialled

Status MessageBackend::accept(const InboundText& inbound) {
  const std::uint64_t session = sys::random_u64();
  TOWPATH_TRY(auto accepting,
              net::AcceptHandshake::begin({info_.secret, carrier_.name},
                                          party(session, carrier_.has_connections ? session : 0),
                                          inbound.text));
  TOWPATH_TRY(const PartyData data, decode_party_data(accepting.dialler().data));
  if (accepting.dialler().instance == info_.instance)
    return error(Code::denied, "a hello of this very backend");
  if (links_->knows(data.session)) return error(Code::denied, "a hello that came before");
  TOWPATH_TRY(check_room());
  const net::SessionParty& dialler = accepting.dialler();
  const net::SessionPath path{.peer = {.agent = dialler.agent,
                                       .instance = dialler.instance,
                                       .name = to_string(dialler.agent)},
                              .numbers = {.ours = session, .theirs = data.session},
                              .address = data.address,
                              .connection = inbound.from,
                              .label = {.link = data.link, .lease = data.lease}};
  return sessions_->accept(std::move(accepting), path);
}

Status MessageBackend::take_confirmation(const InboundText& inbound) {
  const FrameHeader& header = inbound.frame.header;
  TOWPATH_TRY(net::Session* const session,
              sessions_->take_confirmation({.ours = header.id, .theirs = header.session},
                                           inbound.from, inbound.text));
  // What is refused or throws up to release() ends the session with this turn.
  TOWPATH_TRY(Rail* const known, keep_accepted(*session));
  known->adopt(sessions_->release(*session));
  // The peer's first grant, and that this side has the keys.
  links_->send_plain(*known, FrameKind::alive);
  return {};
}

// Of a link that the peer has already, or the first of a new one.
Result<Rail*> MessageBackend::keep_accepted(const net::Session& session) {
  const auto [ours, theirs] = session.numbers();
  const auto [link_number, lease] = session.label();
  const bool joins = link_number != 0 && link_number != theirs;
  Link* const joined =
      joins ? links_->find_accepted(session.peer().instance, link_number) : nullptr;
  if (joins && (joined == nullptr || joined->peer() != session.peer().agent))
    return error(Code::denied, "a rail of a link that there is not, or not any more");
  if (joined != nullptr && joined->rails.size() >= kMostRailsOfOne)
    return error(Code::exhausted, cat("a link has ", joined->rails.size(), " rails already"));
  std::unique_ptr<Link> link;
  std::unique_ptr<Rail> rail;
  if (joins)
    rail = std::make_unique<Rail>(*joined);
  else
    link = std::make_unique<Link>(false, session.peer(), link_number);
  Rail& accepted = joins ? *rail : *link->rails.front();
  accepted.lease = lease.count() == 0 ? timing_.lease : std::min(lease, timing_.lease);
  TOWPATH_TRY(links_->know(accepted, theirs));
  try {
    if (joins) joined->has_moved = true;
    return joins ? links_->keep(ours, std::move(rail)) : links_->keep(ours, std::move(link));
  } catch (const std::bad_alloc&) {
    links_->forget(theirs);
    return sessions_->no_memory();
  }
}

// A hello has no session of the receiver's; an answer and a confirmation have.
void MessageBackend::take_hello(const InboundText& inbound) {
  const std::uint64_t session = inbound.frame.header.id;
  if (session == 0) {
    if (const Status accepted = accept(inbound); !accepted.ok())
      sessions_->refuse("a hello", accepted);
    return;
  }
  Status taken;
  std::string_view whom = "a confirmation";
  if (Rail* const rail = links_->find(session); rail == nullptr) {
    taken = take_confirmation(inbound);
  } else if (rail->session->is_dialling() && !carrier_.has_connections) {
    whom = rail->link.name();
    taken = take_answer(*rail, inbound.from, inbound.text);
  }
  // Somebody may have guessed the session: the peer's own message may still come.
  if (!taken.ok() && taken.code() != Code::not_found) sessions_->refuse(whom, taken);
}

void MessageBackend::on_refused(std::string_view address, const Status& why) {
  if (!closing_) sessions_->refuse(address, why);
}

}  // namespace towpath::backends::messages
