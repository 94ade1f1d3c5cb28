#include <algorithm>
#include <optional>
#include <span>
#include <unordered_set>

#include <towpath/agent/resolved_list.h>
#include <towpath/core/text.h>

namespace towpath::agent {
namespace {

std::uint64_t hull_length(const StridedDescriptor& entry) {
  return entry.stride * (entry.count - 1) + entry.length;
}

struct Stretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Of stretches of one length on one grid, as blocks are, whatever their order: a bit per cell says
// it, and nothing is sorted. Nothing: they are no such stretches, or so few in so wide a range that
// the bits would cost more.
std::optional<bool> any_overlap_on_grid(std::span<const Stretch> stretches) {
  constexpr std::uint64_t kCellsPerStretch = 64;
  if (stretches.empty()) return false;
  const auto [lowest, highest] = std::ranges::minmax(stretches, {}, &Stretch::begin);
  const std::uint64_t length = lowest.end - lowest.begin;
  const std::uint64_t last_cell = (highest.begin - lowest.begin) / length;
  if (last_cell / kCellsPerStretch >= stretches.size()) return std::nullopt;
  std::vector<bool> taken(last_cell + 1);
  bool twice = false;
  for (const Stretch& stretch : stretches) {
    const std::uint64_t distance = stretch.begin - lowest.begin;
    if (stretch.end - stretch.begin != length || distance % length != 0) return std::nullopt;
    twice = twice || taken[distance / length];
    taken[distance / length] = true;
  }
  return twice;
}

bool any_overlap(std::vector<Stretch>& stretches) {
  if (const std::optional<bool> known = any_overlap_on_grid(stretches)) return *known;
  std::ranges::sort(stretches, {}, &Stretch::begin);
  for (std::size_t i = 1; i < stretches.size(); ++i) {
    if (stretches[i].begin < stretches[i - 1].end) return true;
  }
  return false;
}

// One entry per stretch would be as good: drop the fold when it saves too little to be worth a
// search per index.
constexpr std::size_t kWorthwhileFold = 4;

}  // namespace

Result<ResolvedList> ResolvedList::make(const DescriptorList& list, Resolver& resolver) {
  ResolvedList made;
  made.kind_ = list.kind();
  made.total_bytes_ = list.total_bytes();
  std::unordered_set<const MemoryRecord*> seen;
  RecordPtr last;
  // Neighbours mostly lie in the same region: ask the index only when the last answer does not fit.
  const auto resolve = [&](const Descriptor& what) -> Result<MemoryRecord*> {
    if (!last || !last->region.covers(what)) {
      TOWPATH_TRY(last, resolver.resolve(list.kind(), what));
      if (seen.insert(last.get()).second) made.records_.push_back(last);
    }
    return last.get();
  };
  const auto failed_at = [](std::uint64_t index, const Status& why) {
    return error(why.code(), cat("descriptor ", index, ": ", why.message()),
                 std::string(why.remedy()))
        .because(why.cause());
  };
  made.entries_.reserve(list.entries().size());
  for (std::size_t i = 0; i < list.entries().size(); ++i) {
    const StridedDescriptor& entry = list.entries()[i];
    auto whole = resolve({entry.address, hull_length(entry), entry.device_id});
    if (whole.ok()) {
      made.append({entry.address, entry.length, entry.stride, entry.count, *whole});
      continue;
    }
    for (std::uint64_t k = 0; k < entry.count; ++k) {  // it may lie in several regions
      const Descriptor stretch = entry.at(k);
      auto record = resolve(stretch);
      if (!record.ok()) return failed_at(list.first_indices()[i] + k, record.status());
      made.append({stretch.address, stretch.length, 0, 1, *record});
    }
  }
  made.finish();
  return made;
}

void ResolvedList::append(ResolvedEntry entry) {
  if (!entries_.empty() && entry.count == 1) {
    ResolvedEntry& back = entries_.back();
    if (back.record == entry.record && back.length == entry.length &&
        entry.address > back.address) {
      if (back.count == 1) {
        back.stride = entry.address - back.address;
        back.count = 2;
        return;
      }
      if (entry.address - back.address == back.stride * back.count) {
        ++back.count;
        return;
      }
    }
  }
  entries_.push_back(entry);
}

void ResolvedList::finish() {
  std::uint64_t size = 0;
  bool uniform = true;
  for (const ResolvedEntry& entry : entries_) {
    size += entry.count;
    uniform = uniform && entry.count == entries_.front().count;
  }
  if (!uniform && entries_.size() * kWorthwhileFold > size) {
    std::vector<ResolvedEntry> flat;
    flat.reserve(size);
    for (const ResolvedEntry& entry : entries_) {
      for (std::uint64_t k = 0; k < entry.count; ++k) {
        flat.push_back({entry.address + k * entry.stride, entry.length, 0, 1, entry.record});
      }
    }
    entries_ = std::move(flat);
    uniform = true;
  }
  uniform_count_ = uniform && !entries_.empty() ? entries_.front().count : 0;
  first_.reserve(entries_.size() + 1);
  size = 0;
  for (const ResolvedEntry& entry : entries_) {
    first_.push_back(size);
    size += entry.count;
  }
  first_.push_back(size);
  slots_ = ~SlotMask{0};
  for (const RecordPtr& record : records_) slots_ &= record->slots;
  if (records_.empty()) slots_ = 0;
  disjoint_ = prove_disjoint();
}

std::size_t ResolvedList::search(std::uint64_t index) const noexcept {
  const auto after = std::ranges::upper_bound(first_, index);
  return static_cast<std::size_t>(after - first_.begin()) - 1;
}

// Proven when the hulls of all entries lie apart, or when all entries share one stride and their
// starts, taken modulo that stride, lie apart (layers interleaved block by block).
bool ResolvedList::prove_disjoint() const {
  std::vector<Stretch> hulls;
  std::vector<Stretch> residues;
  hulls.reserve(entries_.size());
  const std::uint64_t stride = entries_.empty() ? 0 : entries_.front().stride;
  bool one_stride = stride != 0;
  for (const ResolvedEntry& entry : entries_) {
    if (entry.length == 0) continue;
    if (entry.count > 1 && entry.stride < entry.length) return false;
    // Stretches of different devices never overlap; fold the device into the region's own range by
    // giving up the proof when there are several.
    if (entry.record->region.device_id != entries_.front().record->region.device_id) return false;
    hulls.push_back(
        {entry.address, entry.address + entry.stride * (entry.count - 1) + entry.length});
    one_stride = one_stride && entry.stride == stride;
    if (one_stride) {
      const std::uint64_t residue = entry.address % stride;
      if (residue + entry.length > stride) one_stride = false;
      residues.push_back({residue, residue + entry.length});
    }
  }
  return !any_overlap(hulls) || (one_stride && !any_overlap(residues));
}

}  // namespace towpath::agent
