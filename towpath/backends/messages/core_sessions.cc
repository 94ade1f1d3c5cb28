// How links come up: sessions (net/session), whose handshakes travel in frames of the kind hello.
#include <new>
#include <utility>

#include <towpath/backends/messages/core.h>
#include <towpath/core/format.h>
#include <towpath/sys/random.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

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
                                             {{"backend", carrier_.name}, {"agent", self_.name}});
  sessions_.emplace(*worker_, clock_,
                    net::SessionOptions{.wrap = wrap_handshake,
                                        .has_connections = carrier_.has_connections,
                                        .most_half_open = 1024,
                                        .most_half_open_of_one = 1,
                                        .every = timing_.heartbeat,
                                        .speaks_after = timing_.heartbeat,
                                        .timeout = timing_.timeout},
                    log_, refused);
}

net::SessionParty MessageBackend::party(std::uint64_t session) const {
  PartyData data{.session = session};
  if (!carrier_.has_connections) data.address = info_.address;
  return {.agent = self_, .instance = info_.instance, .data = encode(data)};
}

// ---- The side that dials

Result<Link*> MessageBackend::dial(const AgentIdentity& peer, const ConnectionInfo& info) {
  TOWPATH_TRY(check_room());
  const std::uint64_t number = sys::random_u64();
  TOWPATH_TRY(
      auto session,
      sessions_->dial({info.secret, carrier_.name}, party(number),
                      {.peer = {.agent = peer, .instance = info.instance, .name = to_string(peer)},
                       .numbers = {.ours = number, .theirs = 0},
                       .address = info.address}));
  auto link = std::make_unique<Link>(true);
  link->adopt(std::move(session));
  return links_->keep(number, std::move(link));
}

// By one of the addresses that are tried: the first that answers.
Status MessageBackend::on_answer(void* owner, const net::Message& message, ConstByteSpan body) {
  TOWPATH_TRY(const Frame frame, decode_frame(message.head, body.size()));
  if (closing_ || frame.header.kind != FrameKind::hello)
    return error(Code::denied, "no answer to a hello");
  return take_answer(*static_cast<Link*>(static_cast<net::Session*>(owner)->owner), message.from,
                     body);
}

Status MessageBackend::take_answer(Link& link, std::uint64_t from, ConstByteSpan answer) {
  TOWPATH_TRY(const auto outcome, link.session->prove(answer));
  TOWPATH_TRY(const PartyData listener, decode_party_data(outcome.listener_data));
  TOWPATH_TRY(links_->know(link, listener.session));
  Status confirmed = sessions_->confirm(*link.session, outcome, listener.session, from);
  if (!confirmed.ok()) links_->forget(listener.session);
  return confirmed;
}

// ---- The side that is dialled

Status MessageBackend::accept(const InboundText& inbound) {
  const std::uint64_t session = sys::random_u64();
  TOWPATH_TRY(auto accepting, net::AcceptHandshake::begin({info_.secret, carrier_.name},
                                                          party(session), inbound.text));
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
                              .connection = inbound.from};
  return sessions_->accept(std::move(accepting), path);
}

Status MessageBackend::take_confirmation(const InboundText& inbound) {
  const FrameHeader& header = inbound.frame.header;
  TOWPATH_TRY(net::Session* const session,
              sessions_->take_confirmation({.ours = header.id, .theirs = header.session},
                                           inbound.from, inbound.text));
  // What is refused or throws up to release() ends the session with this turn.
  auto link = std::make_unique<Link>(false);
  TOWPATH_TRY(links_->know(*link, header.session));
  Link* known = nullptr;
  try {
    known = links_->keep(header.id, std::move(link));
  } catch (const std::bad_alloc&) {
    links_->forget(header.session);
    return sessions_->no_memory();
  }
  known->adopt(sessions_->release(*session));
  // The peer's first grant, and that this side has the keys.
  links_->send_plain(*known, FrameKind::alive);
  return {};
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
  if (Link* const link = links_->find(session); link == nullptr) {
    taken = take_confirmation(inbound);
  } else if (link->session->is_dialling() && !carrier_.has_connections) {
    whom = link->name();
    taken = take_answer(*link, inbound.from, inbound.text);
  }
  // Somebody may have guessed the session: the peer's own message may still come.
  if (!taken.ok() && taken.code() != Code::not_found) sessions_->refuse(whom, taken);
}

void MessageBackend::on_refused(std::string_view address, const Status& why) {
  if (!closing_) sessions_->refuse(address, why);
}

}  // namespace towpath::backends::messages
