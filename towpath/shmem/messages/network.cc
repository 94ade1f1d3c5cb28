#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_worker.h>
#include <towpath/net/ucx/ucx_worker.h>
#include <towpath/shmem/messages/frames.h>
#include <towpath/shmem/messages/network.h>

namespace towpath::shmem {
namespace {

/// The first PE that wishes it.
template <typename Wishes>
std::optional<std::size_t> first_that(std::span<const NetworkWish> all, const Wishes& wishes) {
  for (std::size_t pe = 0; pe < all.size(); ++pe)
    if (wishes(all[pe])) return pe;
  return {};
}

}  // namespace

std::string_view to_string(NetworkEngine engine) noexcept {
  return engine == NetworkEngine::tcp ? "tcp" : "ucx";
}

Result<std::optional<NetworkEngine>> parse_engine(std::string_view name) {
  if (name.empty()) return std::optional<NetworkEngine>();
  for (const NetworkEngine engine : {NetworkEngine::tcp, NetworkEngine::ucx})
    if (name == to_string(engine)) return std::optional(engine);
  return error(Code::invalid_argument, cat("a network of PEs: ", printable(name)),
               "say tcp or ucx");
}

Result<NetworkWish> agree_on_network(std::span<const NetworkWish> all) {
  constexpr std::string_view kAlike = "give all PEs the same TOWPATH_SHMEM_NETWORK";
  const auto asks_for = [&](NetworkEngine engine) {
    return first_that(all, [&](const NetworkWish& wish) { return wish.engine == engine; });
  };
  const auto tcp = asks_for(NetworkEngine::tcp), ucx = asks_for(NetworkEngine::ucx);
  const auto encrypted = first_that(all, [](const NetworkWish& wish) { return wish.encrypted; });
  if (tcp && ucx)
    return error(Code::invalid_argument,
                 cat("PE ", *tcp, " asks for tcp and PE ", *ucx, " for ucx"), std::string(kAlike));
  if (encrypted && ucx)
    return error(Code::invalid_argument,
                 cat("PE ", *encrypted, " asks for encryption, and PE ", *ucx,
                     " for ucx, which does not encrypt"),
                 "use TOWPATH_SHMEM_NETWORK=tcp, or do not set TOWPATH_SECURITY=tls");
  const bool lacks_rdma =
      first_that(all, [](const NetworkWish& wish) { return !wish.has_rdma; }).has_value();
  const bool takes_ucx = ucx || (!tcp && !encrypted && !lacks_rdma);
  return NetworkWish{.engine = takes_ucx ? NetworkEngine::ucx : NetworkEngine::tcp,
                     .has_rdma = !lacks_rdma,
                     .encrypted = encrypted.has_value()};
}

MessageNetwork network_of(const NetworkOptions& options, const NetworkWish& agreed) {
  if (agreed.engine == NetworkEngine::ucx)
    return {.make_worker = [ucx = options.ucx](net::MessageListener& listener, const Clock&) {
      return net::open_ucx_worker(ucx, listener);
    }};
  const net::TcpOptions tcp{.devices = {},
                            .head_bytes = kMaxHeadBytes,
                            .body_bytes = kMaxFramePayload,
                            .tls = agreed.encrypted,
                            .certificates = options.certificates};
  return {.has_connections = true,
          .make_worker = [tcp](net::MessageListener& listener, const Clock& clock) {
            return net::open_tcp_worker(tcp, listener, clock);
          }};
}

}  // namespace towpath::shmem
