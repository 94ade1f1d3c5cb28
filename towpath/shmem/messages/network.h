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
#include <towpath/net/tls/tls_certificates.h>
#include <towpath/net/ucx/ucx_options.h>
#include <towpath/telemetry/log.h>

namespace towpath::net {
class MessageListener;
class MessageWorker;
}  // namespace towpath::net

namespace towpath::shmem {

struct Heartbeat {
  Duration every = std::chrono::seconds(1);
  Duration timeout = std::chrono::seconds(5);  ///< of a PE that says nothing
};

enum class NetworkEngine : std::uint8_t { tcp, ucx };
std::string_view to_string(NetworkEngine engine) noexcept;
/// Its name, or nothing of an empty one. Errors: invalid_argument.
Result<std::optional<NetworkEngine>> parse_engine(std::string_view name);

struct NetworkOptions {
  /// Nothing: UCX where all PEs have RDMA, else TCP.
  std::optional<NetworkEngine> engine;
  bool has_rdma = false;   ///< this PE's host has an adapter, and this process may use it
  bool encrypted = false;  ///< all bytes in TLS 1.3, which UCX does not speak
  net::TlsCertificates certificates;  ///< by which it is; empty: by keys that the PEs exchange
  net::UcxOptions ucx;
  Heartbeat heartbeat;
  telemetry::Log log;  ///< who was refused
};

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
