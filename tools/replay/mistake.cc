#include "tools/replay/mistake.h"

#include <algorithm>
#include <array>

#include <towpath/core/format.h>

namespace towpath::tools::replay {
namespace {

constexpr std::array kAll = {Mistake::swap_kv,    Mistake::swap_layer,        Mistake::swap_token,
                             Mistake::swap_block, Mistake::flip_bit,          Mistake::short_file,
                             Mistake::torn_write, Mistake::drop_notification, Mistake::tier_fails};

Status swap_pages(const layout::PhysicalLayout& layout, layout::PageIndex a, layout::PageIndex b) {
  TOWPATH_TRY(const ByteSpan first, layout.bytes(a));
  TOWPATH_TRY(const ByteSpan second, layout.bytes(b));
  std::ranges::swap_ranges(first, second);
  return {};
}

Status swap_blocks(const layout::PhysicalLayout& layout, std::uint64_t a, std::uint64_t b) {
  for (std::uint64_t layer = 0; layer < layout.config().num_layers; ++layer) {
    for (std::uint64_t outer = 0; outer < layout.config().outer_dim; ++outer)
      TOWPATH_TRY(swap_pages(layout, {a, layer, outer}, {b, layer, outer}));
  }
  return {};
}

Status swap_tokens(const layout::PhysicalLayout& layout, std::uint64_t block) {
  TOWPATH_TRY(const ByteSpan page, layout.bytes({block, 0, 0}));
  const std::uint64_t width = page.size() / layout.config().page_size;
  std::ranges::swap_ranges(page.first(width), page.last(width));
  return {};
}

}  // namespace

std::string_view name_of(Mistake mistake) noexcept {
  switch (mistake) {
    case Mistake::none: return "none";
    case Mistake::swap_kv: return "swap-kv";
    case Mistake::swap_layer: return "swap-layer";
    case Mistake::swap_token: return "swap-token";
    case Mistake::swap_block: return "swap-block";
    case Mistake::flip_bit: return "flip-bit";
    case Mistake::short_file: return "short-file";
    case Mistake::torn_write: return "torn-write";
    case Mistake::drop_notification: return "drop-notification";
    case Mistake::tier_fails: return "tier-fails";
  }
  return "unknown";
}

std::span<const Mistake> all_mistakes() noexcept { return kAll; }

Result<Mistake> mistake_named(std::string_view name) {
  std::string names;
  for (Mistake mistake : kAll) {
    if (name_of(mistake) == name) return mistake;
    if (mistake == Mistake::tier_fails) continue;  // known, and of --faults alone
    names.append(names.empty() ? "" : ", ").append(name_of(mistake));
  }
  return error(Code::invalid_argument, cat("no fault is called '", printable(name), "'"),
               cat("use one of: ", names));
}

bool spoils_production(Mistake mistake) noexcept {
  return mistake >= Mistake::swap_kv && mistake <= Mistake::flip_bit;
}

bool is_met_by_decode(Mistake mistake) noexcept {
  return spoils_production(mistake) || mistake == Mistake::drop_notification;
}

Status spoil(Mistake mistake, const layout::PhysicalLayout& layout, std::uint64_t block,
             std::uint64_t other) {
  switch (mistake) {
    case Mistake::swap_kv: return swap_pages(layout, {block, 1, 0}, {block, 1, 1});
    case Mistake::swap_layer: return swap_pages(layout, {block, 0, 0}, {block, 1, 0});
    case Mistake::swap_token: return swap_tokens(layout, block);
    case Mistake::swap_block: return swap_blocks(layout, block, other);
    case Mistake::flip_bit: {
      TOWPATH_TRY(const ByteSpan page, layout.bytes({block, 0, 0}));
      page[page.size() / 2] ^= std::byte{16};
      return {};
    }
    default: return error(Code::internal, "not a mistake of production");
  }
}

}  // namespace towpath::tools::replay
