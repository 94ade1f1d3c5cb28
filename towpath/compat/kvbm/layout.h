// KVBM v2's layout descriptor, version 1, as JSON. The format: docs/formats/kvbm_layout.md.
//
//   TOWPATH_TRY(auto descriptor, parse_kvbm_layout(json, {.agent = metadata.identity}));
//   TOWPATH_TRY(std::string json, to_kvbm_json(cache.descriptor(incarnation)));
//
// It says where a cache lies, and gives nobody a way to it: a transfer finds its addresses in the
// metadata of an agent of Towpath's, or not at all. package.h is for layouts that come with
// one.
//
// What comes in is hostile: bounded before it is read, every value checked, and validated like a
// layout of ours before anybody sees it. Thread: any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/layout/layout.h>

namespace towpath::kvbm {

/// What a KVBM's words leave open.
struct Terms {
  /// Whose metadata came with them: they name an agent, and not which of its lives.
  AgentIdentity agent;
  /// What blocks are taken for whose order is `Unknown`; without it they are refused.
  std::optional<layout::BlockFormat> unknown_order = std::nullopt;
};

/// kMaxRegions regions, each with its numbers at their longest, and the rest.
inline constexpr std::size_t kMaxKvbmJsonBytes =
    layout::kMaxRegions * 64 + 6 * kMaxAgentName + 65536;

/// Stricter than KVBM's own reader, which takes what it does not know for nothing: here a field
/// that version 1 has not, or one that comes twice, is refused by name.
/// Errors: corrupt (no JSON, no UTF-8, a field that is missing, twice, or not a value of its kind);
/// out_of_range (too long, too many regions, a number over its bound); unsupported (another
/// version; a field or a word that version 1 has not); and as descriptor_of().
Result<layout::LayoutDescriptor> parse_kvbm_layout(std::string_view json, const Terms& terms);

/// On one line, as KVBM writes it. Errors: as kvbm_words_of().
Result<std::string> to_kvbm_json(const layout::LayoutDescriptor& descriptor);

}  // namespace towpath::kvbm
