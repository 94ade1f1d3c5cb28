// What arrives, and what it does here.
#include <cstring>

#include <towpath/core/checked.h>
#include <towpath/core/text.h>
#include <towpath/shmem/fence.h>
#include <towpath/shmem/messages/links.h>
#include <towpath/shmem/team_slots.h>

namespace towpath::shmem {
namespace {

constexpr std::size_t kMaxEarlyFrames = 1024;
/// After a PE's last word to this PE, those to its neighbours have come too, as a rule.
constexpr Duration kUntilReported = std::chrono::milliseconds(200);

Status out_of_heap(const FrameHeader& header) {
  return error(Code::corrupt, cat("PE ", header.from, " reaches for byte ", header.offset,
                                  ", outside of the heap"));
}

}  // namespace

void Links::on_broken(void* owner, const Status&) {
  static_cast<Link*>(owner)->has_broken = true;  // acted on at the end of the turn
}

// All of a frame is the head of its message: there is no body.
net::BodySink* Links::on_message(const net::Message& message) {
  hear(message.head);
  return nullptr;
}

void Links::hear(ConstByteSpan message) {
  thread_fence(std::memory_order_acquire);  // pairs with the one in send()
  const auto frame = decode_frame(message);
  // What is not of this job is not heard; it cannot be answered either.
  if (!frame.ok() || frame->header.key != key_) return;
  const auto found = links_.find(frame->header.from);
  if (found == links_.end() || !found->second.is_up()) return;
  Link& link = found->second;
  link.heard_at = clock_.now();
  if (frame->header.sequence == link.last_in + 1) return take_in_order(link, *frame);
  if (frame->header.sequence <= link.last_in) return;
  if (link.early.size() == kMaxEarlyFrames)
    return lose(link, error(Code::corrupt, cat("PE ", link.pe, " speaks out of turn")));
  link.early.emplace(frame->header.sequence, Bytes(message.begin(), message.end()));
}

void Links::take_in_order(Link& link, const Frame& frame) {
  take(link, frame);
  ++link.last_in;
  for (auto next = link.early.begin();
       next != link.early.end() && next->first == link.last_in + 1 && link.is_up();
       next = link.early.erase(next)) {
    take(link, *decode_frame(next->second));
    ++link.last_in;
  }
}

void Links::take(Link& link, const Frame& frame) {
  const FrameHeader& header = frame.header;
  Status taken;
  switch (header.kind) {
    case FrameKind::hello: begin(link, header); break;
    case FrameKind::beat: note_doing(link, header); break;
    case FrameKind::put: taken = place(link, frame); break;
    case FrameKind::change: taken = change(link, frame); break;
    case FrameKind::get:
      if (header.aux > kMaxFramePayload ||
          !range_fits(header.offset, header.aux, here_.heap.size()))
        taken = out_of_heap(header);
      else
        link.answers.push_back({.kind = FrameKind::data,
                                .aux = header.aux,
                                .ticket = header.ticket,
                                .offset = header.offset,
                                .operand = header.operand});
      break;
    case FrameKind::data:
    case FrameKind::value: taken = answered(frame); break;
    case FrameKind::applied: link.applied = header.operand; break;
    case FrameKind::arrival: taken = arrive(link, frame); break;
    case FrameKind::take_slot:
      link.answers.push_back({.kind = FrameKind::value,
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

Status Links::place(Link& link, const Frame& frame) {
  if (!range_fits(frame.header.offset, frame.payload.size(), here_.heap.size()))
    return out_of_heap(frame.header);
  if (!frame.payload.empty())
    std::memcpy(here_.heap.data() + frame.header.offset, frame.payload.data(),
                frame.payload.size());
  link.owed = frame.header.sequence;
  thread_fence(std::memory_order_seq_cst);
  mine().event_count.ring_if_needed();
  return {};
}

Status Links::change(Link& link, const Frame& frame) {
  const FrameHeader& header = frame.header;
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
  if (header.ticket == 0)
    link.owed = header.sequence;
  else
    link.answers.push_back({.kind = FrameKind::value, .ticket = header.ticket, .operand = before});
  return {};
}

Status Links::arrive(const Link& link, const Frame& frame) {
  TOWPATH_TRY(ArrivalFrame arrival, decode_arrival(frame.payload, here_.job->pes()));
  arrivals_->take(link.pe, std::move(arrival));
  return {};
}

Status Links::answered(const Frame& frame) {
  const auto found = questions_.find(frame.header.ticket);
  if (found == questions_.end()) return {};  // whoever asked gave up
  Question& question = *found->second;
  if (frame.header.kind == FrameKind::value) {
    question.value = frame.header.operand;
    question.left = 0;
    return {};
  }
  if (frame.payload.size() > question.left ||
      !range_fits(frame.header.operand, frame.payload.size(), question.into.size()))
    return error(Code::corrupt, cat("PE ", frame.header.from, " answers what was not asked"));
  std::memcpy(question.into.data() + frame.header.operand, frame.payload.data(),
              frame.payload.size());
  question.left -= frame.payload.size();
  return {};
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
  link.report_at = clock_.now() + kUntilReported;
}

void Links::note_doing(const Link& link, const FrameHeader& beat) {
  PeRecord& record = here_.job->pe(link.pe);
  record.in_team.store(static_cast<std::uint32_t>(beat.operand), std::memory_order_relaxed);
  record.doing.store(beat.aux, std::memory_order_relaxed);
}

}  // namespace towpath::shmem
