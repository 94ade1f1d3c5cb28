// What the two sides of a measurement say to one another, as notifications of their agents.
//
//   initiator                       target
//     hello: bytes, memory   ->
//                            <-     ready: metadata (with the region), address, device, a remark
//     prepare: fill?, seed   ->                        for each row
//                            <-     prepared: CPU time so far
//     check: blocks          ->
//                            <-     checked: CPU time before it looked, first wrong byte
//     finish                 ->
//
// Thread: any.
#pragma once

#include <cstdint>

#include <towpath/core/bytes.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/result.h>

#include "tools/bench/pattern.h"

namespace towpath::tools::bench {

enum class MessageKind : std::uint8_t {
  hello = 1,
  ready = 2,
  prepare = 3,
  prepared = 4,
  check = 5,
  checked = 6,
  finish = 7,
  failed = 8,  ///< the target cannot go on; the text says why
};

struct Message {
  MessageKind kind = MessageKind::hello;
  std::uint64_t bytes = 0;  ///< of the region; of the area to prepare
  std::uint64_t address = 0;
  std::uint64_t device_id = 0;
  MemoryKind memory = MemoryKind::system;
  std::uint64_t cpu_ns = 0;  ///< of the target's process
  bool fill = false;         ///< with the pattern; otherwise poison
  bool wrong = false;
  std::uint64_t wrong_at = 0;
  Blocks blocks;
  Bytes metadata;
  std::string text;
  std::string hint;  ///< of a failure
};

/// Errors: out_of_range (the metadata is too long).
Result<Bytes> encode(const Message& message);
/// Errors: corrupt.
Result<Message> decode(ConstByteSpan bytes);

}  // namespace towpath::tools::bench
