// ScriptedBackend: a backend that does what a test says, so that an agent meets what real ones do
// once in a year.
//
//   Script script;                      // outlives the agents
//   registry.add(scripted_type("x", script));
//   script.is_eager = false;            // transfers stay under way until complete()
//   script.on_notify = [](auto) { return error(Code::exhausted, "full"); };
//
// It moves no bytes. Thread: loop, but for what a test changes between calls.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <towpath/backend/registry.h>

namespace towpath::agent {

class ScriptedOperation;

class ScriptedConnection final : public backend::Connection {
 public:
  ScriptedConnection(AgentIdentity of, backend::Events& whose)
      : peer(std::move(of)), events(whose) {}
  const AgentIdentity peer;
  backend::Events& events;
};

/// What a test says and sees. Shared by all backends of its type.
struct Script {
  Script() {
    can.pairs = {{.to_self = true, .to_peer = true}};
    can.max_notification_bytes = 64 * 1024;
    can.notifications = backend::Notifications::reliable;
  }

  backend::Capabilities can;
  bool is_eager = true;  ///< transfers complete in post()
  int wait_fd = -1;
  std::function<Status(ScriptedConnection&, ConstByteSpan)> on_notify;
  std::function<Status(const RegionDescriptor&)> on_register, on_import;
  std::function<Status(const AgentIdentity&)> on_connect;
  std::function<void()> on_progress, on_cancel, on_query;
  std::function<Status()> on_check_pieces;  ///< what peers are in the middle of; none: nothing

  std::vector<Bytes> notified;       ///< what was taken, oldest first
  std::vector<std::size_t> imports;  ///< the regions of each list, oldest first
  std::vector<ScriptedOperation*> active;
  std::vector<ScriptedConnection*> connected;  ///< ever, oldest first
  // That stand.
  std::size_t memories = 0, backends = 0, operations = 0;
  std::size_t orphans = 0;  ///< operations that stood when a backend went
};

class ScriptedPieces final : public backend::PeerPieces {
 public:
  explicit ScriptedPieces(Script& script) : script_(script) {}
  Status check() override { return script_.on_check_pieces(); }

 private:
  Script& script_;
};

class ScriptedMemory final : public backend::Memory {
 public:
  /// `standing`: of its backend, so that AddressSanitizer finds one that outlives it.
  ScriptedMemory(Script& script, std::size_t& standing) : script_(script), standing_(standing) {
    ++script_.memories;
    ++standing_;
  }
  ~ScriptedMemory() override {
    --script_.memories;
    --standing_;
  }

 private:
  Script& script_;
  std::size_t& standing_;
};

class ScriptedOperation final : public backend::Operation {
 public:
  ScriptedOperation(Script& script, backend::Events& events) : script_(script), events_(events) {
    ++script_.operations;
  }
  ~ScriptedOperation() override { --script_.operations; }

  void post(const backend::Request& request) override {
    connection = request.connection;
    script_.active.push_back(this);
    if (script_.is_eager) complete({});
  }
  void cancel() override {
    if (script_.on_cancel) script_.on_cancel();
    const bool is_active = std::ranges::find(script_.active, this) != script_.active.end();
    if (is_active && script_.can.quiesced == backend::Quiescence::immediate)
      complete(error(Code::cancelled, "cancelled"));
  }
  void complete(Status status) {
    std::erase(script_.active, this);
    events_.on_complete(*this, {.status = std::move(status), .bytes = 0, .failures = {}});
  }

  backend::Connection* connection = nullptr;

 private:
  Script& script_;
  backend::Events& events_;
};

class ScriptedBackend final : public backend::Backend {
 public:
  ScriptedBackend(Script& script, backend::Events& events) : script_(script), events_(events) {
    ++script_.backends;
  }
  ~ScriptedBackend() override {
    --script_.backends;
    script_.orphans += script_.operations;
  }

  const backend::Capabilities& capabilities() const override { return script_.can; }
  int wait_fd() const override { return script_.wait_fd; }
  Result<std::unique_ptr<backend::Memory>> register_memory(
      const RegionDescriptor& region) override {
    if (script_.on_register) TOWPATH_TRY(script_.on_register(region));
    return std::make_unique<ScriptedMemory>(script_, memories_);
  }
  Bytes connection_info() const override { return Bytes(1); }
  Result<std::unique_ptr<backend::Connection>> connect(const AgentIdentity& peer,
                                                       ConstByteSpan) override {
    if (script_.on_connect) TOWPATH_TRY(script_.on_connect(peer));
    auto connection = std::make_unique<ScriptedConnection>(peer, events_);
    script_.connected.push_back(connection.get());
    return connection;
  }
  Result<std::unique_ptr<backend::Memory>> import_memory(backend::Connection&,
                                                         const RegionDescriptor& region,
                                                         ConstByteSpan) override {
    if (script_.on_import) TOWPATH_TRY(script_.on_import(region));
    return std::make_unique<ScriptedMemory>(script_, memories_);
  }
  void import_memories(backend::Connection& connection, std::span<backend::Import> list) override {
    script_.imports.push_back(list.size());
    Backend::import_memories(connection, list);
  }
  std::unique_ptr<backend::PeerPieces> pieces_under_way() override {
    if (!script_.on_check_pieces) return nullptr;
    return std::make_unique<ScriptedPieces>(script_);
  }
  std::unique_ptr<backend::Operation> make_operation() override {
    return std::make_unique<ScriptedOperation>(script_, events_);
  }
  Status notify(backend::Connection& connection, ConstByteSpan message) override {
    if (script_.on_notify)
      TOWPATH_TRY(script_.on_notify(static_cast<ScriptedConnection&>(connection), message));
    script_.notified.emplace_back(message.begin(), message.end());
    return {};
  }
  void teardown(backend::Connection& connection) override {
    const std::vector<ScriptedOperation*> all = script_.active;
    for (ScriptedOperation* operation : all) {
      if (operation->connection == &connection)
        operation->complete(error(Code::peer_lost, "torn down"));
    }
  }
  bool progress() override {
    if (script_.on_progress) script_.on_progress();
    return false;
  }
  std::string describe_path(const backend::Memory&, const backend::Memory&) const override {
    return "nowhere";
  }
  Result<std::vector<std::optional<backend::Params>>> query(
      std::span<const RegionDescriptor> descriptors) override {
    if (script_.on_query) script_.on_query();
    return std::vector<std::optional<backend::Params>>(descriptors.size());
  }

 private:
  Script& script_;
  backend::Events& events_;
  std::size_t memories_ = 0;
};

inline backend::BackendType scripted_type(std::string name, Script& script) {
  backend::BackendType type;
  type.name = std::move(name);
  type.kinds = {MemoryKind::system};
  type.probe = [](const backend::Params&) { return std::vector<Finding>(); };
  type.open =
      [&script](
          const backend::BackendContext& context) -> Result<std::unique_ptr<backend::Backend>> {
    return std::make_unique<ScriptedBackend>(script, *context.events);
  };
  return type;
}

}  // namespace towpath::agent
