// Courier: moves the bytes of operations over links. It fills their windows, takes answers, and
// knows when what was stopped is quiet.
//
// Reads are quiet at once: data for an operation that gave up is dropped. Writes are quiet when
// their frames are answered, or when the owner cannot place them any more (link.h, grants).
// Completions are told by deliver(), never from inside a message.
// Thread: loop.
#pragma once

#include <functional>
#include <vector>

#include <towpath/backends/ucx/link.h>

namespace towpath::backends::ucx {

class Courier final : public OperationOwner {
 public:
  struct Outward {
    /// Sends a frame that was written into a buffer. A link that breaks meanwhile is told later.
    std::function<void(Link&, std::unique_ptr<net::MessageBuffer>)> send;
    /// The link of a connection.
    std::function<Link&(backend::Connection&)> link_of;
  };
  Courier(backend::Events& events, const Clock& clock, const Timing& timing,
          net::MessageBuffers& buffers, Outward outward)
      : events_(events),
        clock_(clock),
        timing_(timing),
        buffers_(buffers),
        out_(std::move(outward)) {}

  void post(UcxOperation& operation) override;
  void cancel(UcxOperation& operation) override;

  /// Sends what the window allows.
  void pump(Link& link);
  /// An answer to a request of ours. Errors: corrupt (the link should be given up).
  Status take(Link& link, const Frame& answer);
  /// Stops all operations of a link.
  void stop_all(Link& link, const Status& why);
  /// Lets go of writes that cannot land any more. The moment of the next such, or never.
  Instant expire(Link& link, Instant now);
  /// Tells completions. Only from the end of post(), cancel(), teardown() and progress().
  void deliver();

 private:
  void ask(Link& link, Exchange& exchange);
  void stop(Link& link, UcxOperation& operation, const Status& why);
  void settle(UcxOperation& operation);

  backend::Events& events_;
  const Clock& clock_;
  const Timing& timing_;
  net::MessageBuffers& buffers_;
  const Outward out_;
  std::uint64_t last_id_ = 0;
  std::vector<UcxOperation*> finished_;
  bool delivering_ = false;
};

}  // namespace towpath::backends::ucx
