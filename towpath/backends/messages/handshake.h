// What a backend of messages puts into cards, and what it says first: how it is reached, which
// memory it has, who it is. Messages of wire/: bounded, versioned, and every field checked.
//
// The address inside is the carrier's own and opaque here. UCX trusts its own, so a card is as
// trusted as its sender: take cards from people whom you would let connect. Thread: immutable.
#pragma once

#include <cstdint>

#include <towpath/core/bytes.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>

namespace towpath::backends::messages {

/// More than any worker's address: they grow with the devices, by some ten bytes each.
inline constexpr std::size_t kMaxAddressBytes = 16 * 1024;

/// The part of the card that says how a backend is reached.
struct ConnectionInfo {
  std::uint64_t instance = 0;  ///< random and never 0: this backend, and none before or after it
  Bytes address;               ///< of its worker
};

/// What a peer must know to touch a registration.
struct MemoryKey {
  std::uint64_t token = 0;  ///< random and never 0: nobody can touch what was not shown to him
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

/// The first frame of each side.
struct Hello {
  ConnectionInfo info;
  AgentIdentity from;
  std::uint64_t your_session = 0;  ///< 0: the sender does not know it yet
};

Bytes encode(const ConnectionInfo& info);
Bytes encode(const MemoryKey& key);
Bytes encode(const Hello& hello);

// Errors: corrupt, unsupported (a newer version), out_of_range.
Result<ConnectionInfo> decode_connection_info(ConstByteSpan bytes);
Result<MemoryKey> decode_key(ConstByteSpan bytes);
Result<Hello> decode_hello(ConstByteSpan bytes);

}  // namespace towpath::backends::messages
