#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include <towpath/agent/region_index.h>

namespace towpath::agent {
namespace {

auto place_of(const RegionDescriptor& region) {
  return std::tuple(region.kind, region.device_id, region.address);
}

auto order_of(const RegionDescriptor& region) {
  return std::tuple(region.kind, region.device_id, region.address, region.length, region.fd,
                    region.fd_offset, std::string_view(region.key));
}

}  // namespace

bool comes_before(const RegionDescriptor& a, const RegionDescriptor& b) {
  return order_of(a) < order_of(b);
}

void RegionIndex::add(RecordPtr record) {
  records_.push_back(std::move(record));
  leaves_ = 0;
}

void RegionIndex::remove(const MemoryRecord* record) {
  const auto found = std::ranges::find(records_, record, &RecordPtr::get);
  if (found == records_.end()) return;
  if (static_cast<std::size_t>(found - records_.begin()) < sorted_) --sorted_;
  records_.erase(found);
  leaves_ = 0;
}

void RegionIndex::clear() noexcept {
  records_.clear();
  sorted_ = 0;
  leaves_ = 0;
}

void RegionIndex::sort() {
  if (sorted_ == records_.size()) return;
  const auto before = [&](const RecordPtr& a, const RecordPtr& b) {
    ++steps_;
    return comes_before(a->region, b->region);
  };
  const auto middle = records_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  std::stable_sort(middle, records_.end(), before);
  std::inplace_merge(records_.begin(), middle, records_.end(), before);
  sorted_ = records_.size();
}

void RegionIndex::note_ends() {
  if (leaves_ != 0 || records_.empty()) return;
  leaves_ = std::bit_ceil(records_.size());
  ends_.assign(2 * leaves_, 0);
  for (std::size_t i = 0; i < records_.size(); ++i)
    ends_[leaves_ + i] = records_[i]->region.address + records_[i]->region.length;
  for (std::size_t i = leaves_ - 1; i > 0; --i) ends_[i] = std::max(ends_[2 * i], ends_[2 * i + 1]);
  steps_ += ends_.size();
}

RegionIndex::Range RegionIndex::starting_before(MemoryKind kind, const Descriptor& what) {
  const auto place = [&](const RecordPtr& record) {
    ++steps_;
    return place_of(record->region);
  };
  const auto first = std::tuple(kind, what.device_id, std::uint64_t{0});
  const auto last = std::tuple(kind, what.device_id, what.address);
  const auto begin = std::ranges::lower_bound(records_, first, std::less<>(), place);
  const auto end = std::ranges::upper_bound(begin, records_.end(), last, std::less<>(), place);
  return {static_cast<std::size_t>(begin - records_.begin()),
          static_cast<std::size_t>(end - records_.begin())};
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

RecordPtr RegionIndex::find(MemoryKind kind, const Descriptor& what) {
  sort();
  note_ends();
  Range range = starting_before(kind, what);
  while (const auto found = last_reaching(range, what.address + what.length)) {
    const RecordPtr& record = records_[*found];
    if (!record->stale && record->region.covers(what)) return record;
    range.end = *found;
  }
  return nullptr;
}

RecordPtr RegionIndex::find_exactly(const RegionDescriptor& region) {
  sort();
  auto found = std::ranges::lower_bound(
      records_, region,
      [&](const RegionDescriptor& a, const RegionDescriptor& b) {
        ++steps_;
        return comes_before(a, b);
      },
      [](const RecordPtr& record) -> const RegionDescriptor& { return record->region; });
  for (; found != records_.end() && !comes_before(region, (*found)->region); ++found, ++steps_) {
    if (!(*found)->stale) return *found;
  }
  return nullptr;
}

}  // namespace towpath::agent
