#include <algorithm>
#include <utility>

#include <towpath/backends/messages/core.h>
#include <towpath/core/format.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

/// Of peers that are gone, links whose last notifications nobody takes, and bytes of these.
constexpr std::size_t kMostLastNotes = 1024;
constexpr std::uint64_t kMostLastNoteBytes = 64ULL << 20U;
/// Answers that wait for a peer that does not read them. It asked for no more than a window.
constexpr std::size_t kMaxUnsent = 4 * kWindow;
constexpr std::uint64_t kMaxUnsentBytes = 4 * kWindowBytes;

}  // namespace

// ---- Links

// They are counted only where they may be too many. What this side dials is its own choice.
Status MessageBackend::check_room() const {
  const auto& rails = links_->rails();
  const std::size_t half_open = sessions_->half_open();
  if (rails.size() + half_open < carrier_.most_accepted) return {};
  const auto is_theirs = [](const auto& entry) {
    return !entry.second->link.is_dialled && !entry.second->lost;
  };
  const std::size_t theirs =
      half_open + static_cast<std::size_t>(std::ranges::count_if(rails, is_theirs));
  if (theirs < carrier_.most_accepted) return {};
  return error(Code::exhausted, cat("peers have begun ", theirs, " connections already"));
}

// It has fallen silent, since nobody uses it: the peer may have let go of it, or be about to.
bool MessageBackend::is_fading(const Link& link) const {
  const Instant now = clock_.now();
  const auto speaks = [&](const auto& rail) {
    return rail->is_up() &&
           (rail->peer_stamp == 0 || now - rail->stamp_heard_at < timing_.heartbeat * 2);
  };
  return link.is_unused() && link.is_up() && std::ranges::none_of(link.rails, speaks);
}

Result<std::unique_ptr<Connection>> MessageBackend::connect(const AgentIdentity& peer,
                                                            ConstByteSpan bytes) {
  TOWPATH_TRY(const ConnectionInfo info, decode_connection_info(bytes));
  if (info.instance == info_.instance || peer == self_) {
    if (peer == self_ && info.instance == info_.instance)
      return std::make_unique<MessageConnection>();
    return error(Code::corrupt, cat("the info given for ", to_string(peer), " is that of ",
                                    info.instance == info_.instance ? "this agent" : "another"));
  }
  Link* link = links_->find_dialled(info.instance);
  if (link != nullptr && link->peer() != peer) {
    return error(Code::corrupt,
                 cat("the info given for ", to_string(peer), " is that of ", link->name()));
  }
  if (link != nullptr && is_fading(*link)) {
    links_->break_off(*link, error(Code::peer_lost, "nobody used it"));
    link = nullptr;
  }
  if (link == nullptr) {
    TOWPATH_TRY(link, dial(peer, info));
  }
  for (const auto& rail : link->rails) {
    if (!rail->is_up()) continue;
    rail->session->count_silence_from(clock_.now());  // nobody used it
    links_->send_plain(*rail, FrameKind::alive, kInUse | kAnswerMe);
    rail->says_in_use = true;
  }
  return std::make_unique<MessageConnection>(*links_, *link);
}

void MessageBackend::teardown(Connection& connection) {
  Link* const link = link_of(connection);
  if (link == nullptr || link->lost) return;
  links_->break_off(
      *link, error(Code::peer_lost, cat("the connection to ", link->name(), " was torn down")));
  report_losses();
  protocol_->deliver();
}

void MessageBackend::on_broken(void* owner, const Status& why) {
  if (closing_) return;
  const net::Session& session = sessions_->note_broken(owner, why);
  if (session.owner != nullptr)
    links_->note_broken(*static_cast<Rail*>(session.owner), session.broken());
}

void MessageBackend::report_broken() {
  links_->report_broken([this](Rail& rail, const Status& why) {
    Link& link = rail.link;
    if (!rail.is_left && !link.is_ended) end(rail, why);
    if (link.lost) report_loss(link);
  });
  bound_last_notes();
}

// They wait as long as this side's program takes none, and their peers may be gone for good: so
// they are bounded, and the oldest go first.
void MessageBackend::bound_last_notes() {
  for (;;) {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    Link* oldest = nullptr;
    for (Link* const link : links_->busy()) {
      if (!link->is_ended || !link->connections.empty()) continue;
      ++count;
      bytes += link->notes.held_bytes;
      if (oldest == nullptr || link->report_before < oldest->report_before) oldest = link;
    }
    if (count <= kMostLastNotes && bytes <= kMostLastNoteBytes) return;
    log_.warning("the last notifications of a peer that is gone are dropped: nobody takes any",
                 {{"peer", oldest->name()}, {"count", cat(oldest->notes.waiting.size())}});
    links_->erase(*oldest);
  }
}

// Nothing travels over it any more. Others do its work, or it was the last. What throws comes
// again, from the start.
void MessageBackend::end(Rail& rail, const Status& why) {
  Link& link = rail.link;
  rail.lost = true;
  if (rail.why.ok()) rail.why = why;
  rail.session->close();
  if (!link.lost && link.is_up()) return leave(rail);
  link.lost = true;
  if (link.why.ok()) link.why = rail.why;
  end(link);
  link.is_ended = true;
}

// Its transfers come to their end.
void MessageBackend::end(Link& link) {
  link.report_before = clock_.now() + timing_.timeout;
  for (const auto& rail : link.rails) {
    rail->lost = true;
    rail->session->close();
  }
  protocol_->stop_all(link, link.why);
}

// What the peer said before the end, over whichever of its links, is offered first: one that has
// closed says bye over each, behind all else. While nobody takes it the loss waits too, but not for
// good.
void MessageBackend::report_loss(Link& link) {
  offer_notes(link);
  if (link.connections.empty()) {
    if (link.notes.waiting.empty()) links_->erase(link);
    return;
  }
  const auto holds_some = [&](const Link* other) {
    return other->instance() == link.instance() && !other->notes.waiting.empty();
  };
  const auto may_bring_some = [&](const auto& entry) {
    const Link& other = entry.second->link;
    return other.instance() == link.instance() && !other.is_dialled && !other.lost;
  };
  const bool more_comes =
      std::ranges::any_of(links_->busy(), holds_some) ||
      (link.is_closed_there && std::ranges::any_of(links_->rails(), may_bring_some));
  if (more_comes && clock_.now() < link.report_before) return links_->list(link);
  if (link.is_loss_reported) return;
  // Copies: the events may drop connections, and with the last one the link.
  const Status reported = link.why;
  const std::vector connections = link.connections;
  link.is_loss_reported = true;  // now: what throws comes again
  for (Connection* connection : connections) events_.on_peer_lost(*connection, reported);
}

void MessageBackend::on_staging_left(net::DeviceStagingBuffer& room) {
  windows_.known(room.device).frames()->give_back(room);
}

// ---- Frames in

net::BodySink* MessageBackend::on_message(const net::Message& message) {
  if (closing_) return nullptr;
  const auto frame = decode_frame(message.head, message.body_bytes);
  if (!frame.ok()) {
    log_.warning("message dropped", {{"why", frame.status().to_string()}});
    return nullptr;
  }
  if (frame->header.kind == FrameKind::hello) return begin_text(*frame, message.from);
  Rail* const rail = hear(*frame, message.from, message.head);
  if (rail == nullptr) return nullptr;
  net::BodySink* sink = nullptr;
  or_lose(*frame, [&] {
    switch (frame->header.kind) {
      case FrameKind::write: sink = begin_write(*frame); return;
      case FrameKind::wrote:
      case FrameKind::data: sink = begin_data(*rail, *frame); return;
      case FrameKind::note: sink = begin_text(*frame, message.from); return;
      default: take(*rail, *frame); return;
    }
  });
  return sink;
}

void MessageBackend::on_staging_filled(net::DeviceStagingBuffer& room, std::uint64_t bytes) {
  if (closing_) return;
  if (bytes > 0) take_room(room, bytes);
  if (const Status again = worker_->receive_into(room); !again.ok())
    log_.warning("fewer messages come straight to a device", {{"why", again.to_string()}});
}

// Somebody's request or answer is lost, and nobody can say whose: rather than let him wait, all are
// told.
void MessageBackend::give_up_device(unsigned device, const Status& why) {
  for (const auto& [session, rail] : links_->rails())
    links_->break_off(rail->link, error(Code::peer_lost,
                                        cat("device ", device,
                                            " does not give what has come for it, so the "
                                            "connection to ",
                                            rail->link.name(), " is given up"),
                                        "look at the device: its driver's log says more")
                                      .because(why));
}

// Only what brings bytes comes this way.
void MessageBackend::take_room(const net::DeviceStagingBuffer& room, std::uint64_t bytes) {
  DeviceWindow& window = windows_.known(room.device);
  const auto opened = window.frames()->open(room, bytes);
  if (!opened.ok() && opened.code() != Code::corrupt)
    return give_up_device(room.device, opened.status());
  const auto frame =
      opened.ok() ? decode_frame(opened->head, opened->body_bytes) : Result<Frame>(opened.status());
  const bool brings = frame.ok() && (frame->header.kind == FrameKind::write ||
                                     frame->header.kind == FrameKind::data);
  if (!brings) {
    log_.warning("message to a device dropped",
                 {{"why", frame.ok() ? "it brings no bytes" : frame.status().to_string()}});
    return;
  }
  Rail* const rail = hear(*frame, 0, opened->head);
  if (rail == nullptr) return;
  const auto land = [&](auto* inbound) {
    if (inbound == nullptr) return;
    inbound->land_from(opened->body_address, frame->payload_bytes, window);
    inbound->done(true);
  };
  if (frame->header.kind == FrameKind::write)
    land(begin_write(*frame));
  else
    land(begin_data(*rail, *frame));
}

/// Null: of nobody that is heard. A seal that does not fit ends the session.
Rail* MessageBackend::hear(const Frame& frame, std::uint64_t connection, ConstByteSpan head) {
  Rail* const rail = links_->find_by_peer(frame.header.session);
  if (rail == nullptr) return nullptr;
  const Instant now = clock_.now();
  const auto is_heard = rail->session->hear(connection, head, now);
  if (!is_heard.ok())
    links_->break_off(*rail, sessions_->distrust(*rail->session, is_heard.status()));
  if (!is_heard.ok() || !*is_heard) return nullptr;
  rail->heard(frame.header, now);
  return rail;
}

InboundWrite* MessageBackend::begin_write(const Frame& frame) {
  InboundWrite& inbound = writes_.take();
  inbound.begin(frame, target_, [this, &inbound] {
    if (closing_) return false;
    const FrameHeader& header = inbound.frame.header;
    const Rail* const rail = links_->find_by_peer(header.session);  // null: it was fenced off
    return rail != nullptr && is_fresh(header.echo, clock_.now(), rail->lease);
  });
  return &inbound;
}

InboundData* MessageBackend::begin_data(Rail& rail, const Frame& frame) {
  if (const Status fits = protocol_->expect(rail, frame); !fits.ok()) {
    links_->break_off(rail.link, fits);
    return nullptr;
  }
  if ((frame.header.flags & kStale) != 0 && !may_answer(rail)) return nullptr;  // it is asked again
  if (frame.payload_bytes == 0) {
    protocol_->take(rail, frame);
    return nullptr;
  }
  const Exchange* const exchange = rail.window.find(frame.header.id);
  InboundData& inbound = data_.take();
  inbound.begin(
      frame, exchange,
      [this, &inbound] {
        const Rail* const its_rail = links_->find_by_peer(inbound.frame.header.session);
        return its_rail != nullptr && RmaProtocol::waits_for(*its_rail, inbound.frame.header.id);
      },
      guard_);
  return &inbound;
}

net::BodySink* MessageBackend::begin_text(const Frame& frame, std::uint64_t from) {
  InboundText& inbound = texts_.take();
  inbound.begin(frame, from);
  if (frame.payload_bytes > 0) return &inbound;
  inbound.done(true);
  return nullptr;
}

void MessageBackend::take_text(InboundText& inbound) {
  if (closing_) return;
  if (inbound.frame.header.kind == FrameKind::hello) return take_hello(inbound);
  if (Rail* const rail = links_->find_by_peer(inbound.frame.header.session))
    take_note(*rail, inbound);
}

void MessageBackend::take(Rail& rail, const Frame& frame) {
  switch (frame.header.kind) {
    case FrameKind::read: return answer_read(rail, frame);
    case FrameKind::noted: return take_noted(rail.link, frame.header.id);
    case FrameKind::fence: return take_fence(rail, frame.header.id);
    case FrameKind::fenced: return take_fenced(rail, frame.header.id);
    case FrameKind::alive:
      if ((frame.header.flags & kAnswerMe) != 0 && may_answer(rail))
        links_->send_plain(rail, FrameKind::alive);
      return;
    case FrameKind::bye: return take_bye(rail);
    default: return;  // on_message() has seen to it
  }
}

// It comes over each rail that the peer has. Of a link that the peer began, another one may still
// bring a notification from before: such a link ends with the last of them.
void MessageBackend::take_bye(Rail& rail) {
  Status closed = error(Code::peer_lost, cat(rail.link.name(), " has closed its backend"));
  rail.link.is_closed_there = true;
  if (rail.link.is_dialled) return links_->break_off(rail.link, closed);
  links_->break_off(rail, std::move(closed));
}

bool MessageBackend::may_answer(Rail& rail) {
  const std::size_t waiting = rail.session->unsent();
  const std::uint64_t bytes = rail.session->unsent_bytes();
  if (waiting <= kMaxUnsent && bytes <= kMaxUnsentBytes) return true;
  links_->break_off(
      rail, error(Code::peer_lost, cat(rail.link.name(), " asks for more than it takes: ", waiting,
                                       " answers of ", bytes, " bytes wait")));
  return false;
}

// The one place where bytes leave this side's registered memory for a peer.
OutboundFrame MessageBackend::gather(Rail& rail, const Frame& read, bool in_room) {
  FrameHeader header = rail.header(FrameKind::data, clock_.now());
  header.id = read.header.id;
  OutboundFrame out{.buffer = worker_->buffers().take()};
  if (carrier_.takes_devices) out.into = into_of(read.header.flags);
  FrameWriter frame(*out.buffer, header);
  ReadReply* const rest = target_.gather(read, frame, in_room ? &out : nullptr);
  frame.finish();
  if (rest == nullptr) return out;
  rest->path = rail.session->endpoint();
  out.rest = rest;
  out.payload_bytes = rest->bytes();
  return out;
}

void MessageBackend::answer_read(Rail& rail, const Frame& read) {
  if (!may_answer(rail)) return;
  OutboundFrame out = gather(rail, read, true);
  if (!out.close_room(rail.session->sealer()).ok()) {
    worker_->buffers().give_back(std::move(out.buffer));
    out = gather(rail, read, false);  // which refuses what the device does not give
  }
  links_->send(rail, std::move(out));
}

void MessageBackend::take_data(Rail& rail, const InboundData& inbound) {
  if (inbound.is_refused()) return protocol_->fail(rail, inbound.frame);
  protocol_->take(rail, inbound.frame, inbound.trailer());
}

void MessageBackend::answer_write(const InboundWrite& inbound) {
  Rail* const rail = closing_ ? nullptr : links_->find_by_peer(inbound.frame.header.session);
  if (rail == nullptr || !may_answer(*rail)) return;
  FrameHeader header = rail->header(FrameKind::wrote, clock_.now());
  header.id = inbound.frame.header.id;
  auto buffer = worker_->buffers().take();
  FrameWriter frame(*buffer, header);
  for (const Refusal& refusal : inbound.refusals()) frame.add(refusal);
  if (inbound.is_stale()) frame.flag(kStale);
  frame.finish();
  links_->send(*rail, {.buffer = std::move(buffer)});
}

}  // namespace towpath::backends::messages
