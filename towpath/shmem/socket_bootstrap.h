// SocketBootstrap: an Exchange over sockets: PE 0 listens, the others come and say who they are.
//
//   other    hello (net/hello.h), then once for each all(): what it says
//   PE 0     "welcome" at once, then once for each all(): what everybody said
//
// All of it in TLS 1.3 (net/tls), in which both sides prove first that they know the token, which
// never travels. It needs no server, and no thread: PE 0 listens while it is inside of the first
// all(). A process without the token gets nothing; one that has it and makes no sense hears why.
// Invariants: what unauthenticated connections may send is bounded, and so is how many there are
// and for how long; where there are too many, net/unproven.h says which one goes for a newcomer.
// Frames: docs/formats/shmem_frame.md. Thread: one at a time.
#pragma once

#include <memory>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/net/address.h>
#include <towpath/net/token.h>
#include <towpath/shmem/exchange.h>

namespace towpath::shmem {

struct SocketBootstrapOptions {
  /// All of PE 0's. It listens at those that it can have, and needs one; the others try one after
  /// the other, again and again, until PE 0 answers.
  std::vector<net::Address> places;
  net::Token token;  ///< that all PEs share
  int my_pe = 0;
  int pes = 1;
  Duration timeout = std::chrono::seconds(60);  ///< with each all()
  /// Whoever listens at a place and says nothing for so long is not PE 0.
  Duration until_welcome = std::chrono::seconds(2);
};

class SocketBootstrap final : public Exchange {
 public:
  explicit SocketBootstrap(SocketBootstrapOptions options);
  ~SocketBootstrap() override;

  /// May be called again: everybody is there already. What a PE says has at most 64 KiB. Errors:
  /// timed_out (who has not come, or that PE 0 does not answer), denied (PE 0 refuses this PE, in
  /// its words), peer_lost (a PE went away), invalid_argument; at the first call, as PE 0, also
  /// Listener::listen()'s.
  Result<std::vector<Bytes>> all(ConstByteSpan mine) override;

 private:
  class Host;
  class Visitor;

  const SocketBootstrapOptions options_;
  std::unique_ptr<Host> host_;        // of PE 0
  std::unique_ptr<Visitor> visitor_;  // of all others
};

}  // namespace towpath::shmem
