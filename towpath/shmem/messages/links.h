// Links: what one PE says to those of other hosts, and does when they ask: one link to each.
//
//   [ greeting ] --hello--> [ up ] --bye, silence, breakage--> [ over ]
//
// Frames that arrive change this PE's heap and its host's segment; answers and acknowledgements go
// out at the end of a turn. A PE that is silent for the timeout is lost: a cut link is not reported
// by UCX (it retransmits), so everybody speaks at every heartbeat.
// Invariants: frames of a link are taken in the order in which they were sent, each once; over is
// final. Nothing is moved or answered but inside of turn().
// Thread: one at a time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/net/ucx/ucx_worker.h>
#include <towpath/shmem/messages/arrivals.h>
#include <towpath/shmem/messages/network.h>

namespace towpath::shmem {

/// What the PEs of a job agreed on before: a number that only they know, and where they are.
struct PeerGroup {
  std::uint64_t key = 0;
  std::vector<Bytes> addresses;  ///< of workers, by PE; empty: of this host
};

/// Something that was asked; whoever asks looks until it is answered or the link is over.
struct Question {
  ByteSpan into;           ///< get: where the answer goes
  std::uint64_t left = 0;  ///< answers that are to come; get: bytes
  std::uint64_t value = 0;
};

struct Link {
  std::uint32_t pe = 0;
  std::unique_ptr<net::MessageEndpoint> endpoint;
  std::uint64_t last_out = 0;  ///< sequence
  std::uint64_t last_in = 0;
  std::map<std::uint64_t, Bytes> early;
  std::uint64_t posted = 0;         ///< the last put or post that went out
  std::uint64_t applied = 0;        ///< as far as the other says
  std::uint64_t owed = 0;           ///< of the other's puts and posts, what is not acknowledged
  std::deque<FrameHeader> answers;  ///< to be sent; data: `aux` bytes from `offset`
  Instant heard_at, sent_at;
  bool has_broken = false;
  bool is_lost = false;  ///< over, and nothing of ours can reach it any more
  Status over;           ///< why
  /// How it ended, to be reported to this host then: what it said to neighbours before may still be
  /// on its way to them.
  PeState ended = PeState::running;
  Instant report_at = Instant::never();

  bool is_up() const noexcept { return over.ok(); }
  bool is_quiet() const noexcept { return !is_up() || applied >= posted; }
};

class Links final : private net::MessageListener {
 public:
  using WorkerMaker = std::function<Result<std::unique_ptr<net::MessageWorker>>(
      const net::UcxOptions& options, net::MessageListener& listener)>;

  Links(const Clock& clock, const Heartbeat& heartbeat) : clock_(clock), heartbeat_(heartbeat) {}

  Status open(const net::UcxOptions& options, const WorkerMaker& make_worker);
  net::MessageWorker& worker() noexcept { return *worker_; }
  /// Greets all others. Errors: unsupported (no way to one of them), exhausted.
  Status greet(const Remote::Here& here, PeerGroup group);

  /// Errors: peer_lost.
  Result<Link*> find(std::uint32_t pe);
  /// With key, sender and sequence filled in. Errors: peer_lost, exhausted.
  Status send(Link& link, FrameHeader header, ConstByteSpan payload = {});
  /// A ticket for a frame. `question` must live until forget().
  std::uint64_t ask(Question& question);
  void forget(std::uint64_t ticket) { questions_.erase(ticket); }

  /// Some of what there is to do; false when there was nothing.
  bool turn();
  /// When turn() has something to do again, though nothing comes.
  Instant due() const noexcept;

  bool are_quiet() const;
  /// Nothing is on its way out.
  bool are_sent() const;
  bool are_over() const;
  /// The last: nobody is reached any more, and UCX has nothing of ours.
  void close();

 private:
  net::BodySink* on_message(const net::Message& message) override;
  void on_broken(void* owner, const Status& why) override;
  void hear(ConstByteSpan message);

  void take_in_order(Link& link, const Frame& frame);
  void take(Link& link, const Frame& frame);
  Status place(Link& link, const Frame& frame);
  Status change(Link& link, const Frame& frame);
  Status arrive(const Link& link, const Frame& frame);
  Status answered(const Frame& frame);
  void begin(const Link& link, const FrameHeader& hello);
  void end(Link& link, const FrameHeader& bye);
  void note_doing(const Link& link, const FrameHeader& beat);
  void lose(Link& link, Status why);
  void report_end(Link& link);
  void answer(Link& link);
  void beat(Instant now);
  PeRecord& mine() const noexcept { return here_.job->pe(here_.my_pe); }

  const Clock& clock_;
  const Heartbeat heartbeat_;
  Remote::Here here_;
  std::uint64_t key_ = 0;
  std::unique_ptr<net::MessageWorker> worker_;  // outlives the endpoints
  std::map<std::uint32_t, Link> links_;         // by PE
  std::optional<Arrivals> arrivals_;
  bool arrivals_wait_ = false;
  std::map<std::uint64_t, Question*> questions_;  // by ticket
  std::uint64_t last_ticket_ = 0;
  Instant next_beat_, last_turn_;
};

}  // namespace towpath::shmem
