#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>
#include <span>
#include <utility>

#include <towpath/agent/resolved_list.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::agent {
namespace {

std::uint64_t hull_length(const StridedDescriptor& entry) {
  return entry.stride * (entry.count - 1) + entry.length;
}

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Of extents of one length on one grid, as blocks are, whatever their order: a bit per cell says
// it, and nothing is sorted. Nothing: they are no such extents, or so few in so wide a range that
// the bits would cost more. `extent_at(i)` is the i-th of `count`.
template <typename ExtentAt>
std::optional<bool> any_overlap_on_grid(std::size_t count, ExtentAt extent_at) {
  constexpr std::uint64_t kCellsPerExtent = 1024;  // 128 bytes to clear; to sort one costs more
  if (count == 0) return false;
  const Extent first = extent_at(0);
  const std::uint64_t length = first.end - first.begin;
  std::uint64_t lowest = first.begin;
  std::uint64_t highest = first.begin;
  for (std::size_t i = 0; i < count; ++i) {
    const Extent extent = extent_at(i);
    if (extent.end - extent.begin != length) return std::nullopt;
    lowest = std::min(lowest, extent.begin);
    highest = std::max(highest, extent.begin);
  }
  if (length == 0 || (highest - lowest) / length / kCellsPerExtent >= count) return std::nullopt;
  std::vector<std::uint64_t> taken((highest - lowest) / length / 64 + 1);
  std::uint64_t twice = 0;
  std::uint64_t beside_the_grid = 0;
  const auto mark = [&](auto cell_of) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t distance = extent_at(i).begin - lowest;
      const std::uint64_t cell = cell_of(distance);
      std::uint64_t& word = taken[cell / 64];
      const std::uint64_t bit = std::uint64_t{1} << (cell % 64);
      twice |= word & bit;
      word |= bit;
      beside_the_grid |= distance - cell * length;
    }
  };
  // A division takes longer than all the rest, and most blocks are a power of two.
  if (std::has_single_bit(length))
    mark([shift = std::countr_zero(length)](std::uint64_t distance) { return distance >> shift; });
  else
    mark([length](std::uint64_t distance) { return distance / length; });
  if (twice != 0) return true;  // in one cell, on the grid or not: less than a length apart
  if (beside_the_grid != 0) return std::nullopt;
  return false;
}

bool any_overlap(std::vector<Extent>& extents) {
  const auto at = [&](std::size_t i) { return extents[i]; };
  if (const std::optional<bool> known = any_overlap_on_grid(extents.size(), at)) return *known;
  std::ranges::sort(extents, {}, &Extent::begin);
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) return true;
  }
  return false;
}

// One entry per extent would be as good: drop the fold when it saves too little to be worth a
// search per index.
constexpr std::size_t kWorthwhileFold = 4;

}  // namespace

/// Finds the records of a list. Neighbours mostly lie in the same region: the index is asked only
/// where the last answer does not fit.
class ResolvedList::Finder {
 public:
  Finder(ResolvedList& list, Resolver& resolver) : list_(list), resolver_(resolver) {}

  Result<MemoryRecord*> find(const Descriptor& what) {
    if (fits(what)) return last_;
    last_ = nullptr;
    TOWPATH_TRY(RecordPtr found, resolver_.resolve(list_.kind_, what));
    last_ = found.get();
    const RegionDescriptor& region = last_->region;
    device_ = region.device_id;
    begin_ = region.address;
    end_ = region.address + region.length;
    if (is_new(last_)) {
      last_->place_in_list = static_cast<std::uint32_t>(list_.records_.size());
      list_.records_.push_back(std::move(found));
    }
    return last_;
  }
  bool fits(const Descriptor& what) const noexcept {
    return what.device_id == device_ && what.address >= begin_ && what.address <= end_ &&
           what.length <= end_ - what.address && last_ != nullptr;
  }
  /// How many extents in a row fit, `stride` apart, of which `first` does.
  std::uint64_t run_from(const Descriptor& first, std::uint64_t stride) const noexcept {
    return stride == 0 ? UINT64_MAX : (end_ - first.address - first.length) / stride + 1;
  }

 private:
  bool is_new(MemoryRecord* record) { return std::exchange(record->last_list, number_) != number_; }
  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: only that they differ
  }

  const std::uint64_t number_ = next_number();
  ResolvedList& list_;
  Resolver& resolver_;
  MemoryRecord* last_ = nullptr;  // the list holds it
  std::uint64_t device_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

namespace {

Status failed_at(std::uint64_t index, const Status& why) {
  return error(why.code(), cat("descriptor ", index, ": ", why.message()), std::string(why.hint()))
      .because(why.cause());
}

Status past_the_end(const Descriptor& what) {
  return error(Code::out_of_range,
               cat(what.length, " bytes from ", hex(what.address),
                   " go past the end of 64-bit space, or the whole list does"),
               "check address and length");
}

}  // namespace

Result<ResolvedList> ResolvedList::make(const DescriptorView& list, Resolver& resolver) {
  ResolvedList made;
  TOWPATH_TRY(made.assign(list, resolver));
  return made;
}

Status ResolvedList::assign(const DescriptorView& list, Resolver& resolver) {
  clear();
  kind_ = list.kind();
  Finder finder(*this, resolver);
  TOWPATH_TRY(list.list() != nullptr ? resolve_strided(*list.list(), finder)
                                     : resolve_flat(list.plain(), finder));
  TOWPATH_TRY(settle(resolver));
  if (list.list() != nullptr)
    unfold();
  else
    fold();
  finish();
  return {};
}

Status ResolvedList::resolve_strided(const DescriptorList& list, Finder& finder) {
  total_bytes_ = list.total_bytes();
  entries_.reserve(list.entries().size());
  for (std::size_t i = 0; i < list.entries().size(); ++i) {
    const StridedDescriptor& entry = list.entries()[i];
    auto whole = finder.find({entry.address, hull_length(entry), entry.device_id});
    if (whole.ok()) {
      append({entry.address, entry.length, entry.stride, entry.count, *whole});
      continue;
    }
    for (std::uint64_t k = 0, run = 0; k < entry.count; k += run) {  // in several regions, maybe
      const Descriptor extent = entry.at(k);
      auto record = finder.find(extent);
      if (!record.ok()) return failed_at(list.first_indices()[i] + k, record.status());
      run = std::min(finder.run_from(extent, entry.stride), entry.count - k);
      append({extent.address, extent.length, run > 1 ? entry.stride : 0, run, *record});
    }
  }
  return {};
}

void ResolvedList::clear() {
  size_ = total_bytes_ = 0;
  disjoint_ = {};
  generation_ = {};
  flat_.clear();
  entries_.clear();
  first_.clear();
  records_.clear();
}

Status ResolvedList::resolve_flat(std::span<const Descriptor> list, Finder& finder) {
  flat_.resize(list.size());
  std::uint64_t total = 0;
  std::uint64_t all_lengths = 0;
  std::uint32_t record = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Descriptor& what = list[i];
    if (!finder.fits(what)) {
      if (!checked_add(what.address, what.length)) return failed_at(i, past_the_end(what));
      auto found = finder.find(what);
      if (!found.ok()) return failed_at(i, found.status());
      record = (*found)->place_in_list;
    }
    total += what.length;
    if (total < what.length) return failed_at(i, past_the_end(what));
    all_lengths |= what.length;
    flat_[i] = {what.address, static_cast<std::uint32_t>(what.length), record};
  }
  total_bytes_ = total;
  if (all_lengths > UINT32_MAX) widen(list);
  return {};
}

Status ResolvedList::settle(Resolver& resolver) const {
  const std::optional<Resolver::Useless> useless = resolver.settle();
  if (!useless) return {};
  std::uint64_t index = 0;
  for (std::size_t i = 0; i < entry_count() && entry(i).record != useless->record; ++i)
    index += entry(i).count;
  return failed_at(index, useless->why);
}

// Rare: extents of 4 GiB and more.
void ResolvedList::widen(std::span<const Descriptor> list) {
  entries_.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    entries_.push_back({list[i].address, list[i].length, 0, 1, records_[flat_[i].record].get()});
  flat_.clear();
}

namespace {

/// Whether `back` can take `next` in: one more extent, one more step away.
bool extend(ResolvedEntry& back, const ResolvedEntry& next) {
  if (back.record != next.record || back.length != next.length || next.address <= back.address)
    return false;
  const std::uint64_t distance = next.address - back.address;
  if (back.count == 1) {
    back.stride = distance;
  } else if (distance != back.stride * back.count) {
    return false;
  }
  ++back.count;
  return true;
}

/// How many entries the extents would fold to, and whether all to as many extents each.
struct Folded {
  std::size_t entries = 0;
  bool uniform = true;

  void add(std::uint64_t count) {
    if (entries == 0) first_ = count;
    uniform = uniform && count == first_;
    ++entries;
  }
  bool is_worthwhile(std::uint64_t size) const {
    return uniform || entries * kWorthwhileFold <= size;
  }

 private:
  std::uint64_t first_ = 0;
};

}  // namespace

void ResolvedList::append(ResolvedEntry entry) {
  if (entries_.empty() || entry.count != 1 || !extend(entries_.back(), entry))
    entries_.push_back(entry);
}

// Of one entry per extent: counted first, since blocks in any order do not fold, and then stay
// where they are.
void ResolvedList::fold() {
  const std::size_t size = entry_count();
  if (size == 0) return;
  Folded folded;
  ResolvedEntry run = entry(0);
  for (std::size_t i = 1; i < size; ++i) {
    const ResolvedEntry next = entry(i);
    if (extend(run, next)) continue;
    folded.add(run.count);
    run = next;
    const bool hopeless = !folded.uniform && folded.entries * kWorthwhileFold > size;
    if (hopeless) return;
  }
  folded.add(run.count);
  if (folded.entries == size || !folded.is_worthwhile(size)) return;
  std::vector<ResolvedEntry> runs;
  runs.reserve(folded.entries);
  for (std::size_t i = 0; i < size; ++i) {
    if (runs.empty() || !extend(runs.back(), entry(i))) runs.push_back(entry(i));
  }
  entries_ = std::move(runs);
  flat_.clear();
}

// Of strided entries that are too short to be worth a search per index.
void ResolvedList::unfold() {
  Folded folded;
  std::uint64_t size = 0;
  std::uint64_t all_lengths = 0;
  for (const ResolvedEntry& entry : entries_) {
    folded.add(entry.count);
    size += entry.count;
    all_lengths |= entry.length;
  }
  if (folded.entries < size && folded.is_worthwhile(size)) return;
  std::vector<ResolvedEntry> runs = std::move(entries_);
  entries_.clear();
  const bool is_short = all_lengths <= UINT32_MAX;
  if (is_short)
    flat_.reserve(size);
  else
    entries_.reserve(size);
  for (const ResolvedEntry& run : runs) {
    for (std::uint64_t k = 0; k < run.count; ++k) {
      const std::uint64_t address = run.address + k * run.stride;
      if (is_short)
        flat_.push_back(
            {address, static_cast<std::uint32_t>(run.length), run.record->place_in_list});
      else
        entries_.push_back({address, run.length, 0, 1, run.record});
    }
  }
}

void ResolvedList::finish() {
  look_again();
  uniform_count_ = 0;
  size_ = flat_.size();
  bool uniform = !entries_.empty();
  for (const ResolvedEntry& entry : entries_) {
    size_ += entry.count;
    uniform = uniform && entry.count == entries_.front().count;
  }
  if (is_flat()) {
    uniform_count_ = 1;
  } else if (uniform) {
    uniform_count_ = entries_.front().count;
  } else {
    first_.reserve(entries_.size() + 1);
    first_.push_back(0);
    for (const ResolvedEntry& entry : entries_) first_.push_back(first_.back() + entry.count);
  }
}

void ResolvedList::look_again() const {
  InstanceMask know_all = records_.empty() ? 0 : ~InstanceMask{0};
  InstanceMask may_know_all = know_all;
  for (const RecordPtr& record : records_) {
    know_all &= record->instances;
    may_know_all &= record->instances | record->unasked;
  }
  instances_.value.store(know_all, std::memory_order_release);
  open_.value.store(may_know_all & ~know_all, std::memory_order_release);
}

// Not of a stale record: making a transfer finds that, and says to prepare the list again. Threads
// that ask at once all look: one that finds the generation finds the backends left out.
void ResolvedList::leave_out_gone(std::uint64_t generation) const {
  if (generation_.value.load(std::memory_order_acquire) == generation) return;
  InstanceMask gone = 0;
  for (const RecordPtr& record : records_) {
    if (record->own == nullptr) continue;
    InstanceMask without = 0;
    for (std::size_t instance = 0; instance < kMaxInstances; ++instance)
      if (record->own->changes[instance] % 2 != 0) without |= instance_bit(instance);
    if (!record->stale) gone |= without;  // asked last, as it is set first
  }
  if (gone != 0) instances_.value.fetch_and(~gone);
  generation_.value.store(generation, std::memory_order_release);  // pairs with the load above
}

std::size_t ResolvedList::search(std::uint64_t index) const noexcept {
  const auto after = std::ranges::upper_bound(first_, index);
  return static_cast<std::size_t>(after - first_.begin()) - 1;
}

bool ResolvedList::is_disjoint() const {
  Answer answer = disjoint_.value.load(std::memory_order_relaxed);
  if (answer == Answer::none) {
    answer = prove_disjoint() ? Answer::yes : Answer::no;
    disjoint_.value.store(answer, std::memory_order_relaxed);
  }
  return answer == Answer::yes;
}

// Extents of different devices never overlap; the proof is given up when there are several.
bool ResolvedList::lies_on_one_device() const {
  return std::ranges::all_of(records_, [&](const RecordPtr& record) {
    return record->region.device_id == records_.front()->region.device_id;
  });
}

// Proven when the hulls of all entries lie apart, or when all entries share one stride and their
// starts, taken modulo that stride, lie apart (layers interleaved block by block).
bool ResolvedList::prove_disjoint() const {
  if (!lies_on_one_device()) return false;
  if (is_flat()) {
    const auto at = [&](std::size_t i) {
      return Extent{flat_[i].address, flat_[i].address + flat_[i].length};
    };
    if (const auto known = any_overlap_on_grid(flat_.size(), at)) return !*known;
  }
  std::vector<Extent> hulls;
  std::vector<Extent> residues;
  hulls.reserve(entry_count());
  const std::uint64_t stride = entries_.empty() ? 0 : entries_.front().stride;
  bool one_stride = stride != 0;
  for (std::size_t i = 0; i < entry_count(); ++i) {
    const ResolvedEntry entry = this->entry(i);
    if (entry.length == 0) continue;
    if (entry.count > 1 && entry.stride < entry.length) return false;
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
