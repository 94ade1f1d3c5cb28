// TcpPlace: where a worker listens, as its metadata says.
//
// Bytes in the fields of wire/: bounded, and every field checked. Thread: immutable.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/net/endpoint.h>

namespace towpath::net {

/// Which host this is, for its network: the same for processes that share the loopback, and for no
/// others. A digest of the boot's id and of the network namespace, so that neither is given away.
using HostMark = std::array<std::byte, 16>;

using TlsKey = std::array<std::byte, 32>;

struct TcpPlace {
  static constexpr std::size_t kMostEndpoints = 16;

  /// None: it could not be found out.
  std::optional<HostMark> host;
  std::vector<Endpoint> endpoints;  ///< with their ports
  /// The port speaks TLS 1.3 only, with this as the pre-shared key.
  std::optional<TlsKey> tls_key;
  /// The port speaks TLS 1.3 only, and both sides show certificates. Neither: it speaks none.
  bool wants_certificate = false;
};

/// Of the calling thread's network. Errors: not_found, denied (/proc cannot be read).
Result<HostMark> host_mark();

/// What of `place` leads to it from a host with this mark and these addresses. On another host the
/// loopback, and every address that this host has itself, lead to somebody else.
std::vector<Endpoint> reachable_from(const TcpPlace& place, const std::optional<HostMark>& host,
                                     const std::vector<Endpoint>& own);

Bytes encode(const TcpPlace& place);
/// Errors: corrupt, unsupported (a newer version), out_of_range.
Result<TcpPlace> decode_tcp_place(ConstByteSpan bytes);

}  // namespace towpath::net
