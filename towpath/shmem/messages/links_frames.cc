// What arrives, and what it does here.
#include <algorithm>
#include <cstring>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/shmem/change.h>
#include <towpath/shmem/messages/links.h>
#include <towpath/shmem/team_slots.h>

namespace towpath::shmem {
namespace {

constexpr std::size_t kMaxEarlyFrames = 1024;
/// The longest that a PE waits for: wait_until() of an element.
constexpr std::uint64_t kWordBytes = 8;
/// Of an answer that this process decrypts, what the kernel puts in place at once.
constexpr std::uint64_t kStagingBytes = 32 * 1024;
/// That wait for a PE to read: more than all threads of one that reads ask for.
constexpr std::size_t kMaxAnswers = std::size_t{64} << 10U;
/// After a PE's last word to this PE, those to its neighbours have come too, as a rule.
constexpr Duration kUntilReported = std::chrono::milliseconds(200);

Status out_of_heap(const FrameHeader& header) {
  return error(Code::corrupt, cat("PE ", header.from, " reaches for byte ", header.offset,
                                  ", outside of the heap"));
}

}  // namespace

void Links::on_broken(void* owner, const Status& why) {
  if (sessions_) (void)sessions_->note_broken(owner, why);
}

net::BodySink* Links::on_message(const net::Message& message) {
  thread_fence(std::memory_order_acquire);  // pairs with the one in send()
  const auto frame = decode_frame(message.head, message.body_bytes);
  if (!frame.ok()) {
    sessions_->refuse("a frame", frame.status());
    return nullptr;
  }
  if (frame->header.kind == FrameKind::handshake) {
    handshake_.begin(*frame, message.head, message.from, true);
    return &handshake_;
  }
  Link* const link = speaker_of(*frame, message);
  if (link == nullptr) return nullptr;
  if (frame->header.sequence <= link->last_in) return nullptr;
  const bool is_in_turn = frame->header.sequence == link->last_in + 1;
  if (!is_in_turn && has_connections_) {
    lose(*link, error(Code::corrupt, cat("PE ", link->pe, " left out what comes before frame ",
                                         frame->header.sequence)));
    return nullptr;
  }
  if (is_in_turn)
    if (Status fits = check_body(*frame); !fits.ok()) {
      lose(*link, std::move(fits));
      return nullptr;
    }
  const bool is_word = frame->header.kind == FrameKind::put && frame->body_bytes <= kWordBytes;
  link->inbound.begin(*frame, message.head, message.from, !is_in_turn || is_word);
  if (message.body_bytes > 0) return &link->inbound;
  link->inbound.done(true);
  return nullptr;
}

/// Null: nobody who is heard. A seal that does not fit ends the link.
Link* Links::speaker_of(const Frame& frame, const net::Message& message) {
  const auto found = links_.find(frame.header.from);
  if (found == links_.end()) return nullptr;
  Link& link = found->second;
  if (!link.is_up()) return nullptr;
  const bool was_open = link.is_open();
  const auto is_heard = link.session->hear(message.from, message.head, clock_.now());
  if (!is_heard.ok()) lose(link, sessions_->distrust(*link.session, is_heard.status()));
  if (!is_heard.ok() || !*is_heard) return nullptr;
  if (!was_open) open(link);
  return &link;
}

// ---- Bodies

void InboundBody::begin(const Frame& its_frame, ConstByteSpan its_head, std::uint64_t its_from,
                        bool keeps) {
  frame = its_frame;
  head = its_head;
  from = its_from;
  is_kept = keeps;
  kept.resize(keeps ? frame.body_bytes : 0);
  came_ = 0;
  is_by_process_ = is_dropped_ = false;
  if (!keeps && frame.header.kind == FrameKind::put && frame.body_bytes > 0)
    links_.long_puts_.begin(way, frame.header.offset, frame.body_bytes);
}

bool InboundBody::may_fault() const { return !is_kept && links_.may_fault(frame); }

std::size_t InboundBody::room(std::span<ByteSpan> into) {
  const ByteSpan all = is_kept ? ByteSpan(kept) : links_.room_for(frame);
  if (is_dropped_ || all.size() <= came_) return 0;
  into.front() = all.subspan(came_);
  if (is_by_process_ && may_fault()) into.front() = links_.staging(into.front().size());
  return 1;
}

void InboundBody::came(std::uint64_t bytes) {
  if (is_by_process_ && may_fault())
    (void)put_by_kernel(links_.staging(bytes));
  else
    came_ += bytes;
}

bool InboundBody::take(ConstByteSpan bytes) {
  return may_fault() ? put_by_kernel(bytes) : net::BodySink::take(bytes);
}

bool InboundBody::put_by_kernel(ConstByteSpan bytes) {
  is_dropped_ = is_dropped_ || !links_.place(frame, came_, bytes);
  came_ += bytes.size();
  return !is_dropped_;
}

// What is kept lies in memory of ours.
bool InboundBody::faulted() {
  if (!is_kept) links_.on_fault(frame);
  return false;
}

void InboundBody::done(bool whole) {
  links_.long_puts_.end(way);
  if (whole) links_.on_body(*this);
}

ByteSpan Links::room_for(const Frame& frame) {
  const FrameHeader& header = frame.header;
  if (!check_body(frame).ok()) return {};
  if (header.kind == FrameKind::put) return here_.heap.subspan(header.offset, frame.body_bytes);
  const auto asked = questions_.find(header.ticket);
  if (asked == questions_.end()) return {};  // whoever asked gave up
  return asked->second->into.subspan(header.operand, frame.body_bytes);
}

bool Links::may_fault(const Frame& frame) const {
  if (frame.header.kind != FrameKind::data) return false;
  const auto asked = questions_.find(frame.header.ticket);
  return asked != questions_.end() && asked->second->may_fault;
}

bool Links::place(const Frame& frame, std::uint64_t at, ConstByteSpan bytes) {
  const ByteSpan all = room_for(frame);
  if (all.empty()) return false;
  const ByteSpan room = all.subspan(at, bytes.size());
  if (!may_fault(frame)) {
    std::memcpy(room.data(), bytes.data(), bytes.size());
    return true;
  }
  guard_.begin(sys::GuardedCopy::Direction::into_memory);
  guard_.add({.own = bytes_at(address_of(bytes.data()), bytes.size()).data(),
              .address = address_of(room.data()),
              .length = bytes.size()});
  if (guard_.finish().empty()) return true;
  on_fault(frame);
  return false;
}

ByteSpan Links::staging(std::uint64_t bytes) {
  if (staging_.empty()) staging_.resize(kStagingBytes);
  return ByteSpan(staging_).first(std::min(bytes, kStagingBytes));
}

// The user may have unmapped or protected it.
void Links::on_fault(const Frame& frame) {
  const std::uint32_t pe = frame.header.from;
  if (frame.header.kind == FrameKind::put)
    return lose(links_.at(pe),
                error(Code::out_of_range, cat("PE ", pe, " puts where this heap cannot be written"),
                      "leave the symmetric heap mapped and writable"));
  const auto asked = questions_.find(frame.header.ticket);
  if (asked == questions_.end()) return;
  asked->second->failed =
      error(Code::out_of_range, cat("what PE ", pe, " answers to a get cannot be written there"),
            "get into memory that is mapped and writable");
}

/// Whether the bytes of a frame may lie where it says.
Status Links::check_body(const Frame& frame) const {
  const FrameHeader& header = frame.header;
  if (header.kind == FrameKind::put)
    return range_fits(header.offset, frame.body_bytes, here_.heap.size()) ? Status()
                                                                          : out_of_heap(header);
  if (header.kind != FrameKind::data)
    return frame.body_bytes == 0
               ? Status()
               : error(Code::corrupt, cat("PE ", header.from, " sends ", frame.body_bytes,
                                          " bytes where none belong"));
  const auto asked = questions_.find(header.ticket);
  if (asked == questions_.end()) return {};
  const Question& question = *asked->second;
  if (frame.body_bytes <= question.left &&
      range_fits(header.operand, frame.body_bytes, question.into.size()))
    return {};
  return error(Code::corrupt, cat("PE ", header.from, " answers what was not asked"));
}

void Links::on_body(InboundBody& body) {
  thread_fence(std::memory_order_acquire);
  if (body.frame.header.kind == FrameKind::handshake) {
    const Status taken = take_handshake(body.frame, body.from, body.kept);
    if (!taken.ok()) sessions_->refuse(cat("PE ", body.frame.header.from), taken);
    return;
  }
  Link& link = links_.at(body.frame.header.from);
  if (!link.is_up()) return;
  if (body.frame.header.sequence == link.last_in + 1) {
    if (body.is_kept) (void)place(body.frame, 0, body.kept);
    return take_in_order(link, body.frame);
  }
  if (link.early.size() == kMaxEarlyFrames)
    return lose(link, error(Code::corrupt, cat("PE ", link.pe, " speaks out of turn")));
  link.early.emplace(
      body.frame.header.sequence,
      EarlyFrame{.head = {body.head.begin(), body.head.end()}, .body = std::move(body.kept)});
}

// ---- Frames in their turn

void Links::take_in_order(Link& link, const Frame& frame) {
  ++link.last_in;
  take(link, frame);
  while (link.is_up() && !link.early.empty() && link.early.begin()->first == link.last_in + 1) {
    take_early(link);
    link.early.erase(link.early.begin());
  }
}

void Links::take_early(Link& link) {
  const EarlyFrame& early = link.early.begin()->second;
  const Frame frame = *decode_frame(early.head, early.body.size());
  ++link.last_in;
  if (Status fits = check_body(frame); !fits.ok()) return lose(link, std::move(fits));
  if (!early.body.empty()) (void)place(frame, 0, early.body);
  take(link, frame);
}

void Links::take(Link& link, const Frame& frame) {
  const FrameHeader& header = frame.header;
  Status taken;
  switch (header.kind) {
    case FrameKind::handshake: break;  // on_message() has seen to it
    case FrameKind::hello: begin(link, header); break;
    case FrameKind::beat: note_doing(link, header); break;
    case FrameKind::put: placed(link, header); break;
    case FrameKind::change: taken = change(link, header); break;
    case FrameKind::get: taken = promise(link, header); break;
    case FrameKind::data:
    case FrameKind::value: answered(frame); break;
    case FrameKind::applied: link.applied = header.operand; break;
    case FrameKind::arrival: taken = arrive(link, frame); break;
    case FrameKind::take_slot:
      taken = queue(link, {.kind = FrameKind::value,
                           .ticket = header.ticket,
                           .operand = take_team_slot(*here_.job)});
      break;
    case FrameKind::leave_slot:
      if (header.aux >= kFirstFreeSlot && header.aux < kTeamSlots)
        leave_team_slot(*here_.job, header.aux, static_cast<std::uint32_t>(header.operand));
      break;
    case FrameKind::bye: end(link, header); break;
    case FrameKind::end_all: here_.job->end_with(static_cast<int>(header.operand & 0xffU)); break;
  }
  if (!taken.ok()) lose(link, std::move(taken));
}

void Links::placed(Link& link, const FrameHeader& put) {
  link.owed = put.sequence;
  thread_fence(std::memory_order_seq_cst);
  mine().event_count.ring_if_needed();
}

Status Links::promise(Link& link, const FrameHeader& get) {
  if (get.aux > kMaxFramePayload || !range_fits(get.offset, get.aux, here_.heap.size()))
    return out_of_heap(get);
  return queue(link, {.kind = FrameKind::data,
                      .aux = get.aux,
                      .ticket = get.ticket,
                      .offset = get.offset,
                      .operand = get.operand});
}

Status Links::queue(Link& link, const FrameHeader& answer) {
  if (link.answers.size() >= kMaxAnswers)
    return error(Code::exhausted, cat("PE ", link.pe, " asks and does not read: ", kMaxAnswers,
                                      " answers wait for it"));
  link.answers.push_back(answer);
  return {};
}

Status Links::change(Link& link, const FrameHeader& header) {
  const std::uint64_t bytes = header.word_bytes;
  if ((bytes != 4 && bytes != 8) || header.offset % bytes != 0 ||
      !range_fits(header.offset, bytes, here_.heap.size()))
    return out_of_heap(header);
  const std::uint64_t before =
      apply(here_.heap.data() + header.offset, {.op = header.op,
                                                .word_bytes = header.word_bytes,
                                                .operand = header.operand,
                                                .expected = header.expected});
  mine().event_count.ring_if_needed();
  if (header.ticket != 0)
    return queue(link, {.kind = FrameKind::value, .ticket = header.ticket, .operand = before});
  link.owed = header.sequence;
  return {};
}

Status Links::arrive(const Link& link, const Frame& frame) {
  TOWPATH_TRY(ArrivalFrame arrival, decode_arrival(frame.arrival, here_.job->pes()));
  return arrivals_->take(link.pe, std::move(arrival));
}

void Links::answered(const Frame& frame) {
  const auto found = questions_.find(frame.header.ticket);
  if (found == questions_.end()) return;  // whoever asked gave up
  Question& question = *found->second;
  if (frame.header.kind == FrameKind::value) {
    question.value = frame.header.operand;
    question.left = 0;
  } else {
    question.left -= frame.body_bytes;
  }
}

void Links::begin(const Link& link, const FrameHeader& hello) {
  PeRecord& record = here_.job->pe(link.pe);
  record.pid.store(static_cast<std::uint32_t>(hello.operand), std::memory_order_relaxed);
  std::uint32_t absent = 0;
  record.state.compare_exchange_strong(absent, static_cast<std::uint32_t>(PeState::running));
  mine().event_count.ring_if_needed();  // it may wait for all to begin
}

void Links::end(Link& link, const FrameHeader& bye) {
  const bool finalized = bye.operand == static_cast<std::uint64_t>(PeState::finalized);
  link.over = error(Code::peer_lost,
                    cat("PE ", link.pe, finalized ? " has finalized" : " left without finalizing"));
  link.ended = finalized ? PeState::finalized : PeState::left;
  // One that has finalized came to the last gathering, and so did all: nobody waits for more of it.
  // The neighbour that brings its arrival may be as late as a PE may be silent.
  link.report_at = clock_.now() + (finalized ? heartbeat_.timeout : kUntilReported);
}

void Links::note_doing(const Link& link, const FrameHeader& beat) {
  PeRecord& record = here_.job->pe(link.pe);
  record.in_team.store(static_cast<std::uint32_t>(beat.operand), std::memory_order_relaxed);
  record.doing.store(beat.aux, std::memory_order_relaxed);
}

}  // namespace towpath::shmem
