#include <utility>

#include <towpath/backend/memory_table.h>
#include <towpath/backends/shm/peer.h>
#include <towpath/core/format.h>
#include <towpath/sys/process.h>

namespace towpath::backends::shm {
namespace {

/// The very process that gave the info, held by a descriptor.
Result<sys::Fd> open_same_process(const HostFacts& host, const AgentIdentity& peer) {
  const auto pid = static_cast<pid_t>(host.pid);
  // First the descriptor, then the question: the answer is about what the descriptor holds.
  TOWPATH_TRY(sys::Fd process, sys::open_process(pid));
  TOWPATH_TRY(const std::uint64_t start_time, sys::process_start_time(pid));
  if (start_time != host.start_time || sys::has_ended(process)) {
    return error(Code::peer_lost,
                 cat(to_string(peer), " has ended; process ", pid, " is another one now"));
  }
  return process;
}

/// What the failure to open a peer's registration table says of the peer.
Status registration_table_error(const AgentIdentity& peer, const HostFacts& host, Status why) {
  Code code = why.code();  // out of descriptors or memory: that is no fault of the peer
  if (code == Code::not_found || code == Code::corrupt) code = Code::peer_lost;
  if (code == Code::denied) code = Code::unsupported;
  std::string hint(code == Code::peer_lost ? "load the peer's newest metadata" : why.hint());
  return error(code,
               cat("cannot open what ", to_string(peer), " (process ", host.pid, ", user ",
                   host.uid, ") shares"),
               std::move(hint))
      .because(std::move(why));
}

}  // namespace

Peer::Peer(const PeerOptions& options, const PeerProgram& program, sys::Fd process,
           PeerRegistrationTable registrations, PieceEntry pieces, run::Poller& poller)
    : identity_(options.peer),
      program_(program),
      process_(std::move(process)),
      registrations_(std::move(registrations)),
      pieces_(std::move(pieces)),
      poller_(poller) {}

Result<std::unique_ptr<Peer>> Peer::open(const PeerOptions& options, ConstByteSpan bytes,
                                         run::Poller& poller) {
  TOWPATH_TRY(const ShmInfo info, decode_info(bytes));
  if (info.incarnation != options.peer.incarnation) {
    return error(Code::corrupt, cat("the info given for ", to_string(options.peer),
                                    " is that of incarnation ", hex(info.incarnation)));
  }
  TOWPATH_TRY(check_same_host(options.here, info.host));
  TOWPATH_TRY(sys::Fd process, open_same_process(info.host, options.peer));
  const auto pid = static_cast<pid_t>(info.host.pid);
  auto file = open_peer_file({.pid = pid,
                              .file = info.registrations,
                              .writable = false,
                              .name = RegistrationTable::kName});
  if (!file.ok()) return registration_table_error(options.peer, info.host, file.status());
  TOWPATH_TRY(PeerRegistrationTable registrations, PeerRegistrationTable::map(file->get()));
  // An info may be put together of two backends': of a process and its forked child, which has the
  // descriptors and other memory, or of one process, whose pieces are said where the owner looks.
  if (registrations.registered(RegistrationTable::kBackend) != registered_bytes_of(info))
    return registration_table_error(
        options.peer, info.host,
        error(Code::corrupt, "its process or piece table is another backend's"));
  auto table = open_peer_file(
      {.pid = pid, .file = info.pieces, .writable = true, .name = PieceTable::kName});
  if (!table.ok()) return registration_table_error(options.peer, info.host, table.status());
  TOWPATH_TRY(PieceEntry pieces,
              PieceEntry::claim(table->get(), {.pid = options.here.pid,
                                               .start_time = options.here.start_time,
                                               .name = options.self.name}));
  const PeerProgram program{
      .pid = pid, .token_address = info.token_address, .token = info.socket_token};
  std::unique_ptr<Peer> peer(new Peer(options, program, std::move(process),
                                      std::move(registrations), std::move(pieces), poller));
  TOWPATH_TRY(peer->check_process());
  TOWPATH_TRY(peer->outbox_, Outbox::open({.name = socket_name(info.socket_token),
                                           .door = info.door,
                                           .expected = pid,
                                           .self = options.self,
                                           .id = options.id},
                                          poller));
  TOWPATH_TRY(poller.add(peer->process_.get(), tag_of(Watch::process, options.id)));
  return peer;
}

Peer::~Peer() { unwatch(); }

void Peer::unwatch() noexcept {
  outbox_.reset();
  if (process_) (void)poller_.remove(process_.get());
  process_.reset();
}

Status Peer::check() const {
  if (stands(RegistrationTable::kBackend)) return {};
  return error(Code::peer_lost, cat(to_string(identity_), " has closed its shm backend"));
}

Status Peer::check_registered(const ShmKey& key) const {
  const Slot slot{key.slot, key.generation};
  const RegisteredBytes registered = registrations_.registered(slot);  // if it stands after that
  if (!stands(slot)) return backend::no_such_memory(slot.index, identity_);
  RegisteredBytes named = registered_bytes_of(key);
  // Less than was registered may be given.
  named.is_read_only &= registered.is_read_only;
  if (registered == named) return {};
  return error(Code::corrupt,
               cat("the key of registration ", slot.index, " of ", to_string(identity_),
                   " names other bytes than are registered"),
               "load the peer's newest metadata");
}

Status Peer::check_process() const {
  TOWPATH_TRY(check());
  if (!sys::has_ended(process_)) return {};
  return error(Code::peer_lost, cat(to_string(identity_), ", process ", pid(), ", has ended"));
}

}  // namespace towpath::backends::shm
