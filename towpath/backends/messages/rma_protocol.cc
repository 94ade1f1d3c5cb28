#include <algorithm>
#include <utility>

#include <towpath/backends/messages/rail_shares.h>
#include <towpath/backends/messages/rma_protocol.h>
#include <towpath/core/format.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

/// What a request is worth in bytes beside what it brings.
constexpr std::uint64_t kWorkPerRequest = 4096;

void count_unasked(Link& link, MessageOperation& operation) {
  for (SegmentCursor at = operation.cursor; !at.done(); at.skip_segment()) {
    const Segment& segment = at.segment();
    operation.unasked += segment.length * (segment.count - at.extent()) - at.offset();
  }
  link.unasked += operation.unasked;
}

/// The cursor stands at `to`, `bytes` further.
void advance(Link& link, MessageOperation& operation, const SegmentCursor& to,
             std::uint64_t bytes) {
  operation.cursor = to;
  const std::uint64_t counted = std::min(bytes, operation.unasked);
  operation.unasked -= counted;
  link.unasked -= counted;
}

void measure(Rail& rail, const Exchange& exchange, Instant now) {
  rail.pace.add(exchange.bytes, now - std::max(exchange.asked_at, rail.answered_at));
  rail.answered_at = now;
  rail.suspected = {};
}

}  // namespace

void RmaProtocol::post(MessageOperation& operation) {
  Link& link = *link_of(*operation.request.connection);
  if (link.lost) {
    begin_to_drain(operation, link.why);
  } else if (!operation.cursor.done()) {
    if (link.has_several) count_unasked(link, operation);
    operation.insert_before(link.queue);
    pump(link);
  }
  settle(operation);
  deliver();
}

void RmaProtocol::cancel(MessageOperation& operation) {
  if (!operation.active || operation.stopped) return;
  if (!operation.is_settled)  // what completes first wins
    stop(*link_of(*operation.request.connection), operation, error(Code::cancelled, "cancelled"));
  deliver();
}

/// Nothing more is asked for it; settle() ends that.
void RmaProtocol::begin_to_drain(MessageOperation& operation, const Status& why) {
  operation.stopped = true;
  operation.status = why;
  ++draining_;
}

void RmaProtocol::stop(Link& link, MessageOperation& operation, const Status& why) {
  begin_to_drain(operation, why);
  operation.unlink();
  link.unasked -= std::exchange(operation.unasked, 0);
  operation.outstanding -= static_cast<std::uint32_t>(
      std::erase_if(link.again, [&](const Again& slice) { return slice.operation == &operation; }));
  for (const auto& rail : link.rails) {
    for (Exchange& exchange : rail->window.exchanges) {
      if (exchange.operation != &operation) continue;
      if (operation.is_write()) {
        keep_rest(*rail, exchange);
        continue;
      }
      exchange.operation = nullptr;  // its place stays taken until the answer came
      --operation.outstanding;
    }
  }
  settle(operation);
}

void RmaProtocol::stop_all(Link& link, const Status& why) {
  while (link.queue.is_linked()) stop(link, static_cast<MessageOperation&>(*link.queue.next), why);
  while (!link.again.empty()) stop(link, *link.again.front().operation, why);
  for (const auto& rail : link.rails) {
    for (Exchange& exchange : rail->window.exchanges) {
      if (exchange.operation != nullptr && !exchange.operation->stopped)
        stop(link, *exchange.operation, why);
    }
  }
}

void RmaProtocol::settle(MessageOperation& operation) {
  if (!operation.is_finished() || operation.is_settled) return;
  operation.is_settled = true;
  if (operation.stopped) --draining_;
  operation.settled_after = nullptr;
  (first_settled_ == nullptr ? first_settled_ : last_settled_->settled_after) = &operation;
  last_settled_ = &operation;
}

void RmaProtocol::deliver_settled() {
  if (delivering_) return;  // an event posts or cancels: its own completion comes in turn
  struct Delivering {
    explicit Delivering(bool& its_flag) : flag(its_flag) { flag = true; }
    ~Delivering() { flag = false; }
    bool& flag;
  } const delivering(delivering_);
  while (first_settled_ != nullptr) {
    MessageOperation& operation = *first_settled_;
    const Completion completion = operation.completion();  // first: what throws comes again
    first_settled_ = operation.settled_after;
    operation.unlink();
    operation.active = false;
    events_.on_complete(operation, completion);
  }
}

// ---- Slices

bool RmaProtocol::may_ask(Rail& rail, bool is_write, Instant now) {
  if (!is_write || rail.may_write(now, timing_)) return true;
  if (!std::exchange(rail.asked, true)) links_.send_plain(rail, FrameKind::alive, kAnswerMe);
  return false;
}

RmaProtocol::Turn RmaProtocol::next_turn(Link& link, bool is_write, std::uint64_t wanted,
                                         Instant now) {
  if (!link.has_several) {
    Rail& only = *link.rails.front();
    if (!only.is_up()) return {};
    Exchange* const exchange = only.window.find_free();
    if (exchange == nullptr || !may_ask(only, is_write, now)) return {};
    return {.rail = &only, .exchange = exchange};
  }
  const RailShares shares(link, is_write, now, timing_);
  Turn turn;
  double soonest = 0;
  for (const auto& rail : link.rails) {
    if (!rail->is_up() || !may_ask(*rail, is_write, now)) continue;
    Exchange* const exchange = rail->window.find_free(shares.window_bytes(*rail));
    if (exchange == nullptr) continue;
    // Of the same bytes, whatever each would take.
    const double end = shares.end_of(*rail, std::min(RailShares::kMostSlice, wanted));
    if (turn.rail != nullptr && end >= soonest) continue;
    turn = {.rail = rail.get(), .exchange = exchange};
    soonest = end;
  }
  if (turn.rail == nullptr) return {};
  turn.most_bytes = std::min(shares.slice_bytes(*turn.rail), wanted);
  return shares.should_wait(*turn.rail, turn.most_bytes) ? Turn() : turn;
}

void RmaProtocol::pump(Link& link) {
  if (!link.has_more()) return;
  const Instant now = clock_.now();
  while (link.has_more()) {
    const bool is_again = !link.again.empty();
    auto& operation =
        is_again ? *link.again.back().operation : static_cast<MessageOperation&>(*link.queue.next);
    const std::uint64_t wanted = is_again ? link.again.back().bytes : operation.unasked;
    const Turn turn = next_turn(link, operation.is_write(), wanted, now);
    if (turn.rail == nullptr) return;
    auto buffer = links_.buffers().take();  // first: what throws has changed nothing
    turn.exchange->asked_at = now;
    if (is_again) {
      const Again slice = link.again.back();
      link.again.pop_back();
      turn.exchange->start_again(operation, slice.begin, slice.bytes);
      ask(*turn.rail, *turn.exchange, std::move(buffer), slice.bytes);
      continue;
    }
    turn.exchange->start(operation);
    ask(*turn.rail, *turn.exchange, std::move(buffer), turn.most_bytes);
    operation.unlink();
    if (!operation.stopped && !operation.cursor.done()) operation.insert_before(link.queue);
  }
}

// Sends the frame of an exchange, for the first time or again.
void RmaProtocol::ask(Rail& rail, Exchange& exchange, std::unique_ptr<net::MessageBuffer> buffer,
                      std::uint64_t most_bytes) {
  MessageOperation& operation = *exchange.operation;
  exchange.id = ++last_id_;
  exchange.dead_after = timing_.dead_after(rail.stamp_heard_at);
  FrameHeader header =
      rail.header(operation.is_write() ? FrameKind::write : FrameKind::read, exchange.asked_at);
  header.id = exchange.id;
  OutboundFrame out{.buffer = std::move(buffer)};
  if (const DeviceWindow* const window = operation.window(); window != nullptr) {
    if (operation.is_write())
      out.take_room(*window);
    else if (window->frames() != nullptr)
      header.flags |= into_flags(window->frames()->device());
  }
  if (operation.is_write() && takes_devices_) out.into = device_there(exchange);
  if (!operation.is_write() && operation.window() == nullptr) header.flags |= kTrailer;
  FrameWriter frame(*out.buffer, header);
  SegmentCursor at = exchange.begin;
  const bool again = exchange.bytes != 0;
  const auto asked = write_request(at, exchange, frame, guard_, most_bytes, out.room);
  frame.finish();
  exchange.bytes = asked.ok() ? *asked : 0;
  sent_bytes_ += kWorkPerRequest + (operation.is_write() ? exchange.bytes : 0);
  if (!again) advance(rail.link, operation, at, exchange.bytes);
  if (exchange.leaving.is_leaving()) out.rest = &exchange.leaving;
  if (out.rest != nullptr || out.room != nullptr) out.payload_bytes = exchange.bytes;
  const Status ready = asked.ok() ? out.close_room(rail.session->sealer()) : asked.status();
  if (ready.ok()) return links_.send(rail, std::move(out));
  out.drop_room();
  links_.buffers().give_back(std::move(out.buffer));
  give_up(
      rail.link, exchange,
      operation.window() == nullptr
          ? ready
          : error(Code::io_error, "the device of this side did not give its bytes").because(ready));
}

// Its operation ends when all else that was asked for it is quiesced.
void RmaProtocol::give_up(Link& link, Exchange& exchange, const Status& why) {
  MessageOperation* const operation = exchange.operation;
  exchange.free();
  if (operation == nullptr) return;
  --operation->outstanding;
  if (!operation->stopped) return stop(link, *operation, why);
  settle(*operation);
}

void RmaProtocol::keep_rest(Rail& rail, Exchange& exchange) {
  if (auto* const endpoint = rail.session->endpoint(); exchange.leaving.is_leaving() && endpoint)
    endpoint->copy(exchange.leaving);
}

// ---- Answers

Status RmaProtocol::expect(Rail& rail, const Frame& answer) {
  const Exchange* const exchange = rail.window.find(answer.header.id);
  if (exchange == nullptr || exchange->operation == nullptr) return {};
  return check_answer(answer, *exchange);
}

void RmaProtocol::take(Rail& rail, const Frame& answer, const Trailer& unread) {
  Exchange* exchange = rail.window.find(answer.header.id);
  if (exchange == nullptr) return;
  keep_rest(rail, *exchange);  // a peer may answer what it has not heard to its end
  if (rail.link.has_several) measure(rail, *exchange, clock_.now());
  MessageOperation* const operation = exchange->operation;
  const bool is_stale = (answer.header.flags & kStale) != 0;
  if (operation != nullptr && operation->is_write() && exchange->leaving.has_faulted())
    return give_up(rail.link, *exchange, local_fault(*operation));  // other bytes left for some
  if (operation != nullptr && is_stale && operation->is_write() && !operation->stopped) {
    // This very answer brought a fresh grant.
    exchange->asked_at = clock_.now();
    return ask(rail, *exchange, links_.buffers().take(), exchange->bytes);
  }
  if (operation != nullptr && !is_stale) count_answer(answer, *exchange, unread);
  exchange->free();
  if (operation == nullptr) return;
  --operation->outstanding;
  settle(*operation);
}

void RmaProtocol::fail(Rail& rail, const Frame& answer) {
  Exchange* const exchange = rail.window.find(answer.header.id);
  if (exchange == nullptr) return;
  if (exchange->operation == nullptr) return exchange->free();  // it was stopped meanwhile
  const MessageOperation& operation = *exchange->operation;
  give_up(rail.link, *exchange,
          operation.window() == nullptr
              ? local_fault(operation)
              : error(Code::io_error, "the device of this side did not take all of its bytes",
                      "its driver's log says more"));
}

bool RmaProtocol::waits_for(const Rail& rail, std::uint64_t id) {
  const Exchange* const exchange = rail.window.find(id);
  return exchange != nullptr && exchange->operation != nullptr;
}

// ---- What cannot land any more

Instant RmaProtocol::expire(Link& link, Instant now) {
  Instant next = Instant::never();
  for (const auto& rail : link.rails) {
    if (draining_ == 0 && !rail->lost) continue;
    for (Exchange& exchange : rail->window.exchanges) {
      MessageOperation* operation = exchange.operation;
      if (operation == nullptr || !(operation->stopped || rail->lost)) continue;
      if (exchange.dead_after > now) {
        next = std::min(next, exchange.dead_after);
        continue;
      }
      if (!operation->stopped) {
        repeat(link, exchange);
        continue;
      }
      exchange.operation = nullptr;
      --operation->outstanding;
      settle(*operation);
    }
  }
  return next;
}

void RmaProtocol::repeat(Link& link, Exchange& exchange) {
  link.again.push_back({exchange.operation, exchange.begin, exchange.bytes});  // there is room
  exchange.free();
}

void RmaProtocol::repeat_reads(Rail& rail) {
  for (Exchange& exchange : rail.window.exchanges) {
    if (exchange.operation == nullptr)
      exchange.free();
    else if (!exchange.operation->is_write())
      repeat(rail.link, exchange);
  }
}

void RmaProtocol::repeat_writes(Rail& rail) {
  for (Exchange& exchange : rail.window.exchanges) {
    MessageOperation* const operation = exchange.operation;
    if (operation == nullptr) continue;
    if (!operation->stopped) {
      repeat(rail.link, exchange);
      continue;
    }
    exchange.free();
    --operation->outstanding;
    settle(*operation);
  }
}

void RmaProtocol::begin_to_measure(Link& link) {
  link.has_several = true;
  for (SliceLink* at = link.queue.next; at != &link.queue; at = at->next)
    count_unasked(link, static_cast<MessageOperation&>(*at));
}

}  // namespace towpath::backends::messages
