// EventSource: what an event loop watches of an agent, so that it sleeps in its own place and is
// woken for whatever the loop waits for, whichever thread made the progress.
//
//   TOWPATH_TRY(auto source, EventSource::open(agent));
//   when source->fd() is readable:  source->progress();
//                                   look at transfers, at has_notifications(), at is_over()
//
// Agent::wait_fd() alone does not do for that: another thread may make the progress which ends a
// transfer, and then there is nothing left to be readable. This descriptor is readable when there
// is something to make progress with, and besides from each end of a transfer, each message and the
// agent's end on until progress() was called. So a look after each progress(), and one after
// open(), miss nothing.
//
// It makes no thread and keeps no time. It may outlive the agent, as a Transfer may; the agent's
// end waits for a progress() that is under way. Any number for one agent; one for each loop is
// enough. Thread: loop; wake() any.
#pragma once

#include <memory>

#include <towpath/agent/agent.h>

namespace towpath::agent {

struct Listener;

class EventSource {
 public:
  /// Errors: not_ready (the agent is the parent process's), exhausted (no descriptor is free).
  static Result<std::unique_ptr<EventSource>> open(Agent& agent);
  ~EventSource();
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;

  /// For a poller, level-triggered; do not read it. Deadlines make it readable too.
  int fd() const noexcept;
  /// Makes progress, once, and forgets the wake-ups so far; fd() stays readable where there is more
  /// to do at once. After the agent's end it only forgets.
  void progress();
  /// The second half of progress() alone.
  void forget() noexcept;
  /// Makes fd() readable: for the first look after something was posted.
  void wake() noexcept;

  /// Whether Agent::take_notifications() would give any.
  bool has_notifications() const noexcept;
  /// The agent has ended: no message comes any more, and what has not ended now does not end.
  bool is_over() const noexcept;

 private:
  EventSource(std::shared_ptr<AgentCore> core, std::unique_ptr<Listener> listener);

  std::shared_ptr<AgentCore> core_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace towpath::agent
