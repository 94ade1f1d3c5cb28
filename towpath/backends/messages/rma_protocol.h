// Protocol: moves the bytes of operations over links. It fills their windows, takes answers, and
// knows when what was stopped is quiesced.
//
// Reads are quiesced at once: data for an operation that gave up is dropped. Writes are quiesced
// when their frames are answered, or when the owner cannot place them any more (link.h, grants);
// what of them has not left by then is copied when they are stopped, so that nobody looks at it
// again. Completions are reported by deliver(), never from inside a message. Thread: loop.
#pragma once

#include <deque>

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

  /// Sends what the window allows.
  void pump(Link& link);
  /// The head of an answer to a request of ours: whether its body fits. Errors: corrupt (the link
  /// should be given up).
  Status expect(Link& link, const Frame& answer);
  /// An answer that was expected and has come, its body too; `unread`: its trailer.
  void take(Link& link, const Frame& answer, const Trailer& unread = {});
  /// The same, of an answer whose bytes did not all land, by a fault of this side's memory.
  void fail(Link& link, const Frame& answer);
  /// Whether the bytes that answer this request are to land.
  static bool waits_for(const Link& link, std::uint64_t id);
  /// Stops all operations of a link.
  void stop_all(Link& link, const Status& why);
  /// Lets go of writes that cannot land any more. The moment of the next such, or never.
  Instant expire(Link& link, Instant now);
  /// Reports completions. Only from the end of post(), cancel(), teardown() and progress().
  void deliver();

 private:
  void ask(Link& link, Exchange& exchange, std::unique_ptr<net::MessageBuffer> buffer);
  void stop(Link& link, MessageOperation& operation, const Status& why);
  void give_up(Link& link, Exchange& exchange, const Status& why);
  static void keep_rest(Link& link, Exchange& exchange);
  void settle(MessageOperation& operation);

  backend::Events& events_;
  const Clock& clock_;
  const Timing& timing_;
  LinkTable& links_;
  sys::GuardedCopy& guard_;
  const bool takes_devices_;
  std::uint64_t last_id_ = 0;
  std::deque<MessageOperation*> finished_;
  bool delivering_ = false;
};

}  // namespace towpath::backends::messages
