#include <algorithm>
#include <utility>

#include <unistd.h>

#include <towpath/backend/connection_table.h>
#include <towpath/backend/slice_runner.h>
#include <towpath/backends/shm/mailbox.h>
#include <towpath/backends/shm/options.h>
#include <towpath/backends/shm/peer.h>
#include <towpath/backends/shm/probe.h>
#include <towpath/backends/shm/process_copy.h>
#include <towpath/backends/shm/readable_memory.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/backends/shm/shm_memory.h>
#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/random.h>
#include <towpath/telemetry/log.h>

namespace towpath::backends::shm {
namespace {

using namespace backend;

// While bytes move, the kernel is asked for messages and ends of peers once in so many slices: a
// slice takes a few microseconds, and asking costs one.
constexpr std::uint32_t kSlicesPerEvents = 4;

// After a message the next one is awaited by looking, for so many calls and so long: until then
// senders ring for nobody, and the kernel is not asked.
constexpr std::uint32_t kLooks = 64;
constexpr Duration kLooksFor = std::chrono::microseconds(5);

// Kernels give pids in turn: until one is given again, 32,768 processes begin, where fewest are
// allowed.
constexpr Duration kSurelyAlive = std::chrono::microseconds(100);

/// Of two hints, of which each may be none.
std::string either(std::string_view one, std::string_view other) {
  return cat(one, one.empty() || other.empty() || one == other ? "" : "; or ",
             one == other ? "" : other);
}

Capabilities shm_capabilities(bool reaches_devices) {
  Capabilities can;
  can.pairs = host_pairs();
  if (reaches_devices)
    for (const MemoryKind local : kHostKinds)
      can.pairs.push_back({.local = local, .remote = MemoryKind::device, .to_peer = true});
  can.notifications = Notifications::reliable;
  can.max_notification_bytes = kMaxNotificationBytes;
  can.quiesced = Quiescence::immediate;
  can.cost = {.latency = Duration(300), .per_segment = Duration(20), .bytes_per_second = 9e9};
  return can;
}

class ShmConnection final : public TrackedConnection {
 public:
  using TrackedConnection::TrackedConnection;

  /// ok, or why the peer is gone. No system call.
  Status check() const { return is_lost() ? state() : reached->check(); }
  /// The same after asking the kernel whether its process still lives.
  Status check_process() const { return is_lost() ? state() : reached->check_process(); }
  /// Whether the pid is that of its process still, and its memory that of its program: asks the
  /// kernel, unless it said so just now.
  Status check_pid(const Clock& clock) {
    const Instant now = clock.now();  // before the question: the answer is true of that
    if (seen_alive_ && now - *seen_alive_ <= kSurelyAlive) return {};
    TOWPATH_TRY(check_process());
    TOWPATH_TRY(check_program(reached->program()));
    seen_alive_ = now;
    return {};
  }

  std::unique_ptr<Peer> reached;  ///< from connect() on

 private:
  std::optional<Instant> seen_alive_;  // when the kernel last said that its process lives
};

class ShmBackend final : public Backend, private SliceMover {
 public:
  static Result<std::unique_ptr<Backend>> open(const BackendContext& context,
                                               const device::DriverSource& devices);

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override;
  Bytes connection_info() const override { return encode(info_); }
  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                              ConstByteSpan info) override;
  Result<std::unique_ptr<Memory>> import_memory(Connection& connection,
                                                const RegionDescriptor& region,
                                                ConstByteSpan key) override;
  void import_memories(Connection& connection, std::span<Import> list) override;
  std::unique_ptr<PeerPieces> pieces_under_way() override { return pieces_.under_way(); }
  std::unique_ptr<Operation> make_operation() override { return runner_.make_operation(); }
  Status notify(Connection& connection, ConstByteSpan message) override;
  bool progress() override;
  int wait_fd() const override { return poller_.fd(); }
  std::string describe_path(const Memory& local, const Memory& remote) const override;

 private:
  ShmBackend(const BackendContext& context, const BackendOptions& options,
             const device::DriverSource& devices, run::Poller poller,
             RegistrationTable registrations, PieceTable pieces)
      : self_(context.self),
        clock_(*context.clock),
        connections_(*context.events),
        runner_(*context.events, *this),
        log_(context.log_as("shm")),
        options_(options),
        devices_(devices),
        capabilities_(shm_capabilities(devices_.may_be_there())),
        poller_(std::move(poller)),
        registrations_(std::move(registrations)),
        pieces_(std::move(pieces)),
        own_(context.self),
        process_copy_(*context.clock, options.copy_threads) {}

  Status admit(const Request& request) override;
  Status move(SliceTask& task) override;
  Status move_by_process(SliceTask& task, ShmConnection& way, std::uint64_t& budget);

  Result<std::unique_ptr<Memory>> import_by(ShmConnection& way, const RegionDescriptor& region,
                                            ConstByteSpan key, ReadableMemory& readable);
  Status reach(ImportedMemory& memory, Peer& peer, const ShmKey& key, ReadableMemory& readable);
  Status reach_device(ImportedMemory& memory, const Peer& peer, const ShmKey& key);
  Status map_peer_memory(ImportedMemory& memory, Peer& peer, const ShmKey& key);

  ShmConnection* find_up(std::uint64_t id) const;
  void mark_lost(ShmConnection& connection, Watch watch);
  void take_sign(std::uint64_t id, Watch watch, const run::PollEvent& event);
  bool take_events(std::size_t& budget);
  bool read_rings(std::size_t& budget);

  const AgentIdentity self_;
  const Clock& clock_;
  ConnectionTable connections_;
  SliceRunner runner_;
  telemetry::Log log_;
  const BackendOptions options_;
  DeviceReach devices_;
  const Capabilities capabilities_;
  ShmInfo info_;
  run::Poller poller_;
  RegistrationTable registrations_;
  const PieceTable pieces_;
  OwnMemories own_;
  Slab<OwnMemory> slab_;
  std::unique_ptr<Mailbox> mailbox_;
  std::uint32_t slices_since_events_ = 0;
  std::uint32_t looks_left_ = 0;  // of those after the last message by a ring
  Instant looks_since_;
  ProcessCopy process_copy_;
};

Result<std::unique_ptr<Backend>> ShmBackend::open(const BackendContext& context,
                                                  const device::DriverSource& devices) {
  TOWPATH_TRY(const BackendOptions options, BackendOptions::parse(context.params));
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(PieceTable pieces, PieceTable::create());
  ShmInfo info;
  TOWPATH_TRY(info.host, read_host_facts());
  info.socket_token = {sys::random_u64(), sys::random_u64()};
  info.pieces = pieces.file();
  info.incarnation = context.self.incarnation;
  TOWPATH_TRY(auto registrations, RegistrationTable::create(registered_bytes_of(info)));
  info.registrations = registrations.file();
  std::unique_ptr<ShmBackend> backend(new ShmBackend(context, options, devices, std::move(poller),
                                                     std::move(registrations), std::move(pieces)));
  backend->info_ = info;  // it stays where it is
  backend->info_.token_address = address_of(backend->info_.socket_token.data());
  TOWPATH_TRY(backend->mailbox_, Mailbox::open(socket_name(info.socket_token), backend->poller_,
                                               *context.events, *context.clock));
  if (auto door = backend->mailbox_->door(); door.ok())
    backend->info_.door = *door;
  else
    backend->log_.info("peers connect by a name, whose backlog every user can fill",
                       {{"why", door.status().to_string()}});
  return backend;
}

// ---- Memory

Result<std::unique_ptr<Memory>> ShmBackend::register_memory(const RegionDescriptor& region) {
  TOWPATH_TRY(check_region("shm", capabilities_, region));
  std::optional<FileExtent> shared;
  if (region.fd >= 0) {
    const auto end = checked_add(region.fd_offset, region.length);
    Status sealed = end ? sys::check_sealed(region.fd, *end)
                        : error(Code::invalid_argument, "the offset in the memfd is too large");
    // Not fatal: the bytes are ordinary memory all the same.
    if (!sealed.ok())
      log_.warning("peers cannot map it",
                   {{"region", to_string(region)}, {"why", sealed.to_string()}});
    if (sealed.ok()) {
      TOWPATH_TRY(const FileRef file, file_ref(region.fd));
      shared = {.file = file, .offset = region.fd_offset};
    }
  }
  std::unique_ptr<DeviceExtent> device;
  if (region.kind == MemoryKind::device) {
    auto offered = devices_.offer(region);
    // Not fatal either: whoever stages it here goes on doing so.
    if (!offered.ok())
      log_.warning("peers cannot reach it",
                   {{"region", to_string(region)}, {"why", offered.status().to_string()}});
    if (offered.ok()) device = std::make_unique<DeviceExtent>(*std::move(offered));
  }
  const ShmKey key{.address = region.address,
                   .length = region.length,
                   .shared = shared,
                   .device = device ? std::optional(*device) : std::nullopt,
                   .is_read_only = region.is_read_only};
  TOWPATH_TRY(const Slot slot, registrations_.take(registered_bytes_of(key)));
  std::unique_ptr<OwnMemory> memory(new (slab_)
                                        OwnMemory(slab_, region, slot, registrations_, own_));
  memory->shared = shared;
  memory->device = std::move(device);
  return memory;
}

Result<std::unique_ptr<Memory>> ShmBackend::import_memory(Connection& connection,
                                                          const RegionDescriptor& region,
                                                          ConstByteSpan bytes) {
  auto& way = static_cast<ShmConnection&>(connection);
  ReadableMemory readable(way.reached->pid(), 1);
  return import_by(way, region, bytes, readable);
}

void ShmBackend::import_memories(Connection& connection, std::span<Import> list) {
  auto& way = static_cast<ShmConnection&>(connection);
  ReadableMemory readable(way.reached->pid(), list.size());
  for (Import& one : list) one.memory = import_by(way, *one.region, one.key, readable);
}

Result<std::unique_ptr<Memory>> ShmBackend::import_by(ShmConnection& way,
                                                      const RegionDescriptor& region,
                                                      ConstByteSpan bytes,
                                                      ReadableMemory& readable) {
  TOWPATH_TRY(const ShmKey key, decode_key(bytes));
  const bool is_device = region.kind == MemoryKind::device && devices_.may_be_there();
  if (!is_host_addressable(region.kind) && !is_device)
    return error(Code::unsupported, cat("shm cannot move ", name_of(region.kind), " memory"));
  TOWPATH_TRY(check_inside(region, {.kind = region.kind,
                                    .address = key.address,
                                    .length = key.length,
                                    .device_id = region.device_id}));
  TOWPATH_TRY(way.check());
  const Slot slot{key.slot, key.generation};
  TOWPATH_TRY(way.reached->check_registered(key));
  auto memory = std::make_unique<ImportedMemory>(region, slot, way);
  memory->is_read_only = key.is_read_only;
  if (is_device) {
    TOWPATH_TRY(reach_device(*memory, *way.reached, key));
  } else if (way.peer() == self_) {
    // Metadata is hostile even when it says that it is ours: only what is registered is touched.
    TOWPATH_TRY(own_.check(region, slot));
  } else {
    TOWPATH_TRY(reach(*memory, *way.reached, key, readable));
  }
  return memory;
}

Status ShmBackend::reach_device(ImportedMemory& memory, const Peer& peer, const ShmKey& key) {
  if (peer.identity() == self_)
    return error(Code::unsupported, "shm cannot move device memory to and from oneself");
  if (!key.device)
    return error(
        Code::unsupported,
        cat("the peer could not export ", to_string(memory.region()), "; its log says why"),
        "use ucx, whose peers move it themselves");
  const Where where = peer.pid() == ::getpid() ? Where::here : Where::there;
  TOWPATH_TRY(memory.through, devices_.open(key, memory.region(), where));
  memory.path = Path::device;
  memory.shift = memory.device().begin + key.device->memory.offset - key.address;
  return {};
}

Status ShmBackend::reach(ImportedMemory& memory, Peer& peer, const ShmKey& key,
                         ReadableMemory& readable) {
  Status mapped = map_peer_memory(memory, peer, key);
  if (mapped.ok()) return {};
  memory.path = Path::process;
  memory.why = mapped;
  Status process = options_.process
                       ? readable.check(memory.where.address, memory.where.length)
                       : error(Code::denied, "process_vm is switched off by paths=mapped",
                               "open the backend with paths=auto");
  if (process.ok() || process.code() == Code::peer_lost) return process;
  const Code code = process.code() == Code::denied ? Code::denied : Code::unsupported;
  return error(code,
               cat("no path to ", to_string(memory.region()), " of ", to_string(peer.identity()),
                   ": mapping: ", mapped.message(), "; process_vm: ", process.message()),
               either(process.hint(), mapped.hint()))
      .because(std::move(process));
}

Status ShmBackend::map_peer_memory(ImportedMemory& memory, Peer& peer, const ShmKey& key) {
  if (!options_.mapped) {
    return error(Code::denied, "mapping is switched off by paths=process_vm",
                 "open the backend with paths=auto");
  }
  if (!key.shared) {  // as most of a peer's regions: the words are made once
    static const Status kNotSealed =
        error(Code::unsupported, "the peer's memory is not a sealed memfd",
              "register shared memory (a sealed memfd)");
    return kNotSealed;
  }
  const FileExtent& shared = *key.shared;
  TOWPATH_TRY(
      const std::shared_ptr<PeerMapping> mapping,
      peer.mappings().find_or_open({.pid = peer.pid(), .file = shared.file, .writable = true},
                                   shared.offset + key.length));  // decode_key(): no wrap
  if (!range_fits(shared.offset, key.length, mapping->size())) {
    return error(Code::out_of_range, cat("the memfd has ", mapping->size(), " bytes, the key says ",
                                         shared.offset, " +", key.length));
  }
  memory.through = mapping;
  memory.path = Path::mapped;
  memory.shift = mapping->address() + shared.offset - key.address;
  return {};
}

std::string ShmBackend::describe_path(const Memory& local, const Memory& remote) const {
  (void)local;
  const auto* imported = dynamic_cast<const ImportedMemory*>(&remote);
  if (imported == nullptr || imported->path == Path::own)
    return "loads and stores within the process";
  if (imported->path == Path::mapped)
    return "loads and stores through a mapping of the peer's memfd";
  if (imported->path == Path::device)
    return "copies of the device, which has mapped the peer's memory, waited for";
  const std::size_t threads = process_copy_.threads();
  return cat("process_vm_readv/writev", threads > 1 ? cat(" by up to ", threads, " threads") : "",
             ", because ", imported->why.message());
}

// ---- Peers

Result<std::unique_ptr<Connection>> ShmBackend::connect(const AgentIdentity& peer,
                                                        ConstByteSpan info) {
  auto connection = std::make_unique<ShmConnection>(connections_, peer);
  const PeerOptions options{
      .self = self_, .peer = peer, .here = info_.host, .id = connection->id()};
  TOWPATH_TRY(connection->reached, Peer::open(options, info, poller_));
  return connection;
}

ShmConnection* ShmBackend::find_up(std::uint64_t id) const {
  auto* const connection = static_cast<ShmConnection*>(connections_.find(id));
  return connection == nullptr || connection->is_lost() ? nullptr : connection;
}

void ShmBackend::mark_lost(ShmConnection& connection, Watch watch) {
  Status why = connection.check_process();
  if (why.ok()) {
    why =
        error(Code::peer_lost, cat(to_string(connection.peer()), " has cut the connection (",
                                   watch == Watch::socket ? "its socket closed" : "it ended", ")"));
  }
  connections_.mark_lost(connection, std::move(why));
  connection.reached->unwatch();
}

// ---- Bytes

Status ShmBackend::admit(const Request& request) {
  return static_cast<const ShmConnection&>(*request.connection).check();
}

Status ShmBackend::move(SliceTask& task) {
  auto& way = static_cast<ShmConnection&>(*task.request().connection);
  const InPiece piece(way.reached->pieces());  // before any look at what stands
  std::uint64_t budget = kSliceBytes;
  while (budget > 0 && !task.at().done()) {
    const auto& remote = static_cast<const ShmMemory&>(*task.at().segment().remote);
    TOWPATH_CHECK(remote.way == nullptr || remote.way == &way,
                  "memory imported by one connection is used with another");
    TOWPATH_TRY(way.check());
    if (!way.reached->stands(remote.slot)) {
      task.fail_segment(error(Code::not_found,
                              cat("the peer took ", to_string(remote.region()), " back"),
                              "load the peer's newest metadata"));
      budget -= std::min(budget, kPieceCost);
    } else if (remote.path == Path::device) {
      const auto& imported = static_cast<const ImportedMemory&>(remote);
      devices_.move(task, imported.device(), imported.shift);
      budget = 0;  // one batch per call
    } else if (remote.path == Path::process) {
      TOWPATH_TRY(move_by_process(task, way, budget));
    } else {
      task.copy(remote.shift, budget);
    }
  }
  return way.check();
}

Status ShmBackend::move_by_process(SliceTask& task, ShmConnection& way, std::uint64_t& budget) {
  // A pid is only as good as its process, and another one may have got it meanwhile. Who lives
  // after the copy was there all along: that proves it. A write shall not even land in another
  // process, so it wants to be asked before too. But no pid goes round in so short a time as
  // check_pid() takes an answer for good; only who did not take all is asked anew, why. What is
  // read with the program's token is the program's.
  const PeerProgram& program = way.reached->program();
  const bool pulls = task.request().op == TransferOp::read;
  if (!pulls) TOWPATH_TRY(way.check_pid(clock_));
  const bool was_short = !process_copy_.shortage().ok();
  TOWPATH_TRY(const bool took_all, process_copy_.move(program, task, budget));
  if (!was_short && !process_copy_.shortage().ok())
    log_.warning("fewer threads copy than asked for",
                 {{"why", process_copy_.shortage().to_string()}});
  if (!took_all) return way.check_process();
  return pulls && program.token_address != 0 ? Status() : way.check_pid(clock_);
}

// ---- Notifications and the loop

Status ShmBackend::notify(Connection& connection, ConstByteSpan message) {
  auto& way = static_cast<ShmConnection&>(connection);
  TOWPATH_TRY(check_message(capabilities_, message));
  TOWPATH_TRY(way.check());
  return way.reached->outbox().send(message);
}

bool ShmBackend::progress() {
  std::size_t budget = kMessagesPerCall;
  const bool looks = read_rings(budget);
  const std::uint32_t most = runner_.is_active() ? kSlicesPerEvents : looks ? kLooks : 0;
  const bool came = ++slices_since_events_ >= most && take_events(budget);
  const bool moving = runner_.progress();
  return moving || looks || came || budget == 0 || !mailbox_->announce_sleep();
}

/// Whether a message has come just now, so that another one may be near.
bool ShmBackend::read_rings(std::size_t& budget) {
  mailbox_->offer_kept(budget);  // they were first
  if (mailbox_->read_rings(budget)) {
    looks_left_ = kLooks;
    return true;
  }
  if (looks_left_ == 0) return false;
  // The clock takes as long as a look: not for each, and not before the message is handed on.
  const bool is_first = looks_left_ == kLooks;
  if (is_first) looks_since_ = clock_.now();
  const bool is_in_time =
      is_first || looks_left_ % 4 != 0 || clock_.now() - looks_since_ < kLooksFor;
  looks_left_ = is_in_time ? looks_left_ - 1 : 0;
  return looks_left_ > 0;
}

/// Whether there may be more in the rings.
bool ShmBackend::take_events(std::size_t& budget) {
  slices_since_events_ = 0;
  // Who speaks last words is heard before its end is told: losses wait until all events are seen.
  for (const run::PollEvent& event : poller_.wait(Duration(0))) {
    const std::uint64_t id = event.tag >> 2;
    switch (const auto watch = static_cast<Watch>(event.tag & 3)) {
      case Watch::listener: mailbox_->accept_some(); break;
      case Watch::client: mailbox_->note_ready(id); break;
      case Watch::socket:
      case Watch::process: take_sign(id, watch, event); break;
    }
  }
  mailbox_->read_ready(budget);
  const bool came = mailbox_->read_rings(budget);  // last words too
  connections_.report_losses([&](const TrackedConnection& connection, const Status& why) {
    runner_.fail_all(connection, why);
  });
  return came;
}

void ShmBackend::take_sign(std::uint64_t id, Watch watch, const run::PollEvent& event) {
  ShmConnection* const connection = find_up(id);
  if (connection == nullptr) return;
  const bool ends = watch == Watch::process || event.broken ||
                    (event.writable && !connection->reached->outbox().flush().ok());
  if (ends) mark_lost(*connection, watch);
}

}  // namespace

BackendType shm_type(device::DriverSource devices) {
  BackendType type;
  type.name = "shm";
  type.summary = "agents of one host, by shared memory or process_vm_readv/writev";
  type.kinds = {kHostKinds.begin(), kHostKinds.end()};
  type.params = BackendOptions::describe();
  type.probe = [](const Params&) { return probe_shm(); };
  type.open = [devices = std::move(devices)](const BackendContext& context) {
    return ShmBackend::open(context, devices);
  };
  return type;
}

}  // namespace towpath::backends::shm
