// What a backend of messages puts into metadata: how it is reached, what proves that one may, which
// memory it has. Messages of wire/: bounded, versioned, and every field checked.
//
// The address inside is the carrier's own and opaque here. UCX trusts its own, so metadata is as
// trusted as its sender: load that of agents which you would let connect. Thread: immutable.
#pragma once

#include <cstdint>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/core/secret.h>

namespace towpath::backends::messages {

/// More than any worker's address: they grow with the devices, by some ten bytes each.
inline constexpr std::size_t kMaxAddressBytes = 16 * 1024;

/// The part of the metadata that says how a backend is reached. Who has it may.
struct ConnectionInfo {
  std::uint64_t instance = 0;  ///< random and never 0: this backend, and none before or after it
  Bytes address;               ///< of its worker
  Secret secret;               ///< of its sessions (net/session); never on the data wire
};
/// One with a new instance and a new secret.
ConnectionInfo make_connection_info(ConstByteSpan address);

/// What a peer must know to touch a registration.
struct MemoryKey {
  std::uint64_t token = 0;  ///< random and never 0: nobody can touch what was not shown to him
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  bool is_read_only = false;
};

/// What the sides of a handshake give each other under its proofs (net::SessionParty::data).
struct PartyData {
  std::uint64_t session = 0;  ///< the sender's, random and never 0
  Bytes address;              ///< of its worker; empty: it is answered over its connection
  /// Of a dialler: its session of the link's first rail, by which further ones join. Of a listener
  /// that takes further ones: its session. 0: the sender has one rail only.
  std::uint64_t link = 0;
  /// Of a dialler: its Timing::lease, in whole milliseconds; 0: not said.
  Duration lease{};
};

Bytes encode(const ConnectionInfo& info);
Bytes encode(const MemoryKey& key);
Bytes encode(const PartyData& data);

// Errors: corrupt, unsupported (a newer version), out_of_range.
Result<ConnectionInfo> decode_connection_info(ConstByteSpan bytes);
Result<MemoryKey> decode_key(ConstByteSpan bytes);
Result<PartyData> decode_party_data(ConstByteSpan bytes);

}  // namespace towpath::backends::messages
