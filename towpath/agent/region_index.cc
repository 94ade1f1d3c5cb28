#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <tuple>

#include <towpath/agent/region_index.h>

namespace towpath::agent {
namespace {

/// Of `RegionDescriptor` and `RegionEntry` alike.
template <typename Region>
auto start_of(const Region& region) {
  return std::tuple(region.kind, region.device_id, region.address);
}

const RegionDescriptor& described(const RegionDescriptor& region) { return region; }
const RegionDescriptor& described(const RegionEntry& entry) {
  static const RegionDescriptor kPlain;
  return entry.record ? entry.record->region : kPlain;
}

auto rest_of(const RegionDescriptor& region) {
  return std::tuple(region.fd, region.fd_offset, std::string_view(region.key));
}

/// A total order: by place, then by length and what else tells regions apart.
template <typename A, typename B>
bool comes_before(const A& a, const B& b) {
  const auto place = std::tuple_cat(start_of(a), std::tuple(a.length));
  const auto other = std::tuple_cat(start_of(b), std::tuple(b.length));
  if (place != other) return place < other;
  return rest_of(described(a)) < rest_of(described(b));
}

// Sorting a tail in moves all entries, finding something in it looks at each of it: that costs
// alike at about the root.
std::size_t most_unsorted(std::size_t entries) {
  constexpr std::size_t kAlways = 64;
  return std::max(kAlways, 2 * static_cast<std::size_t>(std::sqrt(static_cast<double>(entries))));
}

}  // namespace

void RegionIndex::add(RecordPtr record) {
  RegionEntry entry = RegionEntry::of(record->region);
  entry.record = std::move(record);
  add(std::move(entry));
}

void RegionIndex::add(RegionEntry entry) {
  entries_.push_back(std::move(entry));
  leaves_ = 0;
}

// A pool is taken back as a list: each time that they go, all others are looked at.
void RegionIndex::note_gone() {
  if (++gone_ * 2 >= entries_.size()) drop_gone();
}

void RegionIndex::drop_gone() {
  sort();
  std::erase_if(entries_, [](const RegionEntry& entry) {
    return entry.is_stale() && entry.record->instances == 0;
  });
  sorted_ = entries_.size();
  leaves_ = 0;
  gone_ = 0;
}

void RegionIndex::drop_repeats() {
  sort();
  const auto equal = [](const RegionEntry& a, const RegionEntry& b) { return !comes_before(a, b); };
  const auto repeats = std::ranges::unique(entries_, equal);
  if (repeats.empty()) return;
  entries_.erase(repeats.begin(), repeats.end());
  sorted_ = entries_.size();
  leaves_ = 0;
}

void RegionIndex::sort() {
  if (sorted_ == entries_.size()) return;
  const auto before = [&](const RegionEntry& a, const RegionEntry& b) {
    ++steps_;
    return comes_before(a, b);
  };
  const auto middle = entries_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  const auto first_unproven = sorted_ == 0 ? middle : middle - 1;
  // As agents mostly tell them.
  if (!std::is_sorted(first_unproven, entries_.end(), before)) {
    std::stable_sort(middle, entries_.end(), before);
    std::inplace_merge(entries_.begin(), middle, entries_.end(), before);
  }
  sorted_ = entries_.size();
}

void RegionIndex::note_ends() {
  if (leaves_ != 0 || entries_.empty()) return;
  const std::size_t leaves = std::bit_ceil(entries_.size());
  ends_.assign(2 * leaves, 0);
  for (std::size_t i = 0; i < entries_.size(); ++i)
    ends_[leaves + i] = entries_[i].address + entries_[i].length;
  for (std::size_t i = leaves - 1; i > 0; --i) ends_[i] = std::max(ends_[2 * i], ends_[2 * i + 1]);
  leaves_ = leaves;  // last: what throws has noted nothing
  steps_ += ends_.size();
}

RegionIndex::Range RegionIndex::starting_before(MemoryKind kind, const Descriptor& what) {
  const auto start = [&](const RegionEntry& entry) {
    ++steps_;
    return start_of(entry);
  };
  const auto first = std::tuple(kind, what.device_id, std::uint64_t{0});
  const auto last = std::tuple(kind, what.device_id, what.address);
  const auto begin = std::ranges::lower_bound(entries_, first, std::less<>(), start);
  const auto end = std::ranges::upper_bound(begin, entries_.end(), last, std::less<>(), start);
  return {static_cast<std::size_t>(begin - entries_.begin()),
          static_cast<std::size_t>(end - entries_.begin())};
}

std::optional<std::size_t> RegionIndex::last_reaching(Range range, std::uint64_t end) {
  const auto reaches = [&](std::size_t node) {
    ++steps_;
    return ends_[node] >= end;
  };
  const auto descend = [&](std::size_t node) {
    while (node < leaves_) node = 2 * node + (reaches(2 * node + 1) ? 1 : 0);
    return node - leaves_;
  };
  // The range as few whole subtrees: those at its right end from right to left, then the others.
  std::array<std::size_t, 64> at_left{};
  std::size_t waiting = 0;
  std::size_t left = range.begin + leaves_;
  std::size_t right = range.end + leaves_;
  for (; left < right; left /= 2, right /= 2) {
    if (right % 2 == 1 && reaches(--right)) return descend(right);
    if (left % 2 == 1) at_left[waiting++] = left++;
  }
  while (waiting > 0) {
    if (const std::size_t node = at_left[--waiting]; reaches(node)) return descend(node);
  }
  return std::nullopt;
}

RegionEntry* RegionIndex::find_neighbour(MemoryKind kind, const Descriptor& what) {
  if (neighbour_ >= entries_.size()) return nullptr;
  ++steps_;
  RegionEntry& entry = entries_[neighbour_];
  const bool covers =
      entry.kind == kind && entry.device_id == what.device_id && entry.address <= what.address &&
      what.length <= entry.length - std::min(entry.length, what.address - entry.address);
  if (!covers || entry.is_stale()) return nullptr;
  const bool next_starts_too =
      neighbour_ + 1 < entries_.size() &&
      start_of(entries_[neighbour_ + 1]) <= std::tuple(kind, what.device_id, what.address);
  if (next_starts_too) return nullptr;
  ++neighbour_;
  return &entry;
}

RegionEntry* RegionIndex::find(MemoryKind kind, const Descriptor& what) {
  sort();
  if (RegionEntry* const neighbour = find_neighbour(kind, what)) return neighbour;
  note_ends();
  const std::uint64_t end = what.address + what.length;
  if (end < what.address) return nullptr;
  Range range = starting_before(kind, what);
  while (const auto found = last_reaching(range, end)) {
    RegionEntry& entry = entries_[*found];
    if (!entry.is_stale()) {
      neighbour_ = *found + 1;
      return &entry;
    }
    range.end = *found;
  }
  return nullptr;
}

// Regions that come in any order are asked for one by one while they come: to sort each into the
// others would move half of them each time.
template <typename Region>
RegionEntry* RegionIndex::find_equal(const Region& region) {
  // One of so many entries: those of one place are walked over.
  constexpr std::size_t kMostGone = 8;
  if (gone_ * kMostGone > entries_.size()) drop_gone();
  while (sorted_ < entries_.size() &&
         (sorted_ == 0 || !comes_before(entries_[sorted_], entries_[sorted_ - 1]))) {
    ++sorted_;
    ++steps_;
  }
  if (entries_.size() - sorted_ > most_unsorted(entries_.size())) sort();
  const bool is_last = sorted_ == entries_.size() && sorted_ > 0 &&
                       comes_before(entries_.back(), region);  // as regions mostly come
  if (is_last) return nullptr;
  const auto before = [&](const RegionEntry& entry, const Region& sought) {
    ++steps_;
    return comes_before(entry, sought);
  };
  const auto unsorted = entries_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  auto found = std::lower_bound(entries_.begin(), unsorted, region, before);
  for (; found != unsorted && !comes_before(region, *found); ++found, ++steps_) {
    if (found->may_be_joined()) return &*found;
  }
  for (found = unsorted; found != entries_.end(); ++found, ++steps_) {
    if (found->address != region.address) continue;  // nearly all of them
    const bool is_equal = !comes_before(region, *found) && !comes_before(*found, region);
    if (is_equal && found->may_be_joined()) return &*found;
  }
  return nullptr;
}

RegionEntry* RegionIndex::find_exactly(const RegionDescriptor& region) {
  return find_equal(region);
}
RegionEntry* RegionIndex::find_exactly(const RegionEntry& entry) { return find_equal(entry); }

}  // namespace towpath::agent
