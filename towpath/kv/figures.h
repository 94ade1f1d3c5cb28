// What a keeper of blocks and its peers' leases have counted. Thread: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <towpath/core/status.h>
#include <towpath/kv/block_id.h>

namespace towpath::kv {

/// Of a pool whose tenants have a quota.
struct QuotaFigures {
  SlotId most = 0;              ///< that a tenant may have
  std::size_t tenants = 0;      ///< that have slots now, those of no tenant as one
  SlotId largest = 0;           ///< how many the one with most has
  std::uint64_t evictions = 0;  ///< of a tenant's own blocks, for it had its share
};

/// What a keeper did.
struct KeeperFigures {
  std::uint64_t from_memory = 0;                     ///< blocks that were there
  std::map<std::string, std::uint64_t> from_below;   ///< by tier, but for peers'
  std::uint64_t written = 0;                         ///< to the tiers below
  std::uint64_t not_written = 0;                     ///< times that one of them did not take it
  std::map<std::string, std::uint64_t> quarantined;  ///< by reason
  std::uint64_t given_up = 0;                        ///< that a server did not take in time
  Status last_failure;                               ///< of a tier below
  QuotaFigures quota{};                              ///< of the memory; all 0 where there is none
};

/// What a KeyedStore did.
struct KeyedFigures {
  std::uint64_t put = 0;         ///< that are there for good
  std::uint64_t already = 0;     ///< of these, that were there
  std::uint64_t loaded = 0;      ///< gets that ended well
  std::uint64_t missing = 0;     ///< gets and finds of what is not there
  std::uint64_t not_proven = 0;  ///< gets that came, and were not what was put
  std::uint64_t put_again = 0;   ///< since they were about to leave
  Status last_failure;           ///< of a tier
};

/// What the server of a cache took from its peers.
struct CollectorFigures {
  std::uint64_t collected = 0;
  std::uint64_t missed = 0;   ///< gone before their turn, or not proven
  std::uint64_t refused = 0;  ///< for too many waited
};

/// What was leased from peers, and granted to them.
struct PeerFigures {
  std::uint64_t peers = 0;       ///< that are known now
  std::uint64_t leased = 0;      ///< blocks that came, and proved
  std::uint64_t staged = 0;      ///< of these, by way of a staging
  std::uint64_t not_proven = 0;  ///< that came, and did not
  std::uint64_t granted = 0;
  std::uint64_t failed_sessions = 0;
  Status last_failure;
};

}  // namespace towpath::kv
