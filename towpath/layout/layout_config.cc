#include <array>
#include <initializer_list>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/layout/layout_config.h>

namespace towpath::layout {
namespace {

constexpr std::uint64_t kMaxDtypeWidth = 8;

struct Rule {
  bool holds;
  std::string_view word;  // what programs and other languages look for
  std::string_view field;
  std::uint64_t value;
  std::string_view hint;
};

Status check(std::initializer_list<Rule> rules) {
  for (const Rule& rule : rules) {
    if (!rule.holds)
      return error(Code::invalid_argument, cat(rule.word, ": ", rule.field, " is ", rule.value),
                   std::string(rule.hint));
  }
  return {};
}

Result<std::uint64_t> product(std::initializer_list<std::uint64_t> factors,
                              const LayoutConfig& config) {
  std::uint64_t total = 1;
  for (std::uint64_t factor : factors) {
    auto next = checked_multiply(total, factor);
    if (!next)
      return error(Code::out_of_range,
                   cat("allocation size overflow during layout computation: ", to_string(config)),
                   "the cache must be smaller than 2^64 bytes");
    total = *next;
  }
  return total;
}

}  // namespace

std::string_view name_of(BlockFormat format) noexcept {
  switch (format) {
    case BlockFormat::nhd: return "nhd";
    case BlockFormat::hnd: return "hnd";
    case BlockFormat::universal: return "universal";
  }
  return "unknown";
}

Status LayoutConfig::validate() const {
  TOWPATH_TRY(check({
      {num_blocks >= 1, "num_blocks_must_be_positive", "num_blocks", num_blocks, "use 1 or more"},
      {num_layers >= 1, "num_layers_must_be_positive", "num_layers", num_layers, "use 1 or more"},
      {outer_dim == 1 || outer_dim == 2, "outer_dim_must_be_1_or_2", "outer_dim", outer_dim,
       "use 2 for keys and values apart, 1 for MLA or a fused cache"},
      {page_size >= 1, "page_size_must_be_positive", "page_size", page_size,
       "use 1 or more tokens per block"},
      {inner_dim >= 1, "inner_dim_must_be_positive", "inner_dim", inner_dim,
       "use the number of heads times the head dimension"},
      {is_power_of_two(alignment), "alignment_must_be_power_of_2", "alignment", alignment,
       "use 1 for none, or 2, 4, 8, ... bytes"},
      {is_power_of_two(dtype_width_bytes) && dtype_width_bytes <= kMaxDtypeWidth,
       "dtype_width_bytes_must_be_power_of_two_and_at_most_8_bytes", "dtype_width_bytes",
       dtype_width_bytes, "use 1, 2, 4 or 8"},
  }));
  return num_heads || format != BlockFormat::nhd ? validate_heads() : Status();
}

Status LayoutConfig::validate_heads() const {
  if (!num_heads)
    return error(Code::invalid_argument,
                 "num_heads_required_for_kv_block_layout: num_heads is not given",
                 "set num_heads to the attention heads of this rank");
  if (*num_heads == 0)
    return error(Code::invalid_argument, "num_heads_must_be_positive: num_heads is 0",
                 "set num_heads to the attention heads of this rank");
  if (inner_dim % *num_heads != 0)
    return error(Code::invalid_argument,
                 cat("inner_dim_must_be_divisible_by_num_heads: inner_dim is ", inner_dim,
                     ", num_heads is ", *num_heads),
                 "inner_dim is num_heads times the head dimension");
  return {};
}

Result<std::uint64_t> LayoutConfig::head_dim() const {
  TOWPATH_TRY(validate_heads());
  return inner_dim / *num_heads;
}

Result<std::uint64_t> LayoutConfig::token_bytes() const {
  return product({inner_dim, dtype_width_bytes}, *this);
}

Result<std::uint64_t> LayoutConfig::page_bytes() const {
  return product({page_size, inner_dim, dtype_width_bytes}, *this);
}

Result<std::uint64_t> LayoutConfig::block_bytes() const {
  return product({num_layers, outer_dim, page_size, inner_dim, dtype_width_bytes}, *this);
}

Result<std::uint64_t> LayoutConfig::payload_bytes() const {
  return product({num_blocks, num_layers, outer_dim, page_size, inner_dim, dtype_width_bytes},
                 *this);
}

std::string to_string(const LayoutConfig& config) {
  return cat(config.num_blocks, " blocks x ", config.num_layers, " layers x ", config.outer_dim,
             " outer x ", config.page_size, " tokens x ", config.inner_dim, " elements of ",
             config.dtype_width_bytes, " bytes");
}

}  // namespace towpath::layout
