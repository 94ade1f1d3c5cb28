#include <algorithm>
#include <utility>

#include <towpath/backends/messages/rma_protocol.h>
#include <towpath/core/format.h>

namespace towpath::backends::messages {

using namespace backend;

void RmaProtocol::post(MessageOperation& operation) {
  Link& link = *link_of(*operation.request.connection);
  if (link.lost) {
    operation.stopped = true;
    operation.status = link.why;
  } else if (!operation.cursor.done()) {
    operation.insert_before(link.window.queue);
    pump(link);
  }
  settle(operation);
  deliver();
}

void RmaProtocol::cancel(MessageOperation& operation) {
  if (!operation.active || operation.stopped) return;
  stop(*link_of(*operation.request.connection), operation, error(Code::cancelled, "cancelled"));
  deliver();
}

void RmaProtocol::stop(Link& link, MessageOperation& operation, const Status& why) {
  operation.stopped = true;
  operation.status = why;
  operation.unlink();
  for (Exchange& exchange : link.window.exchanges) {
    if (exchange.operation != &operation) continue;
    if (operation.is_write()) {
      keep_rest(link, exchange);
      continue;
    }
    exchange.operation = nullptr;  // its place stays taken until the answer came
    --operation.outstanding;
  }
  settle(operation);
}

void RmaProtocol::stop_all(Link& link, const Status& why) {
  while (link.window.queue.is_linked())
    stop(link, static_cast<MessageOperation&>(*link.window.queue.next), why);
  for (Exchange& exchange : link.window.exchanges) {
    if (exchange.operation != nullptr && !exchange.operation->stopped)
      stop(link, *exchange.operation, why);
  }
}

void RmaProtocol::settle(MessageOperation& operation) {
  if (!operation.is_finished() || operation.is_settled) return;
  finished_.push_back(&operation);
  operation.is_settled = true;
}

void RmaProtocol::deliver() {
  if (delivering_) return;  // an event posts or cancels: its own completion comes in turn
  struct Delivering {
    explicit Delivering(bool& its_flag) : flag(its_flag) { flag = true; }
    ~Delivering() { flag = false; }
    bool& flag;
  } const delivering(delivering_);
  while (!finished_.empty()) {
    MessageOperation& operation = *finished_.front();
    const Completion completion = operation.completion();  // first: what throws comes again
    finished_.pop_front();
    operation.unlink();
    operation.active = false;
    events_.on_complete(operation, completion);
  }
}

void RmaProtocol::pump(Link& link) {
  SliceLink& queue = link.window.queue;
  const Instant now = clock_.now();
  while (link.is_up() && queue.is_linked()) {
    Exchange* exchange = link.window.find_free();
    if (exchange == nullptr) return;
    auto& operation = static_cast<MessageOperation&>(*queue.next);
    if (operation.is_write() && !link.may_write(now, timing_)) {
      if (link.asked) return;
      links_.send_plain(link, FrameKind::alive, kAnswerMe);
      link.asked = true;
      return;
    }
    auto buffer = links_.buffers().take();  // first: what throws has changed nothing
    exchange->start(operation);
    ask(link, *exchange, std::move(buffer));
    operation.unlink();
    if (!operation.stopped && !operation.cursor.done()) operation.insert_before(queue);
  }
}

// Sends the frame of an exchange, for the first time or again.
void RmaProtocol::ask(Link& link, Exchange& exchange, std::unique_ptr<net::MessageBuffer> buffer) {
  MessageOperation& operation = *exchange.operation;
  exchange.id = ++last_id_;
  exchange.dead_after = timing_.dead_after(link.stamp_heard_at);
  FrameHeader header =
      link.header(operation.is_write() ? FrameKind::write : FrameKind::read, clock_.now());
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
  const auto asked = write_request(at, exchange, frame, guard_, out.room);
  frame.finish();
  exchange.bytes = asked.ok() ? *asked : 0;
  if (!again) operation.cursor = at;
  if (exchange.leaving.is_leaving()) out.rest = &exchange.leaving;
  if (out.rest != nullptr || out.room != nullptr) out.payload_bytes = exchange.bytes;
  const Status ready = asked.ok() ? out.close_room(link.session->sealer()) : asked.status();
  if (ready.ok()) return links_.send(link, std::move(out));
  out.drop_room();
  links_.buffers().give_back(std::move(out.buffer));
  give_up(
      link, exchange,
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

void RmaProtocol::keep_rest(Link& link, Exchange& exchange) {
  if (auto* const endpoint = link.session->endpoint(); exchange.leaving.is_leaving() && endpoint)
    endpoint->copy(exchange.leaving);
}

Status RmaProtocol::expect(Link& link, const Frame& answer) {
  const Exchange* const exchange = link.window.find(answer.header.id);
  if (exchange == nullptr || exchange->operation == nullptr) return {};
  return check_answer(answer, *exchange);
}

void RmaProtocol::take(Link& link, const Frame& answer, const Trailer& unread) {
  Exchange* exchange = link.window.find(answer.header.id);
  if (exchange == nullptr) return;
  keep_rest(link, *exchange);  // whoever answers what he has not heard yet
  MessageOperation* const operation = exchange->operation;
  const bool is_stale = (answer.header.flags & kStale) != 0;
  if (operation != nullptr && operation->is_write() && exchange->leaving.has_faulted())
    return give_up(link, *exchange, local_fault(*operation));  // other bytes left for some
  if (operation != nullptr && is_stale && operation->is_write() && !operation->stopped)
    return ask(link, *exchange, links_.buffers().take());  // this very answer brought a fresh grant
  if (operation != nullptr && !is_stale) count_answer(answer, *exchange, unread);
  exchange->free();
  if (operation == nullptr) return;
  --operation->outstanding;
  settle(*operation);
}

void RmaProtocol::fail(Link& link, const Frame& answer) {
  Exchange* const exchange = link.window.find(answer.header.id);
  if (exchange == nullptr || exchange->operation == nullptr) return;
  const MessageOperation& operation = *exchange->operation;
  give_up(link, *exchange,
          operation.window() == nullptr
              ? local_fault(operation)
              : error(Code::io_error, "the device of this side did not take all of its bytes",
                      "its driver's log says more"));
}

bool RmaProtocol::waits_for(const Link& link, std::uint64_t id) {
  const Exchange* const exchange = link.window.find(id);
  return exchange != nullptr && exchange->operation != nullptr;
}

Instant RmaProtocol::expire(Link& link, Instant now) {
  Instant next = Instant::never();
  for (Exchange& exchange : link.window.exchanges) {
    MessageOperation* operation = exchange.operation;
    if (operation == nullptr || !operation->stopped) continue;
    if (exchange.dead_after > now) {
      next = std::min(next, exchange.dead_after);
      continue;
    }
    exchange.operation = nullptr;
    --operation->outstanding;
    settle(*operation);
  }
  return next;
}

}  // namespace towpath::backends::messages
