// MessageTransport: the engine between hosts: messages (links.h), and the thread that serves the
// others.
//
// Whoever calls sends by itself, and makes progress while it waits; the thread does it otherwise,
// since the others' puts and questions need this side whatever its program does. It starts with the
// job and ends with it.
// The PE that has the bytes moves them (decision 0010), by the processor's own atomic operations:
// so a word has one agent wherever it is changed from.
// Thread: any, but for meet(), start() and close().
#pragma once

#include <towpath/run/mutex.h>
#include <towpath/run/poller.h>
#include <towpath/run/waker.h>
#include <towpath/run/worker.h>
#include <towpath/shmem/messages/links.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>

namespace towpath::shmem {

class MessageTransport final : public Remote {
 public:
  /// As all PEs agreed. Errors: unsupported (no UCX), invalid_argument (options), exhausted.
  static Result<std::unique_ptr<MessageTransport>> open(const NetworkOptions& options,
                                                        const NetworkWish& agreed);
  explicit MessageTransport(const NetworkOptions& options)
      : links_(clock_, options.heartbeat, options.log) {}
  MessageTransport(const MessageTransport&) = delete;
  MessageTransport& operator=(const MessageTransport&) = delete;
  ~MessageTransport() override { stop(); }

  /// Where the others reach this PE.
  PeerPlace place();
  /// Before start().
  void meet(PeerGroup group) { group_ = std::move(group); }

  Status start(const Here& here) override;
  Status put(RemoteAddress to, ConstByteSpan bytes) override;
  Status get(RemoteAddress from, ByteSpan into) override;
  bool is_whole(ConstByteSpan element, const Condition& condition) noexcept override;
  Result<std::uint64_t> change(RemoteAddress at, const Change& change) override;
  Status post(RemoteAddress at, const Change& change) override;
  void quiet() noexcept override;
  Status arrive(const ArrivalNews& news, std::span<const std::uint32_t> doors) override;
  Result<std::uint64_t> take_slot() override;
  void leave_slot(std::uint32_t slot, std::uint32_t members) noexcept override;
  void end_all(int status) noexcept override;
  void close(PeState ended) noexcept override;

 private:
  class Driving;

  void serve(const run::StopToken& stop);
  void stop() noexcept;
  /// Makes progress until `done()`; others may use the links in between.
  template <typename Done>
  void drive_until(const Done& done) TOWPATH_REQUIRES(mutex_);
  /// The link is open, and there is room on the way. Errors: peer_lost.
  Status make_room(Link& link) TOWPATH_REQUIRES(mutex_);
  Result<std::uint64_t> ask(std::uint32_t pe, FrameHeader header);
  /// To all others that are not over.
  void report_all(const FrameHeader& header) TOWPATH_REQUIRES(mutex_);
  ArrivalFrame frame_of(const ArrivalNews& news) const;
  /// Whether an access of this process's to `memory` may end in a signal.
  bool may_fault(ByteSpan memory) const;

  const sys::SystemClock clock_;
  Here here_;
  sys::Fd mappings_;  // of this process; none where the kernel answers nothing about single ones
  PeerGroup group_;
  run::Mutex mutex_;
  Links links_ TOWPATH_GUARDED_BY(mutex_);
  const Links& links_of_any_thread_ = links_;   // for what any may ask of them
  int drivers_ TOWPATH_GUARDED_BY(mutex_) = 0;  // callers that make progress: the thread need not
  std::optional<run::Poller> poller_;
  std::unique_ptr<run::Waker> waker_;  // woken once, at the end
  std::optional<run::Worker> thread_;
};

}  // namespace towpath::shmem
