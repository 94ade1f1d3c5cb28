// What the two processes of a replay exchange, as notifications between their agents.
//
//   prefill -> decode   hello    the layout of prefill's pool
//   decode  -> prefill  order    request n, please: these blocks
//   prefill -> decode   ready    request n lies in these slots, with these digests; mistakes so far
//   decode  -> prefill  pulled   request n is here: its slots may be used again (the pull sends it)
//   decode  -> prefill  finish   that was all
//   prefill -> decode   summary  figures and faults of prefill's side
//
// Encoded with wire/: bounded and refused by name, though both ends are the same program.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::tools::replay {

enum class MessageKind : std::uint8_t { hello = 1, order, ready, pulled, finish, summary };

struct Message {
  MessageKind kind = MessageKind::hello;
  std::uint64_t ordinal = 0;           ///< of the request
  std::vector<std::uint64_t> blocks;   ///< order: hashes. ready: slots, in the order of the order
  std::vector<std::uint64_t> digests;  ///< ready: values, one per slot
  Bytes layout;                        ///< hello
  // summary, and what goes along with others:
  std::map<std::string, std::uint64_t> figures;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<std::uint64_t>> series;
};

// What a summary says under a name; nothing when it is silent.
std::uint64_t figure_of(const Message& message, const std::string& name);
std::string text_of(const Message& message, const std::string& name);
std::vector<std::uint64_t> series_of(const Message& message, const std::string& name);

/// Errors: out_of_range (more blocks than a notification holds).
Result<Bytes> encode(const Message& message);
/// Errors: corrupt, out_of_range, unsupported.
Result<Message> decode(ConstByteSpan bytes);

}  // namespace towpath::tools::replay
