// Awaiting: co_await for transfers and notifications, in whatever event loop the user has; and
// EventSource, which it is made with.
//
//   TOWPATH_TRY(auto awaiting, Awaiting::open(agent, my_loop));  // my_loop: an EventLoop
//   ...in a coroutine of any type, on the loop's thread:
//   Status moved = co_await awaiting->ended(transfer);           // posted before
//   auto messages = co_await awaiting->notifications();          // those there are, or the first
//
// All that is asked of the loop is to say when one descriptor is readable. The agent's progress is
// made there, as long as this lives and whether or not something is awaited; so an agent needs no
// thread besides. Coroutines are resumed in the loop's callback.
//
// A coroutine that is destroyed while it waits is forgotten; its transfer goes on: cancel() it, or
// drop it. Destroy this after the coroutines that wait, outside of the callback; the agent may go
// before, outside of the callback too.
// Thread: loop. examples/await.cc is one with epoll.
#pragma once

#include <coroutine>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <towpath/agent/agent.h>

namespace towpath::agent {

struct Listener;

/// What an event loop watches of an agent, so that it sleeps in its own place and is woken for
/// whatever the loop waits for, whichever thread made the progress.
///
///   TOWPATH_TRY(auto source, EventSource::open(agent));
///   when source->fd() is readable:  source->progress();
///                                   look at transfers, at has_notifications(), at is_over()
///
/// Agent::wait_fd() alone does not do for that: another thread may make the progress which ends a
/// transfer, and then there is nothing left to be readable. This descriptor is readable when there
/// is something to make progress with, and besides from each end of a transfer, each message and
/// the agent's end on until progress() was called. So a look after each progress(), and one after
/// open(), miss nothing.
///
/// It makes no thread and keeps no time. It may outlive the agent, as a Transfer may; the agent's
/// end waits for a progress() that is under way. Any number for one agent; one for each loop is
/// enough. Thread: loop; wake() any.
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

/// The user's event loop, as far as it is needed here.
class EventLoop {
 public:
  virtual ~EventLoop() = default;
  /// From now on calls `on_readable` on the loop's thread while `fd` is readable (level-triggered).
  virtual Status watch(int fd, std::function<void()> on_readable) = 0;
  virtual void unwatch(int fd) = 0;
};

class Awaiting {
  struct Link {
    Link() = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    ~Link() { unlink(); }
    void unlink() noexcept {
      before->after = after;
      after->before = before;
      before = after = this;
    }
    void append(Link& one) noexcept {
      one.before = std::exchange(before, &one);
      one.before->after = &one;
      one.after = this;
    }
    Link* before = this;
    Link* after = this;
    bool is_turn_end = false;
  };

  class Awaiter : public Link {
   public:
    explicit Awaiter(Awaiting& awaiting) : awaiting_(awaiting) {}
    virtual ~Awaiter() = default;
    virtual bool await_ready() = 0;
    void await_suspend(std::coroutine_handle<> coroutine) {
      coroutine_ = coroutine;
      awaiting_.awaiters_.append(*this);
      awaiting_.source_->wake();  // the first look
    }

   protected:
    friend class Awaiting;
    Awaiting& awaiting_;
    std::coroutine_handle<> coroutine_;
  };

  struct UntilEnded final : Awaiter {
    UntilEnded(Awaiting& awaiting, Transfer& awaited) : Awaiter(awaiting), transfer(awaited) {}
    bool await_ready() override {
      return transfer.ended() || transfer.state() == TransferState::prepared ||
             awaiting_.source_->is_over();
    }
    Status await_resume() const {
      if (transfer.ended()) return transfer.status();
      if (transfer.state() == TransferState::prepared)
        return error(Code::not_ready, "the transfer was not posted", "post it before you await it");
      return error(Code::not_ready, "the agent ended, and its transfer has not come to rest",
                   "keep its memory until the process ends");
    }
    Transfer& transfer;
  };

  struct UntilNotified final : Awaiter {
    using Awaiter::Awaiter;
    bool await_ready() override {
      if (awaiting_.source_->is_over()) return true;
      if (awaiting_.source_->has_notifications()) messages = awaiting_.agent_.take_notifications();
      return !messages.empty();
    }
    Result<std::vector<Notification>> await_resume() {
      if (messages.empty())
        return error(Code::not_ready, "the agent has ended", "make another one");
      return std::move(messages);
    }
    std::vector<Notification> messages;
  };

 public:
  /// The loop outlives it. Errors: EventSource::open(), those of watch().
  static Result<std::unique_ptr<Awaiting>> open(Agent& agent, EventLoop& loop) {
    TOWPATH_TRY(std::unique_ptr<EventSource> source, EventSource::open(agent));
    std::unique_ptr<Awaiting> made(new Awaiting(agent, loop, std::move(source)));
    TOWPATH_TRY(loop.watch(made->source_->fd(), [&self = *made] { self.turn(); }));
    return made;
  }
  ~Awaiting() { loop_.unwatch(source_->fd()); }
  Awaiting(const Awaiting&) = delete;
  Awaiting& operator=(const Awaiting&) = delete;

  /// Until `transfer`, which stays where it is meanwhile, has ended and is quiesced. Gives a
  /// Status: ok when it is done, else why not. Errors besides: not_ready (never posted; or bytes
  /// may still move after the agent's end).
  UntilEnded ended(Transfer& transfer) { return {*this, transfer}; }
  /// Gives a Result of a vector, which is never empty. Errors: not_ready (the agent has ended).
  UntilNotified notifications() { return UntilNotified(*this); }

 private:
  Awaiting(Agent& agent, EventLoop& loop, std::unique_ptr<EventSource> source)
      : agent_(agent), loop_(loop), source_(std::move(source)) {}

  /// Where a turn ends among the awaiters. One that was cut short by an exception has another.
  struct TurnEnd : Link {
    explicit TurnEnd(EventSource& its_source) : source(its_source) { is_turn_end = true; }
    ~TurnEnd() {
      if (!is_reached) source.wake();
    }
    EventSource& source;
    bool is_reached = false;
  };

  // A coroutine that is resumed may await again, end others, or run the loop itself: each is asked
  // once in a turn, and leaves the list by itself. The end of a turn around this one is put off.
  void turn() {
    source_->progress();
    TurnEnd end(*source_);
    awaiters_.append(end);
    while (awaiters_.after != &end) {
      Link& next = *awaiters_.after;
      next.unlink();
      awaiters_.append(next);
      if (next.is_turn_end) continue;
      auto& one = static_cast<Awaiter&>(next);
      if (!one.await_ready()) continue;
      one.unlink();
      one.coroutine_.resume();
    }
    end.is_reached = true;
  }

  Agent& agent_;
  EventLoop& loop_;
  std::unique_ptr<EventSource> source_;
  Link awaiters_;
};

}  // namespace towpath::agent
