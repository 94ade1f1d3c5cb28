// Backend: an engine that moves bytes. The contract that every backend fulfils; the conformance
// suite (backend/conformance) tests each sentence of it.
//
//   agent                                   backend
//     | register_memory(region)  ------->  Memory            what may be read and written here
//     | connect(peer, info)      ------->  Connection        a peer, or the agent itself
//     | import_memory(region, key) ----->  Memory            what may be read and written there
//     | import_memories(list)    ------->  ...               the same of many at once
//     | make_operation()         ------->  Operation         reusable; one transfer at a time
//     | operation.post(request)  ------->  ...bytes move, in post() and progress()...
//     | <------- events.on_complete(operation, completion)   exactly once per post: it is quiesced
//
// What a backend promises
//  1. Every post() is answered by exactly one on_complete(), during post(), cancel(), teardown() or
//     progress(). When it comes, the operation is quiesced: no byte can land in, or leave, the
//     memory of either side on its behalf. (With Quiescence::none a cancelled operation may stay
//     unanswered.)
//  2. A completion is ok only if every byte of every segment is in place. Otherwise the failures
//     name the extents that are not, and the others are in place (partial completion).
//  3. Notifications of one sender arrive in order and not before data that completed earlier.
//  4. progress() does a bounded amount of work (a slice of about 512 KiB, or one batch) and never
//     blocks. wait_fd() becomes readable when progress() would have something to do.
//  5. A dead or unreachable peer is reported once per connection by on_peer_lost(); its operations
//     then complete (after teardown() where quiet needs it), and nobody else's are touched.
//  6. No allocation, lock or system call per segment once an operation was posted before with as
//     many segments.
//
// Thread: the caller serialises all calls on a backend, but query(), and on what it made; events
// come only from inside these calls. Different backends may be called at the same time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <towpath/backend/capabilities.h>
#include <towpath/core/bytes.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/core/transfer_state.h>

namespace towpath::backend {

/// Memory that operations may touch: registered here, or imported from a peer. Destroying it takes
/// the registration back; the caller sees to it that no operation on it is active, and that no peer
/// is in the middle of one (revoke()).
class Memory {
 public:
  virtual ~Memory() = default;
  /// What a peer's import_memory() needs beside the region's figures. Goes into metadata; stays so.
  virtual Bytes key() const { return {}; }
  /// Of memory that was registered here: peers begin nothing on it any more. What one of them is in
  /// the middle of goes on: Backend::pieces_under_way() says of that. Idempotent.
  virtual void revoke() {}

  /// Nobody can write there. Of registered memory the agent says so before it asks for the key,
  /// which reports it; of imported memory the key does.
  bool is_read_only = false;
  /// What is written there by one request is the whole of it, as of a store's objects. Staging,
  /// which cuts requests, says it of what it hands out; backends leave it alone.
  bool is_put_whole = false;
};

/// What peers were in the middle of at some moment, without our help.
/// Thread: one at a time; not serialised with the backend, which outlives it.
class PeerPieces {
 public:
  virtual ~PeerPieces() = default;
  /// ok once each has ended, or its process has. Errors: not_ready (names a peer).
  virtual Status check() = 0;
};

/// A way to a peer, or to the agent itself. Destroyed only when none of its operations is active.
class Connection {
 public:
  virtual ~Connection() = default;
};

/// `count` equal extents on both sides. The memories cover all of them: the agent has checked.
///
///   for i in 0..count:  local_address + i * local_stride  <->  remote_address + i * remote_stride
struct Segment {
  Memory* local = nullptr;
  Memory* remote = nullptr;
  std::uint64_t local_address = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t length = 0;  ///< of one extent; may be 0
  std::uint64_t count = 1;
  std::uint64_t local_stride = 0;
  std::uint64_t remote_stride = 0;
};

struct Request {
  TransferOp op = TransferOp::read;
  Connection* connection = nullptr;
  /// Must stay unchanged until completion.
  std::span<const Segment> segments;
};

struct SegmentFailure {
  std::uint64_t segment = 0;  ///< index in the request
  std::uint64_t extent = 0;   ///< 0 .. count - 1
  std::uint64_t bytes = 0;    ///< of its begin that are in place: the next one is not
  Status status;
};

struct Completion {
  Status status;            ///< ok, cancelled, or why not everything is in place
  std::uint64_t bytes = 0;  ///< in place, counted as they moved
  /// At most kMaxFailures of them, the first ones; empty for a failure of the whole operation.
  std::span<const SegmentFailure> failures;
};

inline constexpr std::size_t kMaxFailures = 64;

/// One transfer at a time, reusable. Destroyed only while not active.
class Operation {
 public:
  virtual ~Operation() = default;
  /// Starts. All outcomes, failures to start included, come by on_complete().
  virtual void post(const Request& request) = 0;
  /// Asks an active operation to stop; what completes first wins. Harmless when not active.
  virtual void cancel() = 0;

  void* owner = nullptr;  ///< the agent's own; backends leave it alone
};

/// What a backend reports to its agent.
class Events {
 public:
  virtual ~Events() = default;
  virtual void on_complete(Operation& operation, const Completion& completion) = 0;
  /// False: no room now. The backend keeps the message (and stops reading from that sender) and
  /// offers it again in a later progress().
  virtual bool on_notification(const AgentIdentity& from, ConstByteSpan message) = 0;
  virtual void on_peer_lost(Connection& connection, const Status& why) = 0;
};

/// One of many regions of a peer: what its metadata reports, and what import_memories() made of it.
struct Import {
  const RegionDescriptor* region = nullptr;
  ConstByteSpan key;
  Result<std::unique_ptr<Memory>> memory = std::unique_ptr<Memory>();
};

using Params = std::map<std::string, std::string>;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const Capabilities& capabilities() const = 0;

  /// Errors: unsupported (kind), denied or exhausted (locked memory and the like),
  /// invalid_argument.
  virtual Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) = 0;
  /// Whether `memory`, made of an equal region before, still is what this one names: the number of
  /// an open file may have gone to another. Asked before a registration shares it. Errors:
  /// already_exists.
  virtual Status confirm(const Memory& /*memory*/, const RegionDescriptor& /*region*/) const {
    return {};
  }

  /// What peers need to reach this backend; empty if peers cannot. Goes into metadata; stays so.
  /// Bounded.
  virtual Bytes connection_info() const { return {}; }

  /// Does not block and need not reach the peer yet. `info` comes from outside: it is hostile.
  /// `peer` equal to the own identity asks for the way to oneself; then `info` is the own.
  /// Errors: corrupt (info is no such thing), unsupported (not reachable by this backend, and why).
  virtual Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                                      ConstByteSpan info) = 0;

  /// `region` and `key` come from outside: they are hostile. Does not block.
  virtual Result<std::unique_ptr<Memory>> import_memory(Connection& connection,
                                                        const RegionDescriptor& region,
                                                        ConstByteSpan key) = 0;
  /// The same for a list, each for itself: one that is refused does not touch the others. For
  /// backends that have something to spare by it; what is here imports one after the other.
  virtual void import_memories(Connection& connection, std::span<Import> list);

  /// What peers move at this moment, by themselves, of memory that was revoked before the call;
  /// null: nothing. Until it has ended, destroying that memory keeps no promise to its user.
  virtual std::unique_ptr<PeerPieces> pieces_under_way() { return nullptr; }

  virtual std::unique_ptr<Operation> make_operation() = 0;

  /// Hands a message over for delivery. Errors: exhausted (queue full; make progress and try
  /// again), invalid_argument (longer than max_notification_bytes), peer_lost, unsupported.
  virtual Status notify(Connection& connection, ConstByteSpan message);

  /// Cuts the connection so that its operations complete (Quiescence::teardown). It is lost
  /// afterwards.
  virtual void teardown(Connection& connection) { (void)connection; }

  /// Does some work. True: there is more to do at once. False: wait for wait_fd() or a post.
  virtual bool progress() = 0;
  /// A descriptor that becomes readable when progress() has something to do; -1: never needed.
  /// Belongs to the backend.
  virtual int wait_fd() const { return -1; }

  /// What bytes over this connection should cost; the declared cost unless it was measured.
  virtual Cost cost(const Connection& connection) const {
    (void)connection;
    return capabilities().cost;
  }
  /// The way that bytes take between these two, and why: "loads and stores through a mapping of the
  /// peer's memfd". For reports and `explain`.
  virtual std::string describe_path(const Memory& local, const Memory& remote) const = 0;

  /// For each descriptor what the backend knows of it (posix: size, mode, mtime), or nothing if it
  /// does not exist. May wait, for a store's answers. Thread: any; it alone is called beside other
  /// calls, and beside itself. Errors: unsupported.
  virtual Result<std::vector<std::optional<Params>>> query(
      std::span<const RegionDescriptor> descriptors);
};

}  // namespace towpath::backend
