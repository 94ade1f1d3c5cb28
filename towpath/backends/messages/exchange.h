// Exchanges: an operation's bytes as requests, each answered by the owner, a window of them at
// once.
//
//   post -> queue of the link -> [ exchange: a frame of up to 512 KiB ] -> answers -> done
//                                  kWindow of them on a rail
//
// An exchange remembers where in the request its frame began. Its pieces are not stored: they
// follow from that place and the frame's limits, so they are walked again when the answer comes (or
// when the owner found the grant stale and the frame must go once more). Nothing is allocated per
// piece, and a strided segment of any count stays one value.
//
// User memory is touched only inside of calls: a write's bytes leave, and data lands, while a
// carrier is asked to make progress (send_source.h, receive_sink.h). Thread: loop.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/backend/segment_cursor.h>
#include <towpath/backend/slice_runner.h>
#include <towpath/backends/messages/outbound_frame.h>
#include <towpath/backends/messages/send_source.h>

namespace towpath::backends::messages {

class MessageOperation;

/// Requests that one rail may have unanswered, and bytes with which one more may be asked: one long
/// frame is filled while another is emptied. A frame in flight stands in several buffers
/// (bench/README.md); with 2 MiB of them they no longer fit into the caches, and large transfers
/// took half as long again.
inline constexpr std::size_t kWindow = 16;
inline constexpr std::uint64_t kWindowBytes = kPayloadBytes;

struct Exchange {
  std::uint64_t id = 0;                   ///< 0: free
  MessageOperation* operation = nullptr;  ///< null: nobody waits for the answer any more
  backend::SegmentCursor begin;
  std::uint64_t bytes = 0;                   ///< 0 when it is free
  Instant dead_after;                        ///< of a write: until when the owner may place it
  Instant asked_at;                          ///< the stamp of its frame
  SendSource<RequestPieceIterator> leaving;  ///< of a write: its bytes that have not left

  void start(MessageOperation& its_operation);
  /// A slice of it that went before, over another rail: `its_bytes` from `its_begin` on.
  void start_again(MessageOperation& its_operation, const backend::SegmentCursor& its_begin,
                   std::uint64_t its_bytes);
  void free();
};

struct Window {
  std::array<Exchange, kWindow> exchanges;

  /// Null: so much is under way that no more should be. `most_bytes`: with which one more may be.
  Exchange* find_free(std::uint64_t most_bytes = kWindowBytes);
  std::uint64_t under_way() const;
  /// Null: no such request, or it was given up long ago.
  Exchange* find(std::uint64_t id);
  const Exchange* find(std::uint64_t id) const { return const_cast<Window*>(this)->find(id); }
  /// Whether an operation waits for an answer.
  bool is_in_use() const;
};

/// What an operation is while it is moved; how it is posted and cancelled is its backend's.
class MessageOperation : public backend::Operation, public backend::SliceLink {
 public:
  ~MessageOperation() override;

  /// Before all else of a post().
  void begin(const backend::Request& its_request);

  bool is_write() const { return request.op == TransferOp::write; }
  /// To the device whose memory this side's is, null for the host's.
  DeviceWindow* window() const;
  /// Everything was asked for (or it was stopped), and everything is answered.
  bool is_finished() const { return active && outstanding == 0 && (stopped || cursor.done()); }
  void count_failure(const backend::SegmentFailure& failure, std::uint64_t extents);
  backend::Completion completion();

  backend::Request request;
  backend::SegmentCursor cursor;
  std::uint64_t bytes = 0;
  std::uint64_t unasked = 0;  ///< bytes behind the cursor; 0 where nobody wants to know
  std::uint64_t failed = 0;
  std::vector<backend::SegmentFailure> failures;
  Status status;
  std::uint32_t outstanding = 0;
  bool active = false;
  bool stopped = false;
  bool is_settled = false;                      ///< finished, and about to be reported
  MessageOperation* settled_after = nullptr;    ///< the next one that is; null: none
  std::unique_ptr<backend::Operation> to_self;  ///< made when it is first posted to oneself
};

/// Names pieces from `at` on until the frame is full, has `most` bytes, or the request ends;
/// returns their bytes. Those of a write are appended, or left to leave from where they lie
/// (`exchange.leaving`), or collected into `room`, to be copied when it is sealed. Errors: io_error
/// (memory of this side cannot be read, or its device does not give it).
Result<std::uint64_t> write_request(backend::SegmentCursor& at, Exchange& exchange,
                                    FrameWriter& frame, sys::GuardedCopy& guard,
                                    std::uint64_t most = kPayloadBytes,
                                    const net::DeviceStagingBuffer* room = nullptr);
/// The peer's device whose memory it is about, if it is one's.
std::optional<unsigned> device_there(const Exchange& exchange);

/// Whether an answer fits its request, before any of its bytes land. Errors: corrupt.
Status check_answer(const Frame& answer, const Exchange& exchange);
/// Counts what was moved and refused, by an answer that fits; and what the peer could not read.
void count_answer(const Frame& answer, const Exchange& exchange, const Trailer& unread = {});
/// Memory of this side that cannot be touched any more.
Status local_fault(const MessageOperation& operation);

}  // namespace towpath::backends::messages
