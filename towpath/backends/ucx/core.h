// UcxBackend: the backend itself, told in several files. core_links.cc: links and their frames;
// core_notes.cc: notifications; ucx_backend.cc: memory, operations, the loop.
// Thread: loop.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <towpath/backends/ucx/courier.h>
#include <towpath/backends/ucx/memory.h>
#include <towpath/backends/ucx/ucx_backend.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/telemetry/log.h>

namespace towpath::backends::ucx {

class UcxBackend;

struct UcxConnection final : backend::Connection {
  UcxConnection(UcxBackend& its_backend, Link* its_link) : backend(its_backend), link(its_link) {}
  ~UcxConnection() override;

  UcxBackend& backend;
  Link* const link;  ///< null: the way to oneself
};

/// Completions of copies within the process are those of the operation around them.
class SelfEvents final : public backend::Events {
 public:
  explicit SelfEvents(backend::Events& outer) : outer_(outer) {}
  void on_complete(backend::Operation& inner, const backend::Completion& completion) override {
    auto& operation = *static_cast<UcxOperation*>(inner.owner);
    operation.active = false;
    outer_.on_complete(operation, completion);
  }
  bool on_notification(const AgentIdentity&, ConstByteSpan) override { return true; }
  void on_peer_lost(backend::Connection&, const Status&) override {}

 private:
  backend::Events& outer_;
};

class UcxBackend final : public backend::Backend,
                         private net::MessageListener,
                         private backend::SliceMover,
                         private OperationOwner {
 public:
  UcxBackend(const backend::BackendContext& context, const Timing& timing,
             device::DriverSource devices);
  ~UcxBackend() override;
  Status open(const WorkerMaker& make_worker, const net::UcxOptions& options);

  const backend::Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<backend::Memory>> register_memory(const RegionDescriptor& region) override;
  Bytes connection_info() const override { return encode(info_); }
  Result<std::unique_ptr<backend::Connection>> connect(const AgentIdentity& peer,
                                                       ConstByteSpan info) override;
  Result<std::unique_ptr<backend::Memory>> import_memory(backend::Connection& connection,
                                                         const RegionDescriptor& region,
                                                         ConstByteSpan key) override;
  std::unique_ptr<backend::Operation> make_operation() override {
    return std::make_unique<UcxOperation>(static_cast<OperationOwner&>(*this));
  }
  Status notify(backend::Connection& connection, ConstByteSpan message) override;
  void teardown(backend::Connection& connection) override;
  bool progress() override;
  int wait_fd() const override { return poller_ ? poller_->fd() : -1; }
  std::string describe_path(const backend::Memory& local,
                            const backend::Memory& remote) const override;

  void drop_connection(UcxConnection& connection);

 private:
  // OperationOwner
  void post(UcxOperation& operation) override;
  void cancel(UcxOperation& operation) override;
  // backend::SliceMover: copies to oneself
  Status admit(const backend::Request&) override { return {}; }
  Status move(backend::SliceTask& task) override;
  // net::MessageListener
  void on_message(ConstByteSpan message) override;
  void on_broken(void* owner, const Status& why) override;

  Result<Link*> make_link(ConnectionInfo info, const AgentIdentity& peer);
  Link* find_instance(std::uint64_t instance);
  void erase(Link& link);
  void send(Link& link, std::unique_ptr<net::MessageBuffer> buffer);
  void send_plain(Link& link, FrameKind kind, std::uint8_t flags = 0, std::uint64_t id = 0);
  void say_hello(Link& link, std::uint64_t your_session);
  void take_hello(const Frame& frame);
  void take(Link& link, const Frame& frame);
  void answer(Link& link, const Frame& request);
  void take_note(Link& link, const Frame& frame);
  void take_noted(Link& link, std::uint64_t number);
  void offer_notes(Link& link);
  void break_off(Link& link, Status why);
  void tell_losses();
  void beat(Instant now);
  void beat(Link& link, Instant now);
  Instant expire(Instant now);

  const AgentIdentity self_;
  backend::Events& events_;
  const Clock& clock_;
  const Timing timing_;
  telemetry::Log log_;
  backend::Capabilities capabilities_;
  ConnectionInfo info_;
  DeviceWindows windows_;
  Owner owner_;
  SelfEvents self_events_{events_};
  backend::SliceRunner self_runner_{self_events_, *this};

  std::unique_ptr<net::MessageWorker> worker_;
  std::unique_ptr<run::Poller> poller_;
  std::unique_ptr<run::TimerFd> timer_;
  std::unique_ptr<Courier> courier_;

  std::unordered_map<std::uint64_t, std::unique_ptr<Link>> links_;  // by our session
  std::unordered_map<std::uint64_t, Link*> by_peer_session_;
  std::vector<std::pair<std::uint64_t, Status>> broken_;  // sessions to be told
  Instant next_beat_;
  Instant last_progress_;
  bool closing_ = false;
};

}  // namespace towpath::backends::ucx
