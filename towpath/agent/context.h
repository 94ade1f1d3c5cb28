// AgentContext: what the parts of an agent share: who it is, what it was created with, and two
// facts that every part must see at once. Thread: any; what is not atomic is set before the agent
// is used.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <towpath/agent/options.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/fork_mark.h>
#include <towpath/telemetry/log.h>

namespace towpath::agent {

class AgentCore;

/// The sink that the agent was given, until its end. Handles, and with them logs, may outlive the
/// agent, and then the sink and the clock: a log asks here whether a line is wanted, and looks at
/// neither afterwards. Thread: any; its lock is a leaf.
class SinkUntilEnd final : public telemetry::EventSink {
 public:
  /// Null: nothing is wanted.
  explicit SinkUntilEnd(telemetry::EventSink* given) noexcept : given_(given) {}
  void emit(const telemetry::Event& event) noexcept override {
    run::MutexLock lock(mutex_);
    if (given_ != nullptr) given_->emit(event);
  }
  bool wants(telemetry::Level level) const noexcept override {
    run::MutexLock lock(mutex_);
    return given_ != nullptr && given_->wants(level);
  }
  void end() noexcept {
    run::MutexLock lock(mutex_);
    given_ = nullptr;
  }

 private:
  mutable run::Mutex mutex_;
  telemetry::EventSink* given_ TOWPATH_GUARDED_BY(mutex_);
};

struct AgentContext {
  AgentContext(const AgentOptions& given, AgentIdentity identity);

  telemetry::AgentMeter* meter() const noexcept { return options.meter; }
  /// Whether this process is a forked child of the agent's: then nothing behind it may be touched,
  /// no lock either, which a thread of the parent may have held.
  bool is_inherited() const noexcept { return fork_mark_.is_inherited(); }
  /// Sequentially consistent: a handle's call counts itself and then asks, as for is_over.
  bool is_closed() const noexcept { return closed.load(std::memory_order_seq_cst); }
  /// Errors: not_ready (the agent was shut down, or is the parent process's).
  Status check_open() const { return is_inherited() || is_closed() ? why_not_open() : Status(); }
  /// Errors: not_ready (it is the parent process's).
  Status check_own() const { return is_inherited() ? why_not_open() : Status(); }

  const AgentOptions options;
  const AgentIdentity self;
  const Clock& clock;
  mutable SinkUntilEnd sink;  ///< outlives the logs that write to it
  telemetry::Log log;
  /// The agent that these parts belong to: what handles keep alive.
  std::weak_ptr<AgentCore> core;

  /// Of releasing a region; made before it is needed.
  const Status no_memory =
      error(Code::exhausted, "no memory was left to release a region, which stays alive",
            "free memory, and release it again");

  std::atomic<bool> closed{false};
  /// shut_down() is through: what has not ended does not end any more.
  std::atomic<bool> is_over{false};
  /// Counts regions that went away: a transfer that was checked at an older count checks its
  /// records again. The release pairs with the acquire in Transfers::is_current().
  mutable std::atomic<std::uint64_t> memory_generation{1};
  /// Whether any memory of ours or of a peer's is read-only: only then transfers look for it.
  mutable std::atomic<bool> has_read_only{false};
  void note_memory_gone() const noexcept {
    memory_generation.fetch_add(1, std::memory_order_release);
  }

 private:
  Status why_not_open() const;

  const sys::ForkMark fork_mark_;
};

}  // namespace towpath::agent
