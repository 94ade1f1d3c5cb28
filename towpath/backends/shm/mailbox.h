// Mailbox and Outbox: notifications between shm backends.
//
// Each direction has a socket of its own: a backend listens with its Mailbox, and for each peer it
// has an Outbox, whose first message is a hello.
//
//   Outbox --- hello(name, incarnation), message, message ... ---> Mailbox ---> Events
//      \ full socket: a bounded queue, sent on when there is room     \ no room: keeps one, stops
//                                                                       reading from this sender
//
// Short messages go through a ring in shared memory beside the socket, once the mailbox has
// attached to it (message_ring.h): no system call, unless the receiver sleeps and is rung for. What
// is long, or finds the ring full, goes by the socket, and is delivered in its turn. Where many
// have a ring, those that say nothing are not read from until they ring: a look costs no more for a
// thousand that are there than for those that speak.
//
// Local unauthenticated connections can neither block nor grow a mailbox: other users are closed at
// once, clients are bounded in number, those that stay silent or send garbage are closed first, and
// of one message there is one buffer for all. Thread: loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backends/shm/message_ring.h>
#include <towpath/core/clock.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/sys/local_socket.h>

namespace towpath::backends::shm {

inline constexpr std::uint64_t kMaxNotificationBytes = 64 * 1024;
inline constexpr std::size_t kMaxClients = 1024;      ///< sockets that are open
inline constexpr std::size_t kMaxSilentClients = 64;  ///< of them, without a hello
inline constexpr std::size_t kMaxQueuedMessages = 1024;
inline constexpr std::size_t kMaxQueuedBytes = 4 * 1024 * 1024;
inline constexpr std::size_t kMessagesPerCall = 64;
inline constexpr std::size_t kWatchedRings = 8;  ///< so many are read from, whatever they say
/// In so many looks a ring that says nothing, beyond those, comes to rest.
inline constexpr std::uint32_t kLooksBeforeRest = 256;

/// The first byte of a message on a socket. docs/formats/shm.md
enum class MessageTag : std::uint8_t { hello = 'H', notification = 'M', doorbell = 'D' };

/// What a poller's tag means: the kind below, the object's number above.
enum class Watch : std::uint8_t { listener = 0, client = 1, socket = 2, process = 3 };
constexpr std::uint64_t tag_of(Watch watch, std::uint64_t id) {
  return id << 2 | static_cast<std::uint64_t>(watch);
}

class Mailbox {
 public:
  /// `poller`, `events` and `clock` outlive it. Listens on the abstract address `name`.
  static Result<std::unique_ptr<Mailbox>> open(const std::string& name, run::Poller& poller,
                                               backend::Events& events, const Clock& clock);
  /// Its senders see that it is closed, whatever forked children have of its sockets.
  ~Mailbox();

  /// Somebody comes, or it is time to look again.
  void accept_some();
  /// Client `id` is readable or broken: read_ready() looks at it.
  void note_ready(std::uint64_t id) { ready_.push_back(id); }
  /// Reads from those noted, the same share of `budget` (messages that may still be delivered)
  /// each, beginning behind the one that was read from last: a talkative sender silences nobody.
  void read_ready(std::size_t& budget);
  /// Offers kept messages again, the oldest first.
  void offer_kept(std::size_t& budget);
  /// Reads from the rings, one share after the other. No system call. Whether there were any.
  bool read_rings(std::size_t& budget);
  /// From now on senders wake the poller. False: something has come meanwhile, read_rings() again.
  bool announce_sleep() noexcept;

  /// A socket for processes that may open descriptors of this one, and for no other user: anybody
  /// can fill the backlog of the name.
  Result<FileRef> door() const;

  std::size_t clients() const noexcept { return clients_.size(); }
  /// Rings that a look reads from; the others ring.
  std::size_t watched_rings() const noexcept { return watched_.size(); }
  /// Clients that were closed because of what they did or were.
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  struct Client {
    std::uint64_t id = 0;
    sys::LocalSocket socket;
    std::optional<AgentIdentity> from = {};
    std::optional<Bytes> kept = {};  ///< for it there was no room; then the poller does not watch
    std::optional<RingReceiver> ring = {};
    bool rests = false;       ///< its ring: it rings before it is read from
    bool has_spoken = false;  ///< by its ring, since the last that came to rest
    std::uint32_t heard = 0;  ///< messages of the socket that were delivered
    bool has_closed = false;  ///< what is left is in the ring; the poller does not watch
  };
  using Clients = std::map<std::uint64_t, Client>;
  /// What became of the records whose turn it is.
  enum class Ring { dry, blocked, corrupt };

  Mailbox(std::vector<sys::LocalListener> listeners, Status no_door, run::TimerFd timer,
          run::Poller& poller, backend::Events& events, const Clock& clock)
      : listeners_(std::move(listeners)),
        no_door_(std::move(no_door)),
        opens_again_(std::move(timer)),
        poller_(poller),
        events_(events),
        clock_(clock),
        buffer_(1 + kMaxNotificationBytes),
        record_(kMaxRingMessage) {}
  Status watch_listeners();
  bool unwatch_listeners();
  bool accept_from(sys::LocalListener& listener);
  void close_for_now();
  bool open_again();
  void welcome(sys::LocalSocket socket);
  void read_from(std::uint64_t id, std::size_t& budget);
  bool take_message(Client& client, ConstByteSpan message);
  bool take_hello(Client& client, ConstByteSpan body);
  Ring read_ring(Client& client, std::size_t& budget);
  void watch(Client& client);
  void let_silent_rings_rest();
  struct DropUnlessTaken;  // a message of it
  void pause(Client& client);
  void drop(Clients::iterator client);
  void drop_oldest_silent();

  std::vector<sys::LocalListener> listeners_;  // by its name, then by the door
  Status no_door_;                             // why there is none
  run::TimerFd opens_again_;                   // armed: the listeners are not watched
  run::Poller& poller_;
  backend::Events& events_;
  const Clock& clock_;
  Bytes buffer_;
  Bytes record_;
  Clients clients_;
  std::vector<Client*> watched_;  // those with a ring that does not rest
  std::size_t rings_ = 0;         // with those that rest; `watched_` has room for all
  std::size_t first_ring_ = 0;    // to read from next
  std::uint32_t looks_ = 0;       // since some came to rest
  bool is_announced_ = false;     // that it sleeps, to all watched
  std::size_t silent_ = 0;
  std::vector<std::uint64_t> ready_;
  std::uint64_t last_read_ = 0;
  std::deque<std::uint64_t> paused_;  // clients that have a kept message
  std::uint64_t next_id_ = 1;
  std::uint64_t refused_ = 0;
};

class Outbox {
 public:
  struct Options {
    std::string name;                  ///< of the peer's mailbox
    std::optional<FileRef> door = {};  ///< the same, not for strangers, where it has one
    pid_t expected = 0;                ///< the process that must listen there
    AgentIdentity self;                ///< for the hello
    std::uint64_t id = 0;              ///< for the poller
  };
  /// Connects and says hello. Errors: peer_lost, exhausted (too many wait there to be accepted),
  /// denied (somebody else listens).
  static Result<std::unique_ptr<Outbox>> open(const Options& options, run::Poller& poller);
  ~Outbox();

  /// Sends or queues. Errors: exhausted, peer_lost.
  Status send(ConstByteSpan message);
  /// The socket has room. A failure: the peer is cut off.
  Status flush();

 private:
  Outbox(sys::LocalSocket socket, std::optional<RingSender> ring, std::uint64_t id,
         run::Poller& poller)
      : socket_(std::move(socket)), ring_(std::move(ring)), id_(id), poller_(poller) {}
  Result<bool> send_by_socket(ConstByteSpan message);
  Status ring();
  Status ask_for_room();

  sys::LocalSocket socket_;
  std::optional<RingSender> ring_;
  std::uint32_t sent_ = 0;  // by the socket
  bool owes_ring_ = false;  // to a receiver that sleeps: the kernel had no room for it
  const std::uint64_t id_;
  run::Poller& poller_;
  std::deque<Bytes> queue_;
  std::size_t queued_bytes_ = 0;
};

}  // namespace towpath::backends::shm
