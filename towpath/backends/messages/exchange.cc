#include <algorithm>
#include <cstring>
#include <optional>

#include <towpath/backends/messages/exchange.h>
#include <towpath/backends/messages/memory.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>

namespace towpath::backends::messages {

using namespace backend;

// ---- Window

std::uint64_t Window::under_way() const {
  std::uint64_t bytes = 0;
  for (const Exchange& exchange : exchanges) bytes += exchange.bytes;
  return bytes;
}

Exchange* Window::find_free(std::uint64_t most_bytes) {
  if (under_way() > most_bytes) return nullptr;
  const auto found = std::ranges::find(exchanges, 0U, &Exchange::id);
  return found == exchanges.end() ? nullptr : &*found;
}

Exchange* Window::find(std::uint64_t id) {
  const auto found = std::ranges::find(exchanges, id, &Exchange::id);
  return id == 0 || found == exchanges.end() ? nullptr : &*found;
}

bool Window::is_in_use() const {
  return std::ranges::any_of(
      exchanges, [](const Exchange& exchange) { return exchange.operation != nullptr; });
}

void Exchange::start(MessageOperation& its_operation) {
  operation = &its_operation;
  begin = its_operation.cursor;
  bytes = 0;
  leaving.clear_fault();  // what an earlier request met
  ++its_operation.outstanding;
}

// It is outstanding as it was.
void Exchange::start_again(MessageOperation& its_operation, const SegmentCursor& its_begin,
                           std::uint64_t its_bytes) {
  operation = &its_operation;
  begin = its_begin;
  bytes = its_bytes;
  leaving.clear_fault();
}

void Exchange::free() {
  id = bytes = 0;
  operation = nullptr;
}

// ---- MessageOperation

MessageOperation::~MessageOperation() {
  TOWPATH_CHECK(!active, "an active operation was destroyed");
}

void MessageOperation::begin(const Request& its_request) {
  TOWPATH_CHECK(!active, "an active operation was posted");
  request = its_request;
  cursor.start(request.segments);
  bytes = unasked = failed = 0;
  failures.clear();
  status = {};
  outstanding = 0;
  active = true;
  stopped = is_settled = false;
}

DeviceWindow* MessageOperation::window() const {
  return request.segments.empty()
             ? nullptr
             : static_cast<const OwnMemory&>(*request.segments.front().local).window;
}

void MessageOperation::count_failure(const SegmentFailure& failure, std::uint64_t extents) {
  SegmentFailure one = failure;
  // A long extent goes in several frames, and fails once.
  const auto known = std::ranges::find_if(failures, [&](const SegmentFailure& other) {
    return other.segment == one.segment && other.extent == one.extent;
  });
  if (known != failures.end()) {
    known->bytes = std::min(known->bytes, one.bytes);
    return;
  }
  failed += extents;
  for (; extents > 0 && failures.size() < kMaxFailures; --extents, ++one.extent)
    failures.push_back(one);
}

Completion MessageOperation::completion() {
  if (stopped) {
    failures.clear();  // it failed as a whole, and they would say that all others are in place
  } else if (failed > 0 && status.ok()) {
    // Answers come in any order; failures are told in that of the request.
    std::ranges::sort(failures, [](const SegmentFailure& a, const SegmentFailure& b) {
      return std::pair(a.segment, a.extent) < std::pair(b.segment, b.extent);
    });
    const Status& first = failures.front().status;
    status = error(first.code(), cat(failed, failed == 1 ? " extent is" : " extents are",
                                     " not in place; the others are"))
                 .because(first);
  }
  return {status, bytes, failures};
}

// ---- Pieces

namespace {

Status why_refused(Code code, const LocalPiece& piece) {
  if (code == Code::not_found) {
    return error(code, cat("the peer took the memory at ", hex(piece.piece.address), " back"),
                 "load the peer's newest metadata");
  }
  if (code == Code::io_error && piece.is_device) {
    return error(code, cat("the peer's device did not copy what is at ", hex(piece.piece.address)),
                 "look at the device there: its driver's log says more");
  }
  if (code == Code::io_error) {
    return error(code,
                 cat("the peer's memory at ", hex(piece.piece.address), " +", piece.piece.length,
                     " cannot be touched"),
                 "it was protected or unmapped there after it was registered, or its file was cut");
  }
  return error(code, cat("the peer's registration does not hold ", hex(piece.piece.address), " +",
                         piece.piece.length));
}

Status unfit(const Frame& answer) {
  return error(Code::corrupt, cat("an answer of ", answer.payload_bytes, " bytes and ",
                                  answer.header.count, " refusals does not fit its request"));
}

/// Calls `refused` for each piece that an answer refuses, and for those that `unread` names.
/// Returns their bytes, none: it refuses a piece that there is not.
template <typename Refused>
std::optional<std::uint64_t> refused_bytes(const Frame& answer, const Exchange& exchange,
                                           const Trailer& unread, Refused refused) {
  if (answer.header.count == 0 && !answer.has_trailer()) return 0;  // as almost all
  const bool all_read = unread == Trailer{};
  SegmentCursor at = exchange.begin;
  std::uint64_t bytes = 0;
  std::size_t refusal = 0;
  std::uint64_t left = exchange.bytes;
  for (std::size_t i = 0; left > 0 && (refusal < answer.header.count || !all_read); ++i) {
    const LocalPiece next = take_piece(at, left);
    left -= next.piece.bytes();
    if (refusal < answer.header.count && answer.refusal(refusal).piece == i) {
      bytes += next.piece.bytes();
      refused(next, answer.refusal(refusal++).code);
    } else if (names(unread, i)) {
      bytes += next.piece.bytes();
      refused(next, Code::io_error);
    }
  }
  if (refusal != answer.header.count) return std::nullopt;
  return bytes;
}

bool may_it_fault(const Memory& memory) {
  return static_cast<const MessageMemory&>(memory).region.may_fault;
}

/// What a device has of a write.
Status fetch(const RequestPieceIterator& pieces, std::uint64_t bytes, DeviceWindow& window,
             const net::DeviceStagingBuffer* room, FrameWriter& frame) {
  window.fetch_all(pieces, DeviceFrames::payload_place(room, window));
  if (room != nullptr) return {};
  TOWPATH_TRY(window.finish());
  frame.append(window.room().first(bytes));
  return {};
}

/// The bytes of a write; false: not all can be read.
bool append(RequestPieceIterator pieces, FrameWriter& frame, std::uint64_t bytes,
            sys::GuardedCopy& guard) {
  guard.begin(sys::GuardedCopy::Direction::out_of_memory);
  for (ByteSpan room = frame.append_room(bytes); !pieces.done();) {
    const Piece rest = pieces.rest();
    const bool may_fault = pieces.may_fault();
    for (std::uint32_t k = 0; k < rest.count; ++k, room = room.subspan(rest.length)) {
      const std::uint64_t from = rest.address + k * rest.stride;
      if (may_fault)
        guard.add({.own = room.data(), .address = from, .length = rest.length, .tag = 0});
      else
        std::memcpy(room.data(), bytes_at(from, rest.length).data(), rest.length);
    }
    pieces.advance(rest.bytes());
  }
  return guard.finish().empty();
}

}  // namespace

std::optional<unsigned> device_there(const Exchange& exchange) {
  const auto& remote = static_cast<const MessageMemory&>(*exchange.begin.segment().remote);
  if (remote.region.kind != MemoryKind::device) return std::nullopt;
  return static_cast<unsigned>(remote.region.device_id);
}

Result<std::uint64_t> write_request(SegmentCursor& at, Exchange& exchange, FrameWriter& frame,
                                    sys::GuardedCopy& guard, std::uint64_t most,
                                    const net::DeviceStagingBuffer* room) {
  const SegmentCursor begin = at;
  std::uint64_t bytes = 0;
  std::uint64_t extents = 0;
  bool may_fault = false;
  while (!at.done() && bytes < most && frame.count() < kMaxPieces) {
    const LocalPiece next = take_piece(at, most - bytes);
    frame.add(next.piece);
    bytes += next.piece.bytes();
    extents += next.piece.count;
    may_fault = may_fault || (exchange.operation->is_write() && may_it_fault(*next.local));
  }
  if (!exchange.operation->is_write()) return bytes;
  RequestPieceIterator pieces(begin, bytes);
  if (DeviceWindow* const window = exchange.operation->window(); window != nullptr) {
    TOWPATH_TRY(fetch(pieces, bytes, *window, room, frame));
    return bytes;
  }
  if (is_worth_parts(bytes, extents)) {
    exchange.leaving.begin(pieces, bytes, guard, {.may_fault = may_fault});
    return bytes;
  }
  if (!append(pieces, frame, bytes, guard)) return local_fault(*exchange.operation);
  return bytes;
}

Status local_fault(const MessageOperation& operation) {
  return error(Code::io_error,
               cat("memory of this side cannot be ", operation.is_write() ? "read" : "written"),
               "it was protected or unmapped after it was registered, or its file was cut");
}

Status check_answer(const Frame& answer, const Exchange& exchange) {
  const bool brings = answer.header.kind == FrameKind::data;
  const bool is_stale = (answer.header.flags & kStale) != 0;
  if (brings == exchange.operation->is_write() || (brings && is_stale)) return unfit(answer);
  // A read for a device's memory asks for none: nobody would look at it.
  if (answer.has_trailer() && exchange.operation->window() != nullptr) return unfit(answer);
  const auto refused = refused_bytes(answer, exchange, {}, [](const LocalPiece&, Code) {});
  const std::uint64_t expected = brings && refused ? exchange.bytes - *refused : 0;
  return refused && answer.payload_bytes == expected ? Status() : unfit(answer);
}

void count_answer(const Frame& answer, const Exchange& exchange, const Trailer& unread) {
  MessageOperation& operation = *exchange.operation;
  const auto count = [&](const LocalPiece& piece, Code code) {
    operation.count_failure({piece.segment, piece.extent, piece.offset, why_refused(code, piece)},
                            piece.piece.count);
  };
  const auto refused = refused_bytes(answer, exchange, unread, count);
  operation.bytes += exchange.bytes - refused.value_or(0);
}

}  // namespace towpath::backends::messages
