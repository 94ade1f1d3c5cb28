// DenseTable: entries by a 64-bit key in one array that is nearly full: for millions that stay.
//
//   | a | c | c' | . | b |     each where its home is or, where others stand, behind them
//
// Homes go up with a mix of the key, as places do, so that the array may have any length: it grows
// by an eighth when four of five places are taken. An entry costs 1.25 to 1.41 times its size, and
// while the table grows, twice that. Invariant: no free place between an entry and its home.
// Thread: one at a time, or any while nobody changes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace towpath {

/// Entry: default-constructed it is_free(); key() of others.
template <typename Entry>
class DenseTable {
 public:
  std::size_t size() const noexcept { return size_; }

  /// Null: there is none. Valid until something is put or taken out.
  Entry* find(std::uint64_t key) noexcept {
    return const_cast<Entry*>(std::as_const(*this).find(key));
  }
  const Entry* find(std::uint64_t key) const noexcept {
    if (places_.empty()) return nullptr;
    for (std::size_t at = home(key); !places_[at].is_free(); at = next(at))
      if (places_[at].key() == key) return &places_[at];
    return nullptr;
  }

  /// Its key is in no other. Throws bad_alloc, and nothing has changed.
  Entry& put(const Entry& entry) {
    if ((size_ + 1) * 5 > places_.size() * 4) grow_to(places_.size() + places_.size() / 8 + 8);
    ++size_;
    return place(entry);
  }
  /// For so many in all, if they come: a table that grows on the way moves each of them some times.
  /// Throws as put().
  void make_room(std::size_t all) {
    if (all * 5 > places_.size() * 4) grow_to(all + all / 4 + 2);
  }

  /// One that was found.
  void take_out(Entry* entry) noexcept {
    auto gap = static_cast<std::size_t>(entry - places_.data());
    --size_;
    // What stands behind, and would rather stand in the gap or before it, moves up.
    for (std::size_t at = next(gap); !places_[at].is_free(); at = next(at)) {
      if (distance(home(places_[at].key()), at) < distance(gap, at)) continue;
      places_[gap] = places_[at];
      gap = at;
    }
    places_[gap] = {};
  }

  /// In an order that is not that of the homes: a caller that puts them into another table would
  /// fill that from one end, where all would stand in each other's way.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    const std::size_t runs = (places_.size() + kRun - 1) / kRun;
    auto step = static_cast<std::size_t>(0.6180339887 * static_cast<double>(runs)) + 1;
    while (std::gcd(step, runs) > 1) ++step;
    for (std::size_t i = 0, run = 0; i < runs; ++i, run = (run + step) % runs)
      for (std::size_t at = run * kRun; at < std::min((run + 1) * kRun, places_.size()); ++at)
        if (!places_[at].is_free()) visit(places_[at]);
  }

 private:
  static constexpr std::size_t kRun = 16;

  std::size_t home(std::uint64_t key) const noexcept {
    // Source: fmix64() of SMHasher, A. Appleby.
    std::uint64_t mixed = (key ^ (key >> 33U)) * 0xff51afd7ed558ccdULL;
    mixed = (mixed ^ (mixed >> 33U)) * 0xc4ceb9fe1a85ec53ULL;
    return static_cast<std::size_t>((static_cast<unsigned __int128>(mixed) * places_.size()) >>
                                    64U);
  }
  std::size_t next(std::size_t at) const noexcept { return at + 1 == places_.size() ? 0 : at + 1; }
  std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return to >= from ? to - from : to + places_.size() - from;
  }
  Entry& place(const Entry& entry) noexcept {
    std::size_t at = home(entry.key());
    while (!places_[at].is_free()) at = next(at);
    return places_[at] = entry;
  }
  void grow_to(std::size_t places) {
    std::vector<Entry> old(places);
    old.swap(places_);
    for (const Entry& entry : old)
      if (!entry.is_free()) place(entry);
  }

  std::vector<Entry> places_;
  std::size_t size_ = 0;
};

}  // namespace towpath
