// MessageWorker: whole messages between processes and machines, as a seam: over UCX (net/ucx), over
// TCP (net/tcp), or over a network of a test's own.
//
// A worker has an address that others connect() to, and endpoints to others. What the messages say
// is others' business: to a worker each is a head, which is shown whole, and a body, which may be
// long and need not be copied:
//
//   MessageBuffers::take() -> fill -> MessageEndpoint::send() ---> on_message(): head
//   BodySource: bytes that leave from where they lie ------------> BodySink: where they are to lie
//
// A carrier that moves whole messages (UCX) copies the body together before it is sent, and out of
// the message afterwards. One that moves streams (TCP) does neither.
//
// A carrier may also take messages that stand whole in the memory of a device, in rooms that are
// given to it and come back (DeviceStagingBuffer). They need no buffer, and no sink.
//
// A carrier of connections (TCP) sends both ways over each. Until its user has admitted the other
// side, what comes over one is one short message at a time (MessageEndpoint::admit).
//
// Invariants: all calls of a listener, a source and a sink come from inside progress(),
// send(), copy() and the destructors. Messages over one endpoint usually arrive in
// order, but only a carrier of connections promises it. An endpoint's destruction is abrupt: what
// has not arrived (has_arrived()) is dropped, and the other side learns it by on_broken().
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::net {

/// What travels before each message: the sizes of its head and of its body, two numbers of 32 bits,
/// little-endian.
struct MessagePrefix {
  static constexpr std::size_t kBytes = 8;

  std::uint32_t head_bytes = 0;
  std::uint32_t body_bytes = 0;

  std::uint64_t message_bytes() const noexcept { return std::uint64_t{head_bytes} + body_bytes; }
};

/// `from` holds at least MessagePrefix::kBytes, and comes from outside: nothing is believed of it.
MessagePrefix load_prefix(ConstByteSpan from) noexcept;

/// Room for one message, or for what of it does not leave from elsewhere.
struct MessageBuffer {
  explicit MessageBuffer(std::size_t capacity_bytes)
      : bytes(std::make_unique_for_overwrite<std::byte[]>(MessagePrefix::kBytes + capacity_bytes)),
        capacity(capacity_bytes) {}
  ByteSpan room() noexcept { return {bytes.get() + MessagePrefix::kBytes, capacity}; }
  ConstByteSpan filled() const noexcept { return {bytes.get() + MessagePrefix::kBytes, size}; }
  /// The filled bytes behind their prefix; `rest_bytes` more of the body come behind them.
  ConstByteSpan with_prefix(std::uint64_t rest_bytes = 0) noexcept;

  std::unique_ptr<std::byte[]> bytes;
  std::size_t capacity;
  std::size_t size = 0;        ///< filled bytes, from the begin of room()
  std::size_t body_bytes = 0;  ///< the last of them, which are body
};

/// Buffers that were used once are used again. Thread: as its worker.
class MessageBuffers {
 public:
  explicit MessageBuffers(std::size_t message_bytes) : message_bytes_(message_bytes) {
    idle_.reserve(kMaxIdle);  // so that giving back takes no memory
  }

  std::size_t message_bytes() const noexcept { return message_bytes_; }
  std::unique_ptr<MessageBuffer> take();
  void give_back(std::unique_ptr<MessageBuffer> buffer) noexcept;

 private:
  static constexpr std::size_t kMaxIdle = 64;

  const std::size_t message_bytes_;
  std::vector<std::unique_ptr<MessageBuffer>> idle_;
};

/// Parts of a body that are asked for at once, at most.
inline constexpr std::size_t kMostParts = 64;

/// Places for parts, not initialised: a message has one or two, and to write all the others would
/// cost a short one more than anything else does.
template <typename Part, std::size_t Count = kMostParts>
class PartArray {
 public:
  std::span<Part> all() noexcept { return {reinterpret_cast<Part*>(places_), Count}; }

 private:
  static_assert(std::is_trivially_copyable_v<Part>);
  alignas(Part) std::byte places_[Count * sizeof(Part)];
};

/// The rest of a body, behind what a buffer has of it: it leaves from where it lies.
class BodySource {
 public:
  virtual ~BodySource() = default;
  /// The next bytes that have not left, from the front, each part not empty: how many parts. Only
  /// the kernel may touch them: whose memory it is may have unmapped it.
  virtual std::size_t parts(std::span<ConstByteSpan> into) = 0;
  /// So many of them have left.
  virtual void left(std::uint64_t bytes) = 0;
  /// Puts the next bytes into `into`, which is at most as long as they are, and takes them for
  /// left. What cannot be read comes as something else, and the source knows.
  virtual void copy_out(ByteSpan into);
  /// Whether a look at the parts may end in a signal.
  virtual bool may_fault() const noexcept { return false; }
  /// The last call: all has left, or was copied, or never will.
  virtual void done() = 0;
};

/// Where a body is to lie.
class BodySink {
 public:
  virtual ~BodySink() = default;
  /// Room for the next bytes, each part not empty, at most what is missing: how many parts. Asked
  /// anew before any bytes are put there, by the kernel alone: whose memory it is may have unmapped
  /// it. 0: the rest of the body is dropped.
  virtual std::size_t room(std::span<ByteSpan> into) = 0;
  /// So many bytes are there, from the front of what room() gave last.
  virtual void came(std::uint64_t bytes) = 0;
  /// The kernel could not write to what room() gave last. True: from now on that gives what can be
  /// written. False: it has nothing else, and the rest of the body is dropped.
  virtual bool faulted() { return false; }
  /// Not the kernel, but this process puts the bytes into what room() gives.
  virtual void comes_by_process() {}
  /// In place of room() and came(): the next bytes. False: the rest of the body is dropped.
  virtual bool take(ConstByteSpan bytes);
  /// The last call: the whole body has come (what was dropped is counted), or it never will.
  virtual void done(bool whole) = 0;
};

/// Room for one message in the memory of a device. While a carrier has it nobody else touches it.
struct DeviceStagingBuffer {
  unsigned device = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

struct Message {
  ConstByteSpan head;  ///< lives until on_message() returns or, if that gave a sink, its done()
  std::size_t body_bytes = 0;
  /// The connection over which it came; no two of a worker have one number. 0: the carrier has
  /// none.
  std::uint64_t from = 0;
};

class MessageListener {
 public:
  virtual ~MessageListener() = default;
  /// Null: the body, if there is one, is dropped. A sink lives until its done().
  virtual BodySink* on_message(const Message& message) = 0;
  /// Of carriers of connections: what came back for the first message of connect(), by one of the
  /// paths that are tried. Ok: that path is taken and the others are dropped. Else the others are
  /// tried on, and the error says in the end why this one was refused.
  virtual Status on_answer(void* owner, const Message& message, ConstByteSpan body) {
    (void)owner, (void)message, (void)body;
    return error(Code::unsupported, "nothing is taken for an answer here");
  }
  /// The endpoint made with this `owner` is of no use any more. Called once; destroy it later, not
  /// from inside.
  virtual void on_broken(void* owner, const Status& why) = 0;
  /// Of carriers of connections: somebody at this address came and was hung up on before a message
  /// of theirs was delivered.
  virtual void on_refused(std::string_view address, const Status& why) { (void)address, (void)why; }
  // Of carriers that take devices:
  /// A message has come, prefix and all: the first `bytes` of a room that was given to
  /// receive_into(), and that is nobody's now. 0: none has, and none will.
  virtual void on_staging_filled(DeviceStagingBuffer& room, std::uint64_t bytes) {
    (void)room;
    (void)bytes;
  }
  /// What send_room() took has left, or never will.
  virtual void on_staging_left(DeviceStagingBuffer& room) { (void)room; }
};

class MessageEndpoint {
 public:
  virtual ~MessageEndpoint() = default;
  /// Messages that were handed over and have not left yet; without those in rooms.
  virtual std::size_t unsent() const noexcept = 0;
  virtual std::uint64_t unsent_bytes() const noexcept = 0;
  /// Whether the other side has all that was handed over, as far as the carrier can know: then the
  /// end of this one takes nothing of it back. Also where nothing can leave any more. Asked anew:
  /// nobody is woken when it becomes so. A carrier that does not know more: whether all has left.
  virtual bool has_arrived() const noexcept { return unsent() == 0; }
  /// Takes the buffer in any case. `rest`: the last `rest_bytes` of the body, which must stay as
  /// they are until rest->done(); together with the buffer at most the carrier's longest message.
  /// `into`: a device of the receiver's, in a room of which it is to arrive: only where the
  /// carriers of both sides take devices, and the receiver has given it some. Errors: peer_lost,
  /// exhausted (out of memory); after an error rest->done() was called too. Of a connection that
  /// cannot be written any more on_broken() reports it, after what has come was delivered. A
  /// std::bad_alloc: the endpoint is of no use any more.
  virtual Status send(std::unique_ptr<MessageBuffer> buffer, BodySource* rest = nullptr,
                      std::uint64_t rest_bytes = 0, std::optional<unsigned> into = {}) = 0;
  /// The same for a message that stands in a room, prefix and all: `bytes` of it from `offset` on.
  /// The room is the carrier's until on_staging_left(), which may come from inside of this call.
  /// Errors: unsupported (it takes no devices), and as above; after an error it is the caller's.
  virtual Status send_room(DeviceStagingBuffer& room, std::uint64_t offset, std::uint64_t bytes,
                           std::optional<unsigned> into);
  /// Copies what has not left of `rest`, so that nobody looks at it any more; harmless after its
  /// done(). Where there is no memory for that, all that has not left is dropped, and the endpoint
  /// is of no use any more: on_broken() reports it.
  virtual void copy(BodySource& rest) = 0;
  /// The other side has proven itself: from now on messages of every size are taken from it.
  virtual void admit() {}
  /// What keeps it from reaching the other side, while it tries; empty: nothing that it knows.
  virtual std::string trouble() const { return {}; }
  /// Which of MessageWorker::paths() it took; empty: none yet, or the carrier does not say.
  virtual std::string path() const { return {}; }
  /// Of a connection that others opened: what all from that host have in common, as bytes. Empty:
  /// the carrier does not say.
  virtual std::string_view host() const noexcept { return {}; }
};

/// One of the ways to a peer that an address names.
struct MessagePath {
  Bytes address;  ///< that names this way only: for MessageWorker::connect()
  std::string name;
};

class MessageWorker {
 public:
  virtual ~MessageWorker() = default;
  virtual ConstByteSpan address() const noexcept = 0;
  virtual MessageBuffers& buffers() noexcept = 0;
  /// Does not block and need not reach the other yet. `first` is sent before all else, by every
  /// path that is tried (MessageListener::on_answer); a carrier of connections needs one. `address`
  /// should come from a worker: UCX itself trusts it. Errors: unsupported (no common transport),
  /// exhausted, corrupt (no address), unavailable.
  virtual Result<std::unique_ptr<MessageEndpoint>> connect(ConstByteSpan address,
                                                           std::unique_ptr<MessageBuffer> first,
                                                           void* owner) = 0;
  /// The ways to this address that a connection may take, those first that have least in common.
  /// Errors: as connect().
  virtual Result<std::vector<MessagePath>> paths(ConstByteSpan address) const {
    return std::vector<MessagePath>{{.address = {address.begin(), address.end()}, .name = {}}};
  }
  /// An endpoint over the connection that others opened and over which a message came just now:
  /// only from inside of its done() or, without a body, of on_message(). What nobody answers is
  /// hung up on. Errors: not_found (no such connection), unsupported (a carrier without them).
  virtual Result<std::unique_ptr<MessageEndpoint>> answer(std::uint64_t from, void* owner);
  /// A room for messages that are sent into its device: the carrier's until on_staging_filled().
  /// Errors: unsupported (it takes no devices), exhausted.
  virtual Status receive_into(DeviceStagingBuffer& room);
  /// Some of what there is to do; false when there was nothing.
  virtual bool progress() = 0;
  /// What the last progress() has done, in bytes that came and that were sent, and what messages
  /// are worth beside theirs: by which a caller of several knows when it is enough. 0: unknown.
  virtual std::uint64_t work() const noexcept { return 0; }
  /// Asks that fd() becomes readable when progress() has something to do. False: there is already.
  virtual bool arm() = 0;
  virtual int fd() const noexcept = 0;
};

// For carriers that move whole messages:

/// Appends what `rest` has, `rest_bytes`, to the body in `buffer`, and calls its done().
void append_rest(MessageBuffer& buffer, BodySource& rest, std::uint64_t rest_bytes);
/// Notifies `listener` of a message that came in one.
void deliver(const Message& message, ConstByteSpan body, MessageListener& listener);

}  // namespace towpath::net
