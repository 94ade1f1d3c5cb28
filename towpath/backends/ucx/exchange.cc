#include <algorithm>
#include <cstring>

#include <towpath/backends/ucx/exchange.h>
#include <towpath/backends/ucx/memory.h>
#include <towpath/core/check.h>
#include <towpath/core/text.h>

namespace towpath::backends::ucx {

using namespace backend;

// ---- Window

Exchange* Window::find_free() {
  std::uint64_t under_way = 0;
  for (const Exchange& exchange : exchanges) under_way += exchange.bytes;
  if (under_way > kWindowBytes) return nullptr;
  const auto found = std::ranges::find(exchanges, 0U, &Exchange::id);
  return found == exchanges.end() ? nullptr : &*found;
}

Exchange* Window::find(std::uint64_t id) {
  const auto found = std::ranges::find(exchanges, id, &Exchange::id);
  return id == 0 || found == exchanges.end() ? nullptr : &*found;
}

// ---- UcxOperation

UcxOperation::~UcxOperation() { TOWPATH_CHECK(!active, "an active operation was destroyed"); }

void UcxOperation::post(const Request& its_request) {
  TOWPATH_CHECK(!active, "an active operation was posted");
  request = its_request;
  cursor.start(request.segments);
  bytes = failed = 0;
  failures.clear();
  status = {};
  outstanding = 0;
  active = true;
  stopped = false;
  owner_.post(*this);
}

void UcxOperation::count_failure(const SegmentFailure& failure, std::uint64_t stretches) {
  SegmentFailure one = failure;
  // A long stretch goes in several frames, and fails once.
  const auto known = std::ranges::find_if(failures, [&](const SegmentFailure& other) {
    return other.segment == one.segment && other.stretch == one.stretch;
  });
  if (known != failures.end()) {
    known->bytes = std::min(known->bytes, one.bytes);
    return;
  }
  failed += stretches;
  for (; stretches > 0 && failures.size() < kMaxFailures; --stretches, ++one.stretch)
    failures.push_back(one);
}

Completion UcxOperation::completion() {
  if (failed > 0 && status.ok()) {
    // Answers come in any order; failures are told in that of the request.
    std::ranges::sort(failures, [](const SegmentFailure& a, const SegmentFailure& b) {
      return std::pair(a.segment, a.stretch) < std::pair(b.segment, b.stretch);
    });
    const Status& first = failures.front().status;
    status = error(first.code(), cat(failed, failed == 1 ? " stretch is" : " stretches are",
                                     " not in place; the others are"))
                 .because(first);
  }
  return {status, bytes, failures};
}

// ---- Pieces

LocalPiece take_piece(SegmentCursor& at, std::uint64_t room) {
  const Segment& segment = at.segment();
  const auto& remote = static_cast<const UcxMemory&>(*segment.remote);
  LocalPiece taken{.piece = {.token = remote.token, .address = at.remote_address()},
                   .local_address = at.local_address(),
                   .local_stride = segment.local_stride,
                   .segment = at.index(),
                   .stretch = at.stretch(),
                   .offset = at.offset()};
  const std::uint64_t length = std::min(at.left(), room);
  taken.piece.length = static_cast<std::uint32_t>(length);
  const bool whole = length == segment.length;
  if (!whole) {
    at.advance(length);
    return taken;
  }
  const std::uint64_t count = std::min(segment.count - at.stretch(), room / length);
  taken.piece.count = static_cast<std::uint32_t>(count);
  if (count > 1) taken.piece.stride = segment.remote_stride;
  for (std::uint64_t i = 0; i < count; ++i) at.advance(length);
  return taken;
}

namespace {

void gather(const LocalPiece& from, FrameWriter& frame) {
  for (std::uint32_t i = 0; i < from.piece.count; ++i)
    frame.append(bytes_at(from.local_address + i * from.local_stride, from.piece.length));
}

const std::byte* scatter(const LocalPiece& to, const std::byte* from) {
  for (std::uint32_t i = 0; i < to.piece.count; ++i, from += to.piece.length)
    std::memcpy(bytes_at(to.local_address + i * to.local_stride, to.piece.length).data(), from,
                to.piece.length);
  return from;
}

Status why_refused(Code code, const LocalPiece& piece) {
  if (code == Code::not_found) {
    return error(code, cat("the peer took the memory at ", hex(piece.piece.address), " back"),
                 "load the peer's newest card");
  }
  if (code == Code::io_error) {
    return error(code, cat("the peer's device did not copy what is at ", hex(piece.piece.address)),
                 "look at the device there: its driver's log says more");
  }
  return error(code, cat("the peer's registration does not hold ", hex(piece.piece.address), " +",
                         piece.piece.length));
}

Status unfit(const Frame& answer) {
  return error(Code::corrupt, cat("an answer of ", answer.payload.size(), " bytes and ",
                                  answer.header.count, " refusals does not fit its request"));
}

}  // namespace

std::uint64_t write_request(SegmentCursor& at, TransferOp op, FrameWriter& frame) {
  // Records come before the payload, so the pieces are walked twice.
  SegmentCursor again = at;
  std::uint64_t bytes = 0;
  while (!at.done() && bytes < kPayloadBytes && frame.count() < kMaxPieces) {
    const LocalPiece next = take_piece(at, kPayloadBytes - bytes);
    frame.add(next.piece);
    bytes += next.piece.bytes();
  }
  if (op == TransferOp::read) return bytes;
  for (std::uint64_t left = bytes; left > 0;) {
    const LocalPiece next = take_piece(again, left);
    gather(next, frame);
    left -= next.piece.bytes();
  }
  return bytes;
}

Status take_answer(const Frame& answer, const Exchange& exchange) {
  UcxOperation& operation = *exchange.operation;
  const bool brings = answer.header.kind == FrameKind::data;
  if (brings == operation.is_write()) return unfit(answer);
  std::uint64_t refused = 0;
  std::uint64_t left = exchange.bytes;
  std::uint64_t expected = 0;
  // First whether it fits at all, then the bytes: nothing lands of an answer that does not.
  for (const bool moving : {false, true}) {
    SegmentCursor at = exchange.begin;
    const std::byte* from = answer.payload.data();
    std::size_t refusal = 0;
    refused = 0;
    left = exchange.bytes;
    for (std::size_t i = 0; left > 0; ++i) {
      const LocalPiece next = take_piece(at, left);
      left -= next.piece.bytes();
      const bool is_refused = refusal < answer.header.count && answer.refusal(refusal).piece == i;
      if (is_refused) {
        refused += next.piece.bytes();
        const Code code = answer.refusal(refusal++).code;
        if (moving) {
          operation.count_failure(
              {next.segment, next.stretch, next.offset, why_refused(code, next)}, next.piece.count);
        }
      } else if (moving && brings) {
        from = scatter(next, from);
      }
    }
    expected = brings ? exchange.bytes - refused : 0;
    if (refusal != answer.header.count || answer.payload.size() != expected) return unfit(answer);
  }
  operation.bytes += exchange.bytes - refused;
  return {};
}

}  // namespace towpath::backends::ucx
