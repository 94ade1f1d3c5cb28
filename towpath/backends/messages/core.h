// MessageBackend: the backend itself, in several files. core_links.cc: links and their frames;
// core_sessions.cc: how links come up; core_rails.cc: their further rails; core_notes.cc:
// notifications; message_backend.cc: memory, operations, the loop.
// Thread: loop.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <towpath/backends/messages/connection_info.h>
#include <towpath/backends/messages/inbound_frames.h>
#include <towpath/backends/messages/memory.h>
#include <towpath/backends/messages/message_backend.h>
#include <towpath/backends/messages/rma_protocol.h>
#include <towpath/net/session/sessions.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/telemetry/log.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::backends::messages {

/// Completions of copies within the process are those of the operation around them.
class SelfEvents final : public backend::Events {
 public:
  explicit SelfEvents(backend::Events& outer) : outer_(outer) {}
  void on_complete(backend::Operation& inner, const backend::Completion& completion) override {
    auto& operation = *static_cast<MessageOperation*>(inner.owner);
    operation.active = false;
    outer_.on_complete(operation, completion);
  }
  bool on_notification(const AgentIdentity&, ConstByteSpan) override { return true; }
  void on_peer_lost(backend::Connection&, const Status&) override {}

 private:
  backend::Events& outer_;
};

class MessageBackend final : public backend::Backend,
                             private net::MessageListener,
                             private backend::SliceMover {
 public:
  MessageBackend(const backend::BackendContext& context, Carrier carrier, const Timing& timing,
                 device::DriverSource devices);
  ~MessageBackend() override;
  Status open(const backend::BackendContext& context);

  const backend::Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<backend::Memory>> register_memory(const RegionDescriptor& region) override;
  Bytes connection_info() const override { return encode(info_); }
  Result<std::unique_ptr<backend::Connection>> connect(const AgentIdentity& peer,
                                                       ConstByteSpan info) override;
  Result<std::unique_ptr<backend::Memory>> import_memory(backend::Connection& connection,
                                                         const RegionDescriptor& region,
                                                         ConstByteSpan key) override;
  std::unique_ptr<backend::Operation> make_operation() override;
  Status notify(backend::Connection& connection, ConstByteSpan message) override;
  void teardown(backend::Connection& connection) override;
  bool progress() override;
  int wait_fd() const override { return poller_ ? poller_->fd() : -1; }
  std::string describe_path(const backend::Memory& local,
                            const backend::Memory& remote) const override;

  void post(MessageOperation& operation);
  void cancel(MessageOperation& operation);

 private:
  // backend::SliceMover: copies to oneself
  Status admit(const backend::Request&) override { return {}; }
  Status move(backend::SliceTask& task) override;
  // net::MessageListener
  net::BodySink* on_message(const net::Message& message) override;
  Status on_answer(void* owner, const net::Message& message, ConstByteSpan body) override;
  void on_broken(void* owner, const Status& why) override;
  void on_refused(std::string_view address, const Status& why) override;
  void on_staging_filled(net::DeviceStagingBuffer& room, std::uint64_t bytes) override;
  void on_staging_left(net::DeviceStagingBuffer& room) override;

  void say_farewell();
  void wait_for_last_notes();
  /// For one more connection that a peer begins. Errors: exhausted.
  Status check_room() const;
  void bound_last_notes();
  bool is_fading(const Link& link) const;
  Rail* hear(const Frame& frame, std::uint64_t connection, ConstByteSpan head);
  /// A peer of whose frame nothing becomes, for want of memory, is given up: it would wait for an
  /// answer without end.
  template <typename TakeIt>
  void or_lose(const Frame& frame, TakeIt take_it) {
    try {
      take_it();
    } catch (const std::bad_alloc&) {
      if (Rail* const rail = links_->find_by_peer(frame.header.session))
        links_->break_off(*rail, sessions_->no_memory());
    }
  }
  InboundWrite* begin_write(const Frame& frame);
  InboundData* begin_data(Rail& rail, const Frame& frame);
  net::BodySink* begin_text(const Frame& frame, std::uint64_t from);
  void take_room(const net::DeviceStagingBuffer& room, std::uint64_t bytes);
  void give_up_device(unsigned device, const Status& why);
  void take(Rail& rail, const Frame& frame);
  void take_text(InboundText& inbound);
  // Handshakes: core_sessions.cc
  void open_sessions(telemetry::Metrics* metrics);
  Result<Link*> dial(const AgentIdentity& peer, const ConnectionInfo& info);
  Result<std::unique_ptr<net::Session>> greet(const net::SessionPeer& peer,
                                              const ConnectionInfo& info, ConstByteSpan address,
                                              std::uint64_t session, std::uint64_t link);
  net::SessionParty party(std::uint64_t session, std::uint64_t link) const;
  void take_hello(const InboundText& inbound);
  Status accept(const InboundText& inbound);
  Status take_answer(Rail& rail, std::uint64_t from, ConstByteSpan answer);
  Status take_confirmation(const InboundText& inbound);
  Result<Rail*> keep_accepted(const net::Session& session);
  // Further rails: core_rails.cc
  void tend(Link& link, Instant now);
  void find_paths(Link& link, Instant now);
  void dial_due(Link& link, Instant now);
  Status dial_path(Link& link, RailPath& path);
  void redial(Instant now);
  void leave(Rail& rail);
  void vacate_path(const Rail& rail);
  void send_fences(Rail& rail);
  void take_fence(Rail& rail, std::uint64_t session);
  void take_fenced(Rail& rail, std::uint64_t session);
  void watch(Link& link, Instant now);
  void erase_drained(Link& link);
  std::string path_of(const Rail& rail) const;
  /// Empty where there is one.
  std::string describe_rails(std::uint64_t instance) const;
  Instant next_watch() const;
  // Notifications: core_notes.cc
  void take_note(Rail& rail, InboundText& inbound);
  void send_note(Rail& rail, std::uint64_t number, ConstByteSpan message,
                 std::unique_ptr<net::MessageBuffer> buffer);
  void send_notes_again(Rail& rail);
  void take_data(Rail& rail, const InboundData& inbound);
  bool may_answer(Rail& rail);
  void take_bye(Rail& rail);
  void answer_read(Rail& rail, const Frame& read);
  OutboundFrame gather(Rail& rail, const Frame& read, bool in_room);
  void answer_write(const InboundWrite& inbound);
  void take_noted(Link& link, std::uint64_t number);
  void offer_notes(Link& link);
  void report_losses() {
    if (links_->has_broken()) report_broken();
  }
  void report_broken();
  void end(Rail& rail, const Status& why);
  void end(Link& link);
  void report_loss(Link& link);
  void beat(Instant now);
  void beat(Rail& rail, Instant now);
  bool drive_carrier();
  Instant expire(Instant now, bool pumps);
  bool drive_links(Instant now);

  const Carrier carrier_;
  const AgentIdentity self_;
  backend::Events& events_;
  const Clock& clock_;
  const Timing timing_;
  telemetry::Log log_;
  backend::Capabilities capabilities_;
  ConnectionInfo info_;
  DeviceWindows windows_;
  sys::GuardedCopy guard_;
  Target target_{guard_};
  backend::Slab<OwnMemory> slab_;
  SelfEvents self_events_{events_};
  backend::SliceRunner self_runner_{self_events_, *this};

  InboundFramePool<InboundWrite> writes_{[this](InboundWrite& inbound, bool whole) {
    if (whole) or_lose(inbound.frame, [&] { answer_write(inbound); });
  }};
  InboundFramePool<InboundData> data_{[this](InboundData& inbound, bool whole) {
    const bool counts = whole && !closing_;
    Rail* const rail = counts ? links_->find_by_peer(inbound.frame.header.session) : nullptr;
    if (rail != nullptr) or_lose(inbound.frame, [&] { take_data(*rail, inbound); });
  }};
  InboundFramePool<InboundText> texts_{[this](InboundText& inbound, bool whole) {
    if (whole) or_lose(inbound.frame, [&] { take_text(inbound); });
  }};

  std::unique_ptr<net::MessageWorker> worker_;  // its last words are reported to what stands above
  std::optional<net::Sessions> sessions_;
  std::optional<LinkTable> links_;
  std::unique_ptr<run::Poller> poller_;
  std::unique_ptr<run::TimerFd> timer_;
  std::unique_ptr<RmaProtocol> protocol_;
  std::uint64_t offered_bytes_ = 0;  // of notifications that were taken, so far
  bool closing_ = false;
};

}  // namespace towpath::backends::messages
