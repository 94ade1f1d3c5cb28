// ConnectorWords: how a connector keeps blocks, in words: for doors whose options are text (C,
// Python).
//
//   TOWPATH_TRY(apply({.policy = "s3-fifo"}, options));
//
// Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/standard/connector_node.h>

namespace towpath::standard {

/// What is not said stays as it was.
struct ConnectorWords {
  std::string policy{};            ///< kv/block_id.h has the names
  std::string digest{};            ///< "xxh3_64", "crc32c"
  std::uint64_t min_accesses = 0;  ///< of a block, before it is demoted to files and objects
};

/// Errors: invalid_argument (no such policy, digest).
Status apply(const ConnectorWords& words, ConnectorNodeOptions& options);

}  // namespace towpath::standard
