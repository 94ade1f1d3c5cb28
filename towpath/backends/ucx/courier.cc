#include <algorithm>

#include <towpath/backends/ucx/courier.h>
#include <towpath/core/text.h>

namespace towpath::backends::ucx {

using namespace backend;

void Courier::post(UcxOperation& operation) {
  Link& link = out_.link_of(*operation.request.connection);
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

void Courier::cancel(UcxOperation& operation) {
  if (!operation.active || operation.stopped) return;
  stop(out_.link_of(*operation.request.connection), operation, error(Code::cancelled, "cancelled"));
  deliver();
}

void Courier::stop(Link& link, UcxOperation& operation, const Status& why) {
  operation.stopped = true;
  operation.status = why;
  operation.unlink();
  for (Exchange& exchange : link.window.exchanges) {
    if (exchange.operation != &operation || operation.is_write()) continue;
    exchange.operation = nullptr;  // its place stays taken until the answer came
    --operation.outstanding;
  }
  settle(operation);
}

void Courier::stop_all(Link& link, const Status& why) {
  while (link.window.queue.is_linked())
    stop(link, static_cast<UcxOperation&>(*link.window.queue.next), why);
  for (Exchange& exchange : link.window.exchanges) {
    if (exchange.operation != nullptr && !exchange.operation->stopped)
      stop(link, *exchange.operation, why);
  }
}

void Courier::settle(UcxOperation& operation) {
  if (!operation.is_finished() || std::ranges::count(finished_, &operation) > 0) return;
  finished_.push_back(&operation);
}

void Courier::deliver() {
  if (delivering_) return;  // an event posts or cancels: its own completion comes in turn
  delivering_ = true;
  while (!finished_.empty()) {
    UcxOperation& operation = *finished_.front();
    finished_.erase(finished_.begin());
    operation.unlink();
    operation.active = false;
    events_.on_complete(operation, operation.completion());
  }
  delivering_ = false;
}

void Courier::pump(Link& link) {
  SliceLink& queue = link.window.queue;
  const Instant now = clock_.now();
  while (link.up && !link.lost && queue.is_linked()) {
    Exchange* exchange = link.window.find_free();
    if (exchange == nullptr) return;
    auto& operation = static_cast<UcxOperation&>(*queue.next);
    if (operation.is_write() && !link.may_write(now, timing_)) {
      if (std::exchange(link.asked, true)) return;
      auto buffer = buffers_.take();
      FrameHeader header = link.header(FrameKind::alive, now);
      header.flags |= kAnswerMe;
      buffer->size = FrameWriter(buffer->room(), header).finish();
      return out_.send(link, std::move(buffer));
    }
    *exchange = {.operation = &operation, .begin = operation.cursor};
    ++operation.outstanding;
    ask(link, *exchange);
    operation.unlink();
    if (!operation.cursor.done()) operation.insert_before(queue);
  }
}

// Sends the frame of an exchange, for the first time or again.
void Courier::ask(Link& link, Exchange& exchange) {
  UcxOperation& operation = *exchange.operation;
  exchange.id = ++last_id_;
  exchange.dead_after = timing_.dead_after(link.stamp_heard_at);
  FrameHeader header =
      link.header(operation.is_write() ? FrameKind::write : FrameKind::read, clock_.now());
  header.id = exchange.id;
  auto buffer = buffers_.take();
  FrameWriter frame(buffer->room(), header);
  SegmentCursor at = exchange.begin;
  const bool again = exchange.bytes != 0;
  exchange.bytes = write_request(at, operation.request.op, frame);
  if (!again) operation.cursor = at;
  buffer->size = frame.finish();
  out_.send(link, std::move(buffer));
}

Status Courier::take(Link& link, const Frame& answer) {
  Exchange* exchange = link.window.find(answer.header.id);
  if (exchange == nullptr) return {};
  UcxOperation* operation = exchange->operation;
  if (operation != nullptr && (answer.header.flags & kStale) != 0 && operation->is_write() &&
      !operation->stopped) {
    ask(link, *exchange);  // this very answer brought a fresh grant
    return {};
  }
  const bool moved = (answer.header.flags & kStale) == 0;
  const Status fits = operation != nullptr && moved ? take_answer(answer, *exchange) : Status();
  exchange->id = 0;
  exchange->bytes = 0;
  exchange->operation = nullptr;
  if (operation == nullptr) return {};
  --operation->outstanding;
  if (!fits.ok() && !operation->stopped) stop(link, *operation, fits);
  settle(*operation);
  return fits;
}

Instant Courier::expire(Link& link, Instant now) {
  Instant next = Instant::never();
  for (Exchange& exchange : link.window.exchanges) {
    UcxOperation* operation = exchange.operation;
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

}  // namespace towpath::backends::ucx
