// TcpPlace: where a worker listens, and what those must know who come: what its card says.
//
// Bytes in the fields of wire/: bounded, and every field checked. Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/net/endpoint.h>

namespace towpath::net {

struct TcpPlace {
  static constexpr std::size_t kMostEndpoints = 16;
  static constexpr std::size_t kSecretBytes = 16;

  std::uint64_t instance = 0;       ///< random: this worker, and none before or after it
  std::string secret;               ///< kSecretBytes, random
  std::vector<Endpoint> endpoints;  ///< with their ports
};

/// What the side that listens says first: the greeting.
inline constexpr std::size_t kGreetingBytes = 16;
std::array<std::byte, kGreetingBytes> greeting_of(std::uint64_t instance);

Bytes encode(const TcpPlace& place);
/// Errors: corrupt, unsupported (a newer version), out_of_range.
Result<TcpPlace> decode_tcp_place(ConstByteSpan bytes);

}  // namespace towpath::net
