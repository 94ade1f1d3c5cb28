// ProbingTable: entries in one array, each where its home is or, where others stand, behind them.
//
//   | a | . | c | c' | . |     c' stands behind c, where both would be: linear probing
//
// For tables of thousands that are made and emptied often: nothing is allocated for an entry, and
// none leaves a mark behind. The same entry may stand in it again and again; a table in which each
// is once looks before it puts one.
// Invariants: at least half of the places are free, and none between an entry and its home.
// Thread: one at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace towpath {

/// Entry: default-constructed it is_free(); home() are bits of which the low ones say where it
/// would stand.
template <typename Entry>
class ProbingTable {
 public:
  std::size_t size() const noexcept { return size_; }

  /// For as many more; what was found before is elsewhere then.
  void make_room(std::size_t more) {
    const std::size_t least = std::bit_ceil(2 * (size_ + more));
    if (least <= places_.size()) return;
    for (Entry& entry : std::exchange(places_, std::vector<Entry>(least)))
      if (!entry.is_free()) places_[free_behind(entry.home())] = std::move(entry);
  }

  /// There must be room (make_room()).
  void put(Entry&& entry) {
    places_[free_behind(entry.home())] = std::move(entry);
    ++size_;
  }

  /// The first that `is_it`, of those that may have this home; null: none. Valid until something is
  /// put or taken out.
  template <typename IsIt>
  Entry* find(std::size_t home, const IsIt& is_it) noexcept {
    if (places_.empty()) return nullptr;
    for (std::size_t at = home & mask(); !places_[at].is_free(); at = next(at))
      if (is_it(places_[at])) return &places_[at];
    return nullptr;
  }

  /// One that was found.
  Entry take_out(Entry& entry) noexcept {
    auto gap = static_cast<std::size_t>(&entry - places_.data());
    Entry taken = std::move(entry);
    --size_;
    // What stands behind, and would rather stand in the gap or before it, moves up.
    for (std::size_t at = next(gap); !places_[at].is_free(); at = next(at)) {
      const std::size_t from_home = (at - places_[at].home()) & mask();
      if (from_home < ((at - gap) & mask())) continue;
      places_[gap] = std::move(places_[at]);
      gap = at;
    }
    places_[gap] = {};
    return taken;
  }

 private:
  std::size_t mask() const noexcept { return places_.size() - 1; }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask(); }
  std::size_t free_behind(std::size_t home) const noexcept {
    std::size_t at = home & mask();
    while (!places_[at].is_free()) at = next(at);
    return at;
  }

  std::vector<Entry> places_;  // a power of two of them, or none
  std::size_t size_ = 0;
};

}  // namespace towpath
