// Network: how PEs of several hosts reach each other, and when one is given up.
//
// All PEs of a job use the same: sockets, or UCX where each of them has RDMA. In both, each two
// prove that they hold the job's secret before one is heard (links.h). Thread: immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/shmem/bootstrap.h>

namespace towpath::net {
class MessageListener;
class MessageWorker;
}  // namespace towpath::net

namespace towpath::shmem {

std::string_view to_string(NetworkEngine engine) noexcept;
/// Its name, or nothing of an empty one. Errors: invalid_argument.
Result<std::optional<NetworkEngine>> parse_engine(std::string_view name);

/// What one PE says to the others of its NetworkOptions.
struct NetworkWish {
  std::optional<NetworkEngine> engine;
  bool has_rdma = false;
  bool encrypted = false;
};

/// What all of them use, of the wishes of all, by PE: encrypted if one wishes it. Errors:
/// invalid_argument (two ask for what does not go together).
Result<NetworkWish> agree_on_network(std::span<const NetworkWish> all);

/// What brings the messages.
struct MessageNetwork {
  using MakeWorker = std::function<Result<std::unique_ptr<net::MessageWorker>>(
      net::MessageListener& listener, const Clock& clock)>;

  /// Messages go both ways over a connection, in order. Else each side reaches the other by itself.
  bool has_connections = false;
  MakeWorker make_worker;
};

/// `agreed` has an engine.
MessageNetwork network_of(const NetworkOptions& options, const NetworkWish& agreed);

}  // namespace towpath::shmem
