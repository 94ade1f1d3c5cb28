// How links come up: the handshake (net/session), in frames of the kind hello.
#include <new>
#include <utility>

#include <towpath/backends/messages/core.h>
#include <towpath/core/text.h>
#include <towpath/sys/random.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

/// Links that others began with a hello that holds, and have not confirmed.
constexpr std::size_t kMaxHalfOpen = 1024;

}  // namespace

net::SessionParty MessageBackend::party(std::uint64_t session) const {
  PartyData data{.session = session};
  if (!carrier_.has_connections) data.address = info_.address;
  return {.agent = self_, .instance = info_.instance, .data = encode(data)};
}

std::unique_ptr<net::MessageBuffer> MessageBackend::hello_frame(const Link& link,
                                                                ConstByteSpan handshake) {
  auto buffer = worker_->buffers().take();
  FrameWriter frame(*buffer,
                    {.kind = FrameKind::hello, .session = link.session, .id = link.peer_session});
  frame.append(handshake);
  frame.finish();
  return buffer;
}

// ---- The side that dials

Result<Link*> MessageBackend::dial(const AgentIdentity& peer, const ConnectionInfo& info) {
  TOWPATH_TRY(auto link, make_link(sys::random_u64(), peer, info.instance));
  link->is_dialled = true;
  TOWPATH_TRY(link->dialling,
              net::DialHandshake::begin({info.secret, carrier_.name}, party(link->session),
                                        {peer, info.instance}));
  TOWPATH_TRY(
      link->endpoint,
      worker_->connect(info.address, hello_frame(*link, link->dialling->hello()), link.get()));
  return keep(std::move(link));
}

// By one of the addresses that are tried: the first that answers.
Status MessageBackend::on_answer(void* owner, const net::Message& message, ConstByteSpan body) {
  Link& link = *static_cast<Link*>(owner);
  TOWPATH_TRY(const Frame frame, decode_frame(message.head, body.size()));
  if (closing_ || frame.header.kind != FrameKind::hello || !link.dialling)
    return error(Code::denied, "no answer to a hello");
  return take_answer(link, message.from, body);
}

Status MessageBackend::take_answer(Link& link, std::uint64_t from, ConstByteSpan answer) {
  TOWPATH_TRY(const auto outcome, link.dialling->take(answer));
  TOWPATH_TRY(const PartyData listener, decode_party_data(outcome.listener_data));
  TOWPATH_TRY(agree(link, listener.session, from, outcome.keys));
  link.dialling.reset();
  // What is sent behind the confirmation may overtake it, where there is no connection: there the
  // link is up when the peer's first frame shows that it has the keys.
  link.up = carrier_.has_connections;
  return link.endpoint->send(hello_frame(link, outcome.confirmation), nullptr, 0, {});
}

// ---- The side that is dialled

Status MessageBackend::accept(const InboundText& inbound) {
  const std::uint64_t session = sys::random_u64();
  TOWPATH_TRY(auto accepting, net::AcceptHandshake::begin({info_.secret, carrier_.name},
                                                          party(session), inbound.text));
  TOWPATH_TRY(const PartyData dialler, decode_party_data(accepting.dialler().data));
  if (accepting.dialler().instance == info_.instance)
    return error(Code::denied, "a hello of this very backend");
  if (half_open_.size() >= kMaxHalfOpen)
    return error(Code::exhausted, cat(half_open_.size(), " peers have begun and not confirmed"));
  if (half_open_.contains(dialler.session) || by_peer_session_.contains(dialler.session))
    return error(Code::denied, "a hello that came before");
  TOWPATH_TRY(auto link,
              make_link(session, accepting.dialler().agent, accepting.dialler().instance));
  link->peer_session = dialler.session;
  link->connection = inbound.from;
  link->accepting.emplace(std::move(accepting));
  // Known before it is answered: a peer that was answered and is not known would be lost.
  Link& known = *keep(std::move(link));
  try {
    half_open_.emplace(dialler.session, &known);
    Status replied = reply(known, dialler.address);
    if (!replied.ok()) erase(known);
    return replied;
  } catch (const std::bad_alloc&) {
    erase(known);
    return no_memory_;
  }
}

Status MessageBackend::reply(Link& link, ConstByteSpan address) {
  auto answer = hello_frame(link, link.accepting->answer());
  if (!carrier_.has_connections) {
    TOWPATH_TRY(link.endpoint, worker_->connect(address, std::move(answer), &link));
    return {};
  }
  TOWPATH_TRY(link.endpoint, worker_->answer(link.connection, &link));
  return link.endpoint->send(std::move(answer), nullptr, 0, {});
}

Status MessageBackend::take_confirmation(Link& link, ConstByteSpan confirmation) {
  TOWPATH_TRY(const net::SessionKeys keys, link.accepting->take(confirmation));
  TOWPATH_TRY(agree(link, link.peer_session, link.connection, keys));
  half_open_.erase(link.peer_session);
  link.accepting.reset();
  link.up = true;
  link.endpoint->admit();
  send_plain(link, FrameKind::alive);  // the peer's first grant, and that this side has the keys
  return {};
}

// ---- Both

Status MessageBackend::agree(Link& link, std::uint64_t peer_session, std::uint64_t from,
                             const net::SessionKeys& keys) {
  if (!by_peer_session_.emplace(peer_session, &link).second)
    return error(Code::denied, "another peer has this session");
  link.peer_session = peer_session;
  link.connection = from;
  link.sealer = net::Sealer(keys.sending);
  link.seals = net::SealReader(
      keys.receiving, carrier_.has_connections ? net::Delivery::ordered : net::Delivery::unordered);
  link.heard_at = clock_.now();
  return {};
}

// A hello has no session of the receiver's; an answer and a confirmation have.
void MessageBackend::take_hello(const InboundText& inbound) {
  const std::uint64_t session = inbound.frame.header.id;
  if (session == 0) {
    if (const Status accepted = accept(inbound); !accepted.ok()) refuse("a hello", accepted);
    return;
  }
  const auto found = links_.find(session);
  if (found == links_.end() || found->second->lost) return;
  Link& link = *found->second;
  Status taken;
  if (link.dialling && !carrier_.has_connections) {
    taken = take_answer(link, inbound.from, inbound.text);
  } else if (link.accepting && link.connection == inbound.from) {
    taken = take_confirmation(link, inbound.text);
  }
  // Somebody may have guessed the session: the peer's own message may still come.
  if (!taken.ok()) refuse(to_string(link.peer), taken);
}

void MessageBackend::end_session(Link& link, const Status& why) {
  refuse(to_string(link.peer), why);
  break_off(link, error(Code::peer_lost,
                        cat("the session with ", to_string(link.peer), " is not safe any more"))
                      .because(why));
}

void MessageBackend::refuse(std::string_view whom, const Status& why) {
  if (refused_ != nullptr) refused_->add(1);
  log_.warning("refused", {{"whom", std::string(whom)}, {"why", why.to_string()}});
}

void MessageBackend::on_refused(std::string_view address, const Status& why) {
  if (!closing_) refuse(address, why);
}

}  // namespace towpath::backends::messages
