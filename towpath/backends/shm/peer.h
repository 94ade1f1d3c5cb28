// Peer: an agent of this host, as an shm connection sees it: its process, its registration table,
// the memfds of it that are mapped here, and the outbox for notifications.
//
// Invariant: the process behind the pidfd never becomes another one.
// Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <towpath/backend/backend.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/backends/shm/mailbox.h>
#include <towpath/backends/shm/peer_file.h>
#include <towpath/backends/shm/piece_table.h>
#include <towpath/backends/shm/process_copy.h>
#include <towpath/backends/shm/registration_table.h>
#include <towpath/run/poller.h>
#include <towpath/sys/fd.h>

namespace towpath::backends::shm {

struct PeerOptions {
  AgentIdentity self;
  AgentIdentity peer;
  HostFacts here;
  std::uint64_t id = 0;  ///< for the poller
};

class Peer {
 public:
  /// `info` is hostile. Errors: corrupt, unsupported (another host or namespace, or not allowed to
  /// look into the process), peer_lost, exhausted (no descriptor is free here, or no place there).
  static Result<std::unique_ptr<Peer>> open(const PeerOptions& options, ConstByteSpan info,
                                            run::Poller& poller);
  ~Peer();

  const AgentIdentity& identity() const noexcept { return identity_; }
  pid_t pid() const noexcept { return program_.pid; }
  /// What its memory is read from and written to by process_vm.
  const PeerProgram& program() const noexcept { return program_; }

  /// ok, or why the peer is gone. No system call: what the registration table says.
  Status check() const;
  /// The same after asking the kernel whether the process still lives.
  Status check_process() const;
  /// Ask in a piece, where bytes move after it.
  bool stands(Slot slot) const noexcept { return registrations_.stands(slot); }
  /// Whether the owner has registered just what the key says, and has not taken it back. The
  /// metadata that it comes from may be somebody else's than the process's that they name. Errors:
  /// not_found, corrupt.
  Status check_registered(const ShmKey& key) const;
  /// Where this side says that it moves bytes of the peer.
  const PieceEntry& pieces() const noexcept { return pieces_; }
  /// Stops listening for its end; once it is known. Only check() and stands() may be asked then.
  void unwatch() noexcept;

  PeerMappings& mappings() noexcept { return mappings_; }
  /// Valid until unwatch().
  Outbox& outbox() noexcept { return *outbox_; }

 private:
  Peer(const PeerOptions& options, const PeerProgram& program, sys::Fd process,
       PeerRegistrationTable registrations, PieceEntry pieces, run::Poller& poller);

  const AgentIdentity identity_;
  const PeerProgram program_;
  sys::Fd process_;
  PeerRegistrationTable registrations_;
  PieceEntry pieces_;
  run::Poller& poller_;
  PeerMappings mappings_;
  std::unique_ptr<Outbox> outbox_;
};

}  // namespace towpath::backends::shm
