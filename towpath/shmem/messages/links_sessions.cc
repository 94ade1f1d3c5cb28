// How links open: sessions (net/session), whose handshakes travel in frames of their own kind.
#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/shmem/messages/links.h>

namespace towpath::shmem {
namespace {

AgentIdentity identity_of(std::uint32_t pe, std::uint64_t instance) {
  return {.name = cat("PE ", pe), .incarnation = instance};
}

void wrap_handshake(net::MessageBuffer& into, const net::SessionNumbers& numbers,
                    ConstByteSpan handshake) {
  const std::size_t head = head_bytes(0);
  encode_head({.kind = FrameKind::handshake, .from = static_cast<std::uint32_t>(numbers.ours)}, {},
              into.room().first(head));
  std::ranges::copy(handshake, into.room().begin() + static_cast<std::ptrdiff_t>(head));
  into.size = head + handshake.size();
  into.body_bytes = handshake.size();
}

}  // namespace

void Links::open_sessions() {
  sessions_.emplace(
      *worker_, clock_,
      net::SessionOptions{.wrap = wrap_handshake,
                          .has_connections = has_connections_,
                          .most_half_open = SIZE_MAX,  // so many of each PE, and no other is heard
                          // More than one: a PE with several addresses is dialled by them all, and
                          // a hello may be repeated by others.
                          .most_half_open_of_one = 4,
                          .every = heartbeat_.every,
                          .speaks_after = heartbeat_.every / 2,
                          .timeout = heartbeat_.timeout},
      log_);
}

net::SessionParty Links::self() const {
  return {.agent = identity_of(here_.my_pe, instance_), .instance = instance_, .data = {}};
}

net::SessionPath Links::path_to(const Link& link, std::uint64_t connection) const {
  return {.peer = {.agent = identity_of(link.pe, link.place.instance),
                   .instance = link.place.instance,
                   .name = cat("PE ", link.pe)},
          .numbers = {.ours = here_.my_pe, .theirs = link.pe},
          .address = link.place.address,
          .connection = connection};
}

// A hello is answered, an answer confirmed; a confirmation opens the link.
Status Links::take_handshake(const Frame& frame, std::uint64_t from, ConstByteSpan message) {
  const auto found = links_.find(frame.header.from);
  if (found == links_.end())
    return error(Code::denied, cat("a handshake of PE ", frame.header.from, ", which is none"));
  Link& link = found->second;
  if (link.is_open() || !link.is_up())
    return error(Code::denied, cat("a handshake of PE ", link.pe, ", which is known already"));
  if (link.pe > here_.my_pe) {
    if (!has_connections_) return take_answer(link, from, message);
    return error(Code::denied, cat("a hello of PE ", link.pe, ", which is dialled from here"));
  }
  const Status confirmed = take_confirmation(link, from, message);
  if (confirmed.ok()) return {};
  // Where there is no connection it may be another hello.
  if (has_connections_ && confirmed.code() != Code::not_found) return confirmed;
  return accept(link, from, message);
}

// ---- The side that dials

Status Links::dial(Link& link) {
  TOWPATH_TRY(auto session, sessions_->dial(terms(), self(), path_to(link)));
  link.adopt(std::move(session));
  return {};
}

Status Links::on_answer(void* owner, const net::Message& message, ConstByteSpan body) {
  Link& link = *static_cast<Link*>(static_cast<net::Session*>(owner)->owner);
  TOWPATH_TRY(const Frame frame, decode_frame(message.head, body.size()));
  if (frame.header.kind != FrameKind::handshake || frame.header.from != link.pe)
    return error(Code::denied, "no answer to a hello");
  return take_answer(link, message.from, body);
}

Status Links::take_answer(Link& link, std::uint64_t from, ConstByteSpan answer) {
  TOWPATH_TRY(const auto outcome, link.session->prove(answer));
  TOWPATH_TRY(sessions_->confirm(*link.session, outcome, link.pe, from));
  if (link.is_open()) open(link);
  return {};
}

// ---- The side that is dialled

Status Links::accept(Link& link, std::uint64_t from, ConstByteSpan hello) {
  TOWPATH_TRY(auto accepting, net::AcceptHandshake::begin(terms(), self(), hello));
  if (accepting.dialler().agent != identity_of(link.pe, link.place.instance))
    return error(Code::denied, cat("a hello of ", to_string(accepting.dialler().agent),
                                   " in the name of PE ", link.pe));
  return sessions_->accept(std::move(accepting), path_to(link, from));
}

Status Links::take_confirmation(Link& link, std::uint64_t from, ConstByteSpan confirmation) {
  TOWPATH_TRY(
      net::Session* const session,
      sessions_->take_confirmation({.ours = here_.my_pe, .theirs = link.pe}, from, confirmation));
  link.adopt(sessions_->release(*session));
  open(link);
  return {};
}

// ---- Both

void Links::open(Link& link) {
  (void)send(link,
             {.kind = FrameKind::hello, .operand = mine().pid.load(std::memory_order_relaxed)});
}

void Links::on_refused(std::string_view address, const Status& why) {
  if (sessions_) sessions_->refuse(address, why);
}

}  // namespace towpath::shmem
