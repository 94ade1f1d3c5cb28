// TraceFormat: the ways in which others write down what requests asked for.
//
//   mooncake  {"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}
//             also AIPerf's and Dynamo's; an id per 512 tokens
//   bailian   the same with chat_id, parent_chat_id, turn, type; seconds; an id per 16 tokens
//   azure     TIMESTAMP,ContextTokens,GeneratedTokens          a date and time; no blocks
//   burstgpt  Timestamp,...,Request tokens,Response tokens,... seconds; no blocks
//
// Where blocks are not named nobody knows which prompts share a prefix: each is taken for new.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <towpath/core/result.h>

namespace towpath::traces {

enum class TraceFormat : std::uint8_t { mooncake, bailian, azure, burstgpt };

/// As users write it: "burstgpt".
std::string_view name_of(TraceFormat format) noexcept;
/// Errors: invalid_argument, with the names that there are.
Result<TraceFormat> trace_format_named(std::string_view name);

/// How many tokens an id stands for; 512 where blocks are made up.
std::uint64_t tokens_per_block(TraceFormat format) noexcept;
bool names_blocks(TraceFormat format) noexcept;

/// By the first line that is not empty; nothing when it looks like none of them.
std::optional<TraceFormat> format_of(std::string_view line) noexcept;

/// "61.114" -> 61114, what is finer is cut off. Nothing unless all of it is such a number, and in
/// milliseconds one of 64 bits.
std::optional<std::uint64_t> milliseconds_of(std::string_view seconds) noexcept;

}  // namespace towpath::traces
