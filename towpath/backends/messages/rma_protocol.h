// RmaProtocol: moves the bytes of operations over links. It fills the windows of their rails, takes
// answers, and knows when what was stopped is quiesced.
//
// Which rail the next slice goes over: of those with room the one that should be through with it
// first, unless all others together should be through with all the rest before it. Slices are as
// long as the rail is fast, so that each is through with its own in about the time of the fastest.
//
// Reads are quiesced at once: data for an operation that gave up is dropped. Writes are quiesced
// when their frames are answered, or when the owner cannot place them any more (link.h, grants);
// what of them has not left by then is copied when they are stopped, so that nobody looks at it
// again. Completions are reported by deliver(), never from inside a message. Thread: loop.
#pragma once

#include <towpath/backends/messages/link_table.h>

namespace towpath::backends::messages {

class RmaProtocol {
 public:
  /// All outlive it. `guard`: for memory that may fault. `takes_devices`: both sides' carriers do.
  RmaProtocol(backend::Events& events, const Clock& clock, const Timing& timing, LinkTable& links,
              sys::GuardedCopy& guard, bool takes_devices)
      : events_(events),
        clock_(clock),
        timing_(timing),
        links_(links),
        guard_(guard),
        takes_devices_(takes_devices) {}

  /// Over the link of its connection.
  void post(MessageOperation& operation);
  void cancel(MessageOperation& operation);

  /// Sends what the windows allow.
  void pump(Link& link);
  /// What requests have brought so far, in bytes, and what each is worth beside them.
  std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }
  /// The head of an answer to a request of ours: whether its body fits. Errors: corrupt (the link
  /// should be given up).
  Status expect(Rail& rail, const Frame& answer);
  /// An answer that was expected and has come, its body too; `unread`: its trailer.
  void take(Rail& rail, const Frame& answer, const Trailer& unread = {});
  /// The same, of an answer whose bytes did not all land, by a fault of this side's memory.
  void fail(Rail& rail, const Frame& answer);
  /// Whether the bytes that answer this request are to land.
  static bool waits_for(const Rail& rail, std::uint64_t id);
  /// Stops all operations of a link.
  void stop_all(Link& link, const Status& why);
  /// Lets go of writes that cannot land any more. The moment of the next such, or never.
  Instant expire(Link& link, Instant now);

  // Of links with several rails:
  /// From now on rails are measured, and what is in the queue is counted.
  static void begin_to_measure(Link& link);
  /// Reads of a rail whose session is over go again, over another.
  void repeat_reads(Rail& rail);
  /// The owner places nothing of that session any more: the same for its writes.
  void repeat_writes(Rail& rail);
  /// Reports completions. Only from the end of post(), cancel(), teardown() and progress().
  void deliver() {
    if (first_settled_ != nullptr) deliver_settled();
  }

 private:
  void deliver_settled();
  /// A place in the window of a rail; null: none for now.
  struct Turn {
    Rail* rail = nullptr;
    Exchange* exchange = nullptr;
    std::uint64_t most_bytes = kPayloadBytes;
  };
  /// `wanted`: bytes of the slice's operation that are left.
  Turn next_turn(Link& link, bool is_write, std::uint64_t wanted, Instant now);
  bool may_ask(Rail& rail, bool is_write, Instant now);
  void ask(Rail& rail, Exchange& exchange, std::unique_ptr<net::MessageBuffer> buffer,
           std::uint64_t most_bytes);
  void begin_to_drain(MessageOperation& operation, const Status& why);
  void stop(Link& link, MessageOperation& operation, const Status& why);
  void give_up(Link& link, Exchange& exchange, const Status& why);
  static void keep_rest(Rail& rail, Exchange& exchange);
  void repeat(Link& link, Exchange& exchange);
  void settle(MessageOperation& operation);

  backend::Events& events_;
  const Clock& clock_;
  const Timing& timing_;
  LinkTable& links_;
  sys::GuardedCopy& guard_;
  const bool takes_devices_;
  std::uint64_t last_id_ = 0;
  std::uint64_t sent_bytes_ = 0;
  // To be reported: a chain, since transfers end also when there is no memory.
  MessageOperation* first_settled_ = nullptr;
  MessageOperation* last_settled_ = nullptr;  ///< meaningless when there is no first
  std::size_t draining_ = 0;                  ///< operations that were stopped and are not settled
  bool delivering_ = false;
};

}  // namespace towpath::backends::messages
