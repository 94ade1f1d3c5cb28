#include "tools/traces/diagnosis.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include <towpath/core/format.h>

#include "tools/traces/pattern.h"

namespace towpath::traces {
namespace {

struct Place {
  std::uint64_t layer = 0;
  std::uint64_t outer = 0;
};

class Examiner {
 public:
  Examiner(kv::BlockHash hash, const BlockShape& shape, const RowsFound& found)
      : hash_(hash), shape_(shape), found_(found) {}

  std::string examine(std::span<const kv::BlockHash> others) {
    const auto wrong = first_wrong();
    if (!wrong) return {};
    place_ = *wrong;
    rows_ = found_(place_.layer, place_.outer);
    if (auto reported = other_place()) return *reported;
    for (const kv::BlockHash other : others) {
      if (other != hash_ && holds(other, place_))
        return cat("swap-block: block ", hex(hash_), " holds block ", hex(other));
    }
    if (auto reported = other_token()) return *reported;
    return damage();
  }

 private:
  PatternRows rows_of(kv::BlockHash hash, Place place) const {
    return {.hash = hash,
            .layer = place.layer,
            .outer = place.outer,
            .bytes_per_token = shape_.bytes_per_token};
  }
  bool holds(kv::BlockHash hash, Place place) const {
    return !first_mismatch(rows_of(hash, place), rows_);
  }
  std::string here() const { return cat("layer ", place_.layer, " outer ", place_.outer); }

  std::optional<Place> first_wrong() const {
    for (std::uint64_t layer = 0; layer < shape_.num_layers; ++layer) {
      for (std::uint64_t outer = 0; outer < shape_.outer_dim; ++outer) {
        if (first_mismatch(rows_of(hash_, {layer, outer}), found_(layer, outer)))
          return Place{layer, outer};
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> other_place() const {
    for (std::uint64_t layer = 0; layer < shape_.num_layers; ++layer) {
      for (std::uint64_t outer = 0; outer < shape_.outer_dim; ++outer) {
        if (!holds(hash_, {layer, outer})) continue;
        if (layer == place_.layer) return cat("swap-kv: K and V are swapped in layer ", layer);
        return cat("swap-layer: ", here(), " holds layer ", layer, " outer ", outer);
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> other_token() const {
    const std::uint64_t width = shape_.bytes_per_token;
    Bytes expected(rows_.size());
    fill(rows_of(hash_, place_), expected);
    const auto token_at = [&](ConstByteSpan rows, std::uint64_t token) {
      return rows.subspan(token * width, width);
    };
    const auto same = [](ConstByteSpan a, ConstByteSpan b) { return std::ranges::equal(a, b); };
    for (std::uint64_t token = 0; token < shape_.tokens; ++token) {
      if (same(token_at(rows_, token), token_at(expected, token))) continue;
      for (std::uint64_t other = 0; other < shape_.tokens; ++other) {
        const bool swapped = same(token_at(rows_, token), token_at(expected, other)) &&
                             same(token_at(rows_, other), token_at(expected, token));
        if (swapped)
          return cat("swap-token: ", here(), ": tokens ", token, " and ", other, " are swapped");
      }
      return std::nullopt;
    }
    return std::nullopt;
  }

  std::string damage() const {
    Bytes expected(rows_.size());
    fill(rows_of(hash_, place_), expected);
    std::uint64_t wrong_bytes = 0;
    std::uint64_t wrong_bits = 0;
    std::uint64_t first = rows_.size();
    for (std::uint64_t at = 0; at < rows_.size(); ++at) {
      const auto difference = static_cast<std::uint8_t>(rows_[at] ^ expected[at]);
      if (difference == 0) continue;
      first = std::min(first, at);
      ++wrong_bytes;
      wrong_bits += static_cast<std::uint64_t>(std::popcount(difference));
    }
    const std::string where = cat(here(), " token ", first / shape_.bytes_per_token, " byte ",
                                  first % shape_.bytes_per_token);
    if (wrong_bits == 1) return cat("flip-bit: one bit is wrong at ", where);
    const bool zeros =
        std::ranges::all_of(rows_.subspan(first), [](std::byte b) { return b == std::byte{0}; });
    if (zeros) return cat("torn: only zeros from ", where, " on");
    return cat("unknown: ", wrong_bytes, " bytes are wrong, the first at ", where);
  }

  const kv::BlockHash hash_;
  const BlockShape& shape_;
  const RowsFound& found_;
  Place place_;
  ConstByteSpan rows_;
};

}  // namespace

std::string diagnose(kv::BlockHash hash, const BlockShape& shape, const RowsFound& found,
                     std::span<const kv::BlockHash> others) {
  return Examiner(hash, shape, found).examine(others);
}

}  // namespace towpath::traces
