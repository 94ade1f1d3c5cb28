#include <utility>

#include <towpath/backends/messages/core.h>
#include <towpath/core/format.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

constexpr std::size_t kMaxUnansweredNotes = 1024;
constexpr std::size_t kMaxUnansweredNoteBytes = 1024 * 1024;

// One that throws leaves the rest for the next.
void put_in_order(Notes& notes) {
  for (auto next = notes.too_early.begin();
       next != notes.too_early.end() && next->first == notes.arrived + 1;
       next = notes.too_early.erase(next)) {
    notes.waiting.push_back(std::move(next->second));
    ++notes.arrived;
  }
}

}  // namespace

// ---- Notifications

Status MessageBackend::notify(Connection& connection, ConstByteSpan message) {
  if (message.size() > kMaxNoteBytes) {
    return error(Code::invalid_argument,
                 cat("a notification of ", message.size(), " bytes; at most ", kMaxNoteBytes),
                 "send the bytes by a transfer");
  }
  Link* const link = link_of(connection);
  if (link == nullptr) {
    if (events_.on_notification(self_, message)) return {};
    return error(Code::exhausted, "there is no room for a notification to oneself");
  }
  if (link->lost) return link->why;
  Notes& notes = link->notes;
  Rail* const rail = link->up();
  if (rail == nullptr || notes.unanswered.size() >= kMaxUnansweredNotes ||
      notes.unanswered_bytes + message.size() > kMaxUnansweredNoteBytes) {
    return error(Code::exhausted,
                 cat(notes.unanswered.size(), " notifications wait for ", link->name()),
                 "make progress and send again");
  }
  Notes::Unanswered unanswered{.bytes = message.size(), .text = {}};
  if (link->has_several) unanswered.text.assign(message.begin(), message.end());
  auto buffer = worker_->buffers().take();
  notes.unanswered.push_back(std::move(unanswered));  // what throws has changed nothing
  notes.unanswered_bytes += message.size();
  send_note(*rail, ++notes.sent, message, std::move(buffer));
  return {};
}

void MessageBackend::send_note(Rail& rail, std::uint64_t number, ConstByteSpan message,
                               std::unique_ptr<net::MessageBuffer> buffer) {
  rail.has_carried_notes = true;
  FrameHeader header = rail.header(FrameKind::note, clock_.now());
  header.id = number;
  FrameWriter frame(*buffer, header);
  frame.add(rail.session->sealer().prove_body(message));
  frame.append(message);
  frame.finish();
  links_->send(rail, {.buffer = std::move(buffer)});
}

// Over another rail than before: the peer knows by the numbers which of them it has.
void MessageBackend::send_notes_again(Rail& rail) {
  const Notes& notes = rail.link.notes;
  std::uint64_t number = notes.sent - notes.unanswered.size();
  for (const Notes::Unanswered& one : notes.unanswered)
    send_note(rail, ++number, one.text, worker_->buffers().take());
}

void MessageBackend::take_noted(Link& link, std::uint64_t number) {
  Notes& notes = link.notes;
  while (!notes.unanswered.empty() && notes.sent - notes.unanswered.size() < number) {
    notes.unanswered_bytes -= notes.unanswered.front().bytes;
    notes.unanswered.pop_front();
  }
}

void MessageBackend::take_note(Rail& rail, InboundText& inbound) {
  Link& link = rail.link;
  Notes& notes = link.notes;
  const std::uint64_t number = inbound.frame.header.id;
  if (!rail.session->proves_body(inbound.text, inbound.frame.payload_proof()))
    return links_->break_off(
        rail, sessions_->distrust(*rail.session,
                                  error(Code::denied, "a notification was altered on its way")));
  put_in_order(notes);  // of what came before, some may have found no memory
  if (link.has_moved && (number <= notes.arrived || notes.too_early.contains(number))) {
    notes.is_asked_again = true;
    return links_->list(link);
  }
  if (number <= notes.arrived || number > notes.taken + kMaxUnansweredNotes) {
    return links_->break_off(link, error(Code::peer_lost, cat(link.name(), " sent notification ",
                                                              number, " after ", notes.arrived)));
  }
  // A peer waits for answers when it has sent so much.
  const std::size_t bytes = inbound.text.size();
  if (notes.held_bytes + bytes > kMaxUnansweredNoteBytes) {
    return links_->break_off(
        link,
        error(Code::peer_lost, cat(link.name(), " sent notifications of ", notes.held_bytes + bytes,
                                   " bytes without waiting for an answer")));
  }
  if (number == notes.arrived + 1) {
    notes.waiting.push_back(std::move(inbound.text));  // what throws has changed nothing
    ++notes.arrived;
  } else {
    notes.too_early.emplace(number, std::move(inbound.text));
  }
  notes.held_bytes += bytes;
  links_->list(link);
  put_in_order(notes);
}

void MessageBackend::offer_notes(Link& link) {
  Notes& notes = link.notes;
  while (!notes.waiting.empty() && events_.on_notification(link.peer(), notes.waiting.front())) {
    const std::size_t bytes = notes.waiting.front().size();
    offered_bytes_ += bytes;
    notes.held_bytes -= bytes;
    notes.waiting.pop_front();
    ++notes.taken;
  }
  if (!notes.is_asked_again && notes.taken == notes.reported_taken) return;
  Rail* const rail = link.up();
  if (rail == nullptr || !may_answer(*rail)) return;  // or the link is about to be lost
  links_->send_plain(*rail, FrameKind::noted, 0, notes.taken);
  notes.is_asked_again = false;  // now: what throws comes again
  notes.reported_taken = notes.taken;
}

}  // namespace towpath::backends::messages
