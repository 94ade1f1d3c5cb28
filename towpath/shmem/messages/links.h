// Links: what one PE says to those of other hosts, and does when they ask: one link to each.
//
//   [ greeting ] --both sides are proven--> [ open ] --bye, silence, breakage--> [ over ]
//
// Of two PEs the lower one dials. Each proves to the other that it holds the job's secret and is
// the PE that its address was given for (net/session); until then nothing else of it is heard, and
// after it only frames with the seals of this session (links_sessions.cc).
//
// Frames that arrive change this PE's heap and its host's segment; answers and acknowledgements go
// out at the end of a turn. A PE that is silent for the timeout is lost: a cut link is not reported
// by UCX (it retransmits), so everybody speaks at every heartbeat.
// Invariants: frames of a link are taken in the order in which they were sent, each once; over is
// final. Nothing is moved or answered but inside of turn().
// Thread: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/secret.h>
#include <towpath/net/messages/message_worker.h>
#include <towpath/net/session/sessions.h>
#include <towpath/shmem/messages/frames.h>
#include <towpath/shmem/messages/network.h>
#include <towpath/sys/guarded_copy.h>

namespace towpath::shmem {

// Arrivals: brings members of other hosts to the barriers of this one.
//
// On each host a gathering counts all members of its team: neighbours arrive by themselves, those
// of other hosts are brought here by what they sent. A member that is a round ahead (everybody has
// reached its host already, but not this one) waits until the round here is over.
// Thread: one at a time; other PEs of the host use the barriers meanwhile.
class Arrivals {
 public:
  explicit Arrivals(const JobView& job) : job_(job) {}

  /// Errors: exhausted (more of `from` wait than it can be ahead).
  Status take(std::uint32_t from, ArrivalFrame arrival);
  /// Brings those whose round has come; whether some still wait.
  bool settle();

 private:
  struct Guest {
    std::uint32_t from;
    ArrivalFrame arrival;
  };
  struct Seat {
    std::uint32_t slot, member;
    friend auto operator<=>(const Seat&, const Seat&) = default;
  };

  bool seat(const Guest& guest);

  const JobView& job_;
  std::deque<Guest> waiting_;
  std::map<Seat, std::uint32_t> last_round_;  // of the gathering, in which a member was brought
};

// LongPuts: where puts that come in parts are on their way to, for those that look at the heap
// meanwhile. Thread: begin() and end() one at a time, looks_whole() any.
class LongPuts {
 public:
  /// One of them.
  struct Way {
    std::atomic<std::uint64_t> begin{0}, end{0};  // of the heap; alike: none
  };

  void begin(Way& way, std::uint64_t offset, std::uint64_t bytes) noexcept;
  void end(Way& way) noexcept;
  /// As Remote::is_whole(), of the `bytes` at `offset`. `ways` gives all there are. Nothing: a put
  /// may be there, or one has begun or ended while this looked.
  template <typename Ways>
  std::optional<bool> looks_whole(std::uint64_t offset, std::uint64_t bytes, const Ways& ways,
                                  const Condition& condition) const {
    const std::uint64_t before = count_.load(std::memory_order_acquire);
    bool is_there = false;
    if (static_cast<std::uint32_t>(before) != 0)
      ways([&](const Way& way) {
        is_there = is_there || (way.begin.load(std::memory_order_acquire) < offset + bytes &&
                                offset < way.end.load(std::memory_order_acquire));
      });
    if (is_there) return {};
    const bool holds = condition();
    if (count_.load(std::memory_order_acquire) != before) return {};
    return holds;
  }

 private:
  std::atomic<std::uint64_t> count_{0};  // low half: under way; above: how many ever were
};

// InboundBody: what of a frame is not in its head, while it comes.
//
// In its turn a frame's body goes straight to where it belongs, which is asked for anew before each
// part of it. One that comes before its turn, and a handshake, is kept, and so is one that is no
// longer than a word: a PE that waits for it sees all of it at once. What this process would write
// to memory that may fault is put there by the kernel instead (sys/guarded_copy.h).
// Thread: as Links.
class Links;

class InboundBody final : public net::BodySink {
 public:
  explicit InboundBody(Links& links) : links_(links) {}
  InboundBody(const InboundBody&) = delete;
  InboundBody& operator=(const InboundBody&) = delete;

  /// Both borrow the message's head, which lives until done().
  Frame frame;
  ConstByteSpan head;
  std::uint64_t from = 0;  ///< the connection over which it comes
  bool is_kept = false;
  Bytes kept;

  /// Of the heap, while this is a put that comes in parts.
  LongPuts::Way way;

  void begin(const Frame& its_frame, ConstByteSpan its_head, std::uint64_t its_from, bool keeps);
  /// Whether a part of the `bytes` at `offset` of the heap has come, and the rest of them has not.
  bool ends_inside(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const std::uint64_t end = frame.header.offset + came_;
    return way.end.load(std::memory_order_relaxed) != 0 && came_ > 0 && offset < end &&
           end < offset + bytes;
  }

  std::size_t room(std::span<ByteSpan> into) override;
  void came(std::uint64_t bytes) override;
  bool faulted() override;
  void comes_by_process() override { is_by_process_ = true; }
  bool take(ConstByteSpan bytes) override;
  void done(bool whole) override;

 private:
  bool may_fault() const;
  bool put_by_kernel(ConstByteSpan bytes);

  Links& links_;
  std::uint64_t came_ = 0;
  bool is_by_process_ = false;  ///< what room() gives is not written by the kernel
  bool is_dropped_ = false;     ///< some of it could not be written
};

/// Where a PE is reached, and which life of it is there.
struct PeerPlace {
  std::uint64_t instance = 0;  ///< random, never 0
  Bytes address;               ///< of its worker; empty: it is on this host
};

/// What the PEs of a job agreed on before.
struct PeerGroup {
  Secret secret;                  ///< that only they know
  std::vector<PeerPlace> places;  ///< by PE
};

/// Something that was asked; whoever asks looks until it is answered or the link is over.
struct Question {
  ByteSpan into;           ///< get: where the answer goes
  bool may_fault = true;   ///< get: an access to it may end in a signal
  std::uint64_t left = 0;  ///< answers that are to come; get: bytes
  std::uint64_t value = 0;
  Status failed;  ///< get: why bytes that came are not there
};

/// A frame that came before its turn.
struct EarlyFrame {
  Bytes head, body;
};

struct Link {
  Link(std::uint32_t its_pe, PeerPlace its_place, Links& links)
      : pe(its_pe), place(std::move(its_place)), inbound(links) {}
  void adopt(std::unique_ptr<net::Session> its_session) noexcept {
    session = std::move(its_session);
    session->owner = this;
  }

  const std::uint32_t pe;
  const PeerPlace place;
  std::unique_ptr<net::Session> session;
  InboundBody inbound;         ///< of the frame that comes in now
  std::uint64_t last_out = 0;  ///< sequence
  std::uint64_t last_in = 0;
  std::map<std::uint64_t, EarlyFrame> early;
  std::uint64_t posted = 0;         ///< the last put or post that went out
  std::uint64_t applied = 0;        ///< as far as the other says
  std::uint64_t owed = 0;           ///< of the other's puts and posts, what is not acknowledged
  std::deque<FrameHeader> answers;  ///< to be sent; data: `aux` bytes from `offset`
  bool is_lost = false;             ///< over, and nothing of ours can reach it any more
  Status over;                      ///< why
  /// How it ended, to be reported to this host then: what it said to neighbours before may still be
  /// on its way to them.
  PeState ended = PeState::running;
  Instant report_at = Instant::never();

  bool is_up() const noexcept { return over.ok(); }
  bool is_open() const noexcept { return session->is_up(); }
  /// Puts and posts up to this sequence have taken place, or never will.
  bool is_quiet(std::uint64_t sequence) const noexcept { return !is_up() || applied >= sequence; }
  std::size_t unsent() const noexcept { return session->unsent(); }
};

class Links final : private net::MessageListener {
 public:
  Links(const Clock& clock, const Heartbeat& heartbeat, telemetry::Log log = {})
      : clock_(clock), heartbeat_(heartbeat), log_(std::move(log)) {}

  Status open(const MessageNetwork& network);
  net::MessageWorker& worker() noexcept { return *worker_; }
  /// Of this PE, for the others.
  PeerPlace place() const;
  /// Greets all others. Errors: unsupported (no way to one of them), exhausted.
  Status greet(const Remote::Here& here, PeerGroup group);

  /// Errors: peer_lost.
  Result<Link*> find(std::uint32_t pe);
  /// With sender and sequence filled in; at most one of `arrival` and `body`. Errors: peer_lost,
  /// exhausted, not_ready (the link is not open).
  Status send(Link& link, FrameHeader header, ConstByteSpan body = {}, ConstByteSpan arrival = {});
  /// A ticket for a frame. `question` must live until forget().
  std::uint64_t ask(Question& question);
  void forget(std::uint64_t ticket) { questions_.erase(ticket); }

  /// Some of what there is to do; false when there was nothing.
  bool turn();
  /// When turn() has something to do again, though nothing comes.
  Instant due() const noexcept;
  /// As Remote::is_whole(), unless that cannot be said now. Thread: any, from greet() on.
  std::optional<bool> looks_whole(ConstByteSpan element, const Condition& condition) const;
  /// The same between two turns, when nothing comes.
  bool is_whole(ConstByteSpan element, const Condition& condition) const;

  /// By PE; the same from greet() on.
  const std::map<std::uint32_t, Link>& all() const noexcept { return links_; }
  /// Nothing is on its way out.
  bool are_sent() const;
  bool are_over() const;
  /// The last: nobody is reached any more, and the network has nothing of ours.
  void close();

 private:
  // net::MessageListener
  net::BodySink* on_message(const net::Message& message) override;
  Status on_answer(void* owner, const net::Message& message, ConstByteSpan body) override;
  void on_broken(void* owner, const Status& why) override;
  void on_refused(std::string_view address, const Status& why) override;
  friend class InboundBody;
  /// Where the body of a frame in its turn belongs, all of it; empty: there is no place for it any
  /// more.
  ByteSpan room_for(const Frame& frame);
  /// Whether an access to that may end in a signal.
  bool may_fault(const Frame& frame) const;
  /// Puts a part of it there, from byte `at` on. False: it cannot be written, or has no place.
  bool place(const Frame& frame, std::uint64_t at, ConstByteSpan bytes);
  /// A buffer for what place() gets.
  ByteSpan staging(std::uint64_t bytes);
  /// There it cannot be written.
  void on_fault(const Frame& frame);
  /// It has come, whole.
  void on_body(InboundBody& body);

  // How links open: links_sessions.cc
  void open_sessions();
  net::SessionParty self() const;
  net::SessionTerms terms() const { return {.secret = secret_, .backend = "shmem"}; }
  Status dial(Link& link);
  Status take_handshake(const Frame& frame, std::uint64_t from, ConstByteSpan message);
  Status accept(Link& link, std::uint64_t from, ConstByteSpan hello);
  Status take_answer(Link& link, std::uint64_t from, ConstByteSpan answer);
  Status take_confirmation(Link& link, std::uint64_t from, ConstByteSpan confirmation);
  net::SessionPath path_to(const Link& link, std::uint64_t connection = 0) const;
  void open(Link& link);

  // What arrives: links_frames.cc
  Link* speaker_of(const Frame& frame, const net::Message& message);
  void take_in_order(Link& link, const Frame& frame);
  void take_early(Link& link);
  void take(Link& link, const Frame& frame);
  Status check_body(const Frame& frame) const;
  void placed(Link& link, const FrameHeader& put);
  Status change(Link& link, const FrameHeader& header);
  Status promise(Link& link, const FrameHeader& get);
  static Status queue(Link& link, const FrameHeader& answer);
  Status arrive(const Link& link, const Frame& frame);
  void answered(const Frame& frame);
  void begin(const Link& link, const FrameHeader& hello);
  void end(Link& link, const FrameHeader& bye);
  void note_doing(const Link& link, const FrameHeader& beat);

  void lose(Link& link, Status why);
  void tidy(Link& link);
  void report_end(Link& link);
  void answer(Link& link);
  void beat(Link& link, Instant now);
  PeRecord& mine() const noexcept { return here_.job->pe(here_.my_pe); }

  const Clock& clock_;
  const Heartbeat heartbeat_;
  telemetry::Log log_;
  Remote::Here here_;
  Secret secret_;
  std::uint64_t instance_ = 0;
  bool has_connections_ = false;
  std::unique_ptr<net::MessageWorker> worker_;  // outlives the endpoints
  std::optional<net::Sessions> sessions_;
  std::map<std::uint32_t, Link> links_;  // by PE
  InboundBody handshake_{*this};         // whose body comes: whole, in one go
  std::optional<Arrivals> arrivals_;
  bool arrivals_wait_ = false;
  LongPuts long_puts_;
  sys::GuardedCopy guard_;
  Bytes staging_;
  std::map<std::uint64_t, Question*> questions_;  // by ticket
  std::uint64_t last_ticket_ = 0;
};

}  // namespace towpath::shmem
