#include <cstring>

#include <towpath/kv/tiers/block_bytes.h>

namespace towpath::kv {
namespace {

/// Calls `visit` with each page of the block and its offset, in canonical order.
template <typename Visit>
Status for_each_page(const layout::PhysicalLayout& layout, std::uint64_t slot, const Visit& visit) {
  std::uint64_t offset = 0;
  for (std::uint64_t layer = 0; layer < layout.config().num_layers; ++layer) {
    for (std::uint64_t outer = 0; outer < layout.config().outer_dim; ++outer) {
      TOWPATH_TRY(const ByteSpan page, layout.bytes({slot, layer, outer}));
      visit(page, offset);
      offset += page.size();
    }
  }
  return {};
}

}  // namespace

std::optional<ByteSpan> in_one_piece(const layout::PhysicalLayout& layout, std::uint64_t slot) {
  ByteSpan whole;
  bool adjoin = true;
  const Status seen = for_each_page(layout, slot, [&](ByteSpan page, std::uint64_t offset) {
    if (offset == 0) whole = page;
    adjoin = adjoin && page.data() == whole.data() + offset;
    whole = {whole.data(), offset + page.size()};
  });
  return seen.ok() && adjoin ? std::optional(whole) : std::nullopt;
}

Status gather(const layout::PhysicalLayout& layout, std::uint64_t slot, ByteSpan into) {
  return for_each_page(layout, slot, [&](ByteSpan page, std::uint64_t offset) {
    std::memcpy(into.data() + offset, page.data(), page.size());
  });
}

Status scatter(ConstByteSpan from, const layout::PhysicalLayout& layout, std::uint64_t slot) {
  return for_each_page(layout, slot, [&](ByteSpan page, std::uint64_t offset) {
    std::memcpy(page.data(), from.data() + offset, page.size());
  });
}

Result<Digest> gather_as(const Digest& like, const layout::PhysicalLayout& layout,
                         std::uint64_t slot, ByteSpan into) {
  Digester digester(like.salt, like.algorithm);
  TOWPATH_TRY(for_each_page(layout, slot, [&](ByteSpan page, std::uint64_t offset) {
    digester.copy(into.subspan(offset, page.size()), page);
  }));
  return digester.finish();
}

Result<Digest> scatter_as(const Digest& like, ConstByteSpan from,
                          const layout::PhysicalLayout& layout, std::uint64_t slot) {
  Digester digester(like.salt, like.algorithm);
  TOWPATH_TRY(for_each_page(layout, slot, [&](ByteSpan page, std::uint64_t offset) {
    digester.copy(page, from.subspan(offset, page.size()));
  }));
  return digester.finish();
}

}  // namespace towpath::kv
