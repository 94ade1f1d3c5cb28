// LayoutConfig: the shape of a KV cache, in blocks, layers, outers, tokens and elements.
//
// A block holds `page_size` tokens. For each layer and each outer (K and V apart, or one of both) a
// block has one page: `page_size * inner_dim` elements that lie together in every format but
// `universal`. Where the pages lie is the business of Geometry (strides.h).
//
// Invariants: none; this is what a user wrote. validate() says whether it makes sense.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <towpath/core/result.h>

namespace towpath::layout {

/// The order of the axes within a block. The numbers travel in descriptors: only append.
enum class BlockFormat : std::uint8_t {
  nhd = 0,        ///< [layer, outer, token, head, dim]: what most engines keep
  hnd = 1,        ///< [layer, outer, head, token, dim]
  universal = 2,  ///< [head, layer, outer, token, dim]: a share of the heads lies together
};
/// "nhd", "hnd", "universal"; "unknown" for a number that is none.
std::string_view name_of(BlockFormat format) noexcept;

struct LayoutConfig {
  std::uint64_t num_blocks = 0;         ///< at least 1
  std::uint64_t num_layers = 0;         ///< at least 1
  std::uint64_t outer_dim = 0;          ///< 2: keys and values apart; 1: MLA, or fused
  std::uint64_t page_size = 0;          ///< tokens per block; at least 1
  std::uint64_t inner_dim = 0;          ///< elements per token: heads * head dim, of this rank
  std::uint64_t alignment = 1;          ///< bytes; a power of two; see Geometry for what it moves
  std::uint64_t dtype_width_bytes = 2;  ///< 1, 2, 4 or 8
  std::optional<std::uint64_t> num_heads = std::nullopt;
  BlockFormat format = BlockFormat::nhd;  ///< the others need num_heads

  /// Every rule above, in the order of the fields; num_heads only where it is given.
  /// Errors: invalid_argument; the message begins with the rule's word, such as
  /// "alignment_must_be_power_of_2", and names the value.
  Status validate() const;

  /// Whether heads can be distinguished, as formats that reorder them need.
  /// Errors: invalid_argument (num_heads_required_for_kv_block_layout, num_heads_must_be_positive,
  /// inner_dim_must_be_divisible_by_num_heads).
  Status validate_heads() const;

  /// Elements per head. Errors: as validate_heads().
  Result<std::uint64_t> head_dim() const;

  // Bytes of the cache itself, without any padding. Errors of all four: out_of_range (the product
  // does not fit 64 bits).
  Result<std::uint64_t> token_bytes() const;    ///< one token of one page
  Result<std::uint64_t> page_bytes() const;     ///< one block of one layer and one outer
  Result<std::uint64_t> block_bytes() const;    ///< all pages of a block
  Result<std::uint64_t> payload_bytes() const;  ///< all blocks

  friend bool operator==(const LayoutConfig&, const LayoutConfig&) = default;
};

/// "2 blocks x 3 layers x 2 outer x 4 tokens x 8 elements of 2 bytes".
std::string to_string(const LayoutConfig& config);

}  // namespace towpath::layout
