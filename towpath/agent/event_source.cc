#include <utility>

#include <towpath/agent/awaiting.h>
#include <towpath/agent/core.h>

namespace towpath::agent {

Result<std::unique_ptr<EventSource>> EventSource::open(Agent& agent) {
  std::shared_ptr<AgentCore> core = agent.core_;
  TOWPATH_TRY(core->context.check_own());
  TOWPATH_TRY(std::unique_ptr<Listener> listener, Listener::open());
  std::unique_ptr<EventSource> source(new EventSource(std::move(core), std::move(listener)));
  TOWPATH_TRY(source->core_->engine.attach(*source->listener_));
  return source;
}

EventSource::EventSource(std::shared_ptr<AgentCore> core, std::unique_ptr<Listener> listener)
    : core_(std::move(core)), listener_(std::move(listener)) {}

EventSource::~EventSource() {
  if (core_->context.is_inherited())
    (void)new std::shared_ptr<AgentCore>(std::move(core_));  // as the agent itself
  else
    core_->engine.detach(*listener_);
}

int EventSource::fd() const noexcept { return listener_->poller.fd(); }

// A look after this sees what was changed before the wake-ups that it forgets. What was changed
// before open() is seen, since open() announces the listener and the look at a state or the inbox
// is sequentially consistent, as the steps of LeaderFollower::notify() are.
void EventSource::forget() noexcept {
  if (!core_->context.is_inherited()) listener_->waker->clear();
}

// Afterwards: the wake-ups for what this turn itself ends are no news to a look after it.
void EventSource::progress() {
  const bool more = !core_->context.is_inherited() && core_->engine.progress_for_handle();
  forget();
  if (more) wake();
}

void EventSource::wake() noexcept {
  if (!core_->context.is_inherited()) listener_->waker->wake();
}

bool EventSource::has_notifications() const noexcept {
  return !core_->context.is_inherited() && core_->engine.has_notifications();
}

bool EventSource::is_over() const noexcept {
  return core_->context.is_inherited() || core_->context.is_over.load(std::memory_order_seq_cst);
}

}  // namespace towpath::agent
