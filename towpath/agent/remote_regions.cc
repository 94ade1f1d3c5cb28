#include <algorithm>

#include <towpath/agent/remote_regions.h>

namespace towpath::agent {
namespace {

constexpr std::uint32_t kNowhere = kMaxInstances;

/// What an entry cannot say of a region.
bool needs_record(const RegionDescriptor& region) { return !region.key.empty(); }

}  // namespace

// ---- Keys

const RemoteRegions::Shape& RemoteRegions::shape_of(std::uint64_t row) const {
  if (shapes_.size() == 1) return shapes_.front();
  return *std::prev(std::ranges::upper_bound(shapes_, row, {}, &Shape::first_row));
}

ConstByteSpan RemoteRegions::bytes_of(const Shape& shape, std::uint64_t row) const {
  const std::uint64_t begin = shape.begin + (row - shape.first_row) * shape.row_bytes;
  return ConstByteSpan(key_bytes_).subspan(begin, shape.row_bytes);
}

RemoteRegions::Keys RemoteRegions::keys_of(std::uint64_t row) const {
  const Shape& shape = shape_of(row);
  ConstByteSpan rest = bytes_of(shape, row);
  Keys keys;
  for (const auto& [instance, size] : shape.keys) {
    if (instance != kNowhere) keys.emplace_back(instance, rest.first(size));
    rest = rest.subspan(size);
  }
  return keys;
}

bool RemoteRegions::has_keys_of(const RemoteRegions& older, std::uint64_t older_row,
                                std::uint64_t row) const {
  const Shape& mine = shape_of(row);
  const Shape& theirs = older.shape_of(older_row);
  if (mine.keys == theirs.keys && mine.all_known)  // as almost always
    return std::ranges::equal(bytes_of(mine, row), older.bytes_of(theirs, older_row));
  const Keys keys = keys_of(row);
  return std::ranges::all_of(older.keys_of(older_row), [&](const auto& before) {
    return std::ranges::any_of(keys, [&](const auto& key) {
      return key.first == before.first && std::ranges::equal(key.second, before.second);
    });
  });
}

template <typename KeyList>
std::uint64_t RemoteRegions::add_row(const KeyList& keys) {
  const auto is_alike = [](const auto& key, const auto& size) {
    return key.first == size.first && key.second.size() == size.second;
  };
  if (shapes_.empty() || !std::ranges::equal(keys, shapes_.back().keys, is_alike)) {
    Shape shape{.first_row = rows_, .begin = key_bytes_.size(), .row_bytes = 0, .keys = {}};
    for (const auto& [number, key] : keys) {
      shape.keys.emplace_back(number, static_cast<std::uint32_t>(key.size()));
      shape.row_bytes += key.size();
    }
    shapes_.push_back(std::move(shape));
  }
  for (const auto& [number, key] : keys)
    key_bytes_.insert(key_bytes_.end(), key.begin(), key.end());
  return rows_++;
}

// ---- Regions

void RemoteRegions::reserve(std::size_t regions) {
  const std::size_t row_bytes = shapes_.empty() ? 0 : shapes_.back().row_bytes;
  index_.reserve(regions);
  key_bytes_.reserve(std::min<std::size_t>(regions * row_bytes, kMaxMetadataBytes));
}

void RemoteRegions::add(const AgentMetadata::Region& advertised) {
  RegionEntry entry = RegionEntry::of(advertised.region);
  if (needs_record(advertised.region)) {
    entry.record = std::make_shared<MemoryRecord>();
    entry.record->region = advertised.region;
  }
  entry.row = add_row(advertised.keys);
  index_.add(std::move(entry));
}

void RemoteRegions::finish(std::span<const std::size_t> instances, InstanceMask reachable) {
  reachable_ = reachable;
  for (Shape& shape : shapes_) {
    for (auto& [number, size] : shape.keys) {
      number = static_cast<std::uint32_t>(instances[number]);
      shape.all_known = shape.all_known && number != kNowhere;
    }
  }
  index_.drop_repeats();
  for (RegionEntry& entry : index_.entries()) {
    if (entry.record) offer(entry);
  }
}

/// To its record, which may stand since an older metadata.
void RemoteRegions::offer(const RegionEntry& entry) const {
  InstanceMask offered = 0;
  for (const auto& [instance, size] : shape_of(entry.row).keys) {
    if (instance != kNowhere) offered |= instance_bit(instance) & reachable_;
  }
  entry.record->unasked |= offered & ~entry.record->offered;
  entry.record->offered |= offered;
}

std::vector<RecordPtr> RemoteRegions::update(RemoteRegions newer, bool partial) {
  std::vector<bool> advertised_again(size());
  std::vector<RecordPtr> gone;
  const auto let_go = [&](const RegionEntry& before) {
    if (!before.record) return;
    before.record->stale = true;
    gone.push_back(before.record);
  };
  if (size() > 0) {
    for (RegionEntry& entry : newer.index_.entries()) {
      RegionEntry* const before = index_.find_exactly(entry);
      if (before == nullptr) continue;
      advertised_again[static_cast<std::size_t>(before - index_.entries().data())] = true;
      if (!newer.has_keys_of(*this, before->row, entry.row)) {
        let_go(*before);
        continue;
      }
      entry.record = before->record;
      if (entry.record) newer.offer(entry);
    }
  }
  for (std::size_t i = 0; i < advertised_again.size(); ++i) {
    if (advertised_again[i]) continue;
    RegionEntry& before = index_.entries()[i];
    if (!partial) {
      let_go(before);
      continue;
    }
    before.row = newer.add_row(keys_of(before.row));
    newer.index_.add(std::move(before));
  }
  *this = std::move(newer);
  return gone;
}

// Many at once, and more each time: a list asks for many.
RecordPtr RemoteRegions::make_record(const RegionEntry& entry) {
  constexpr std::size_t kMost = 64;
  if (spare_ == 0) {
    slab_size_ = std::clamp(2 * slab_size_, std::size_t{1}, kMost);
    slab_ = std::make_unique<MemoryRecord[]>(slab_size_);
    spare_ = slab_size_;
  }
  MemoryRecord& record = slab_[static_cast<std::ptrdiff_t>(slab_size_ - spare_--)];
  record.region.kind = entry.kind;
  record.region.address = entry.address;
  record.region.length = entry.length;
  record.region.device_id = entry.device_id;
  return {slab_, &record};
}

RegionEntry* RemoteRegions::find(MemoryKind kind, const Descriptor& what) {
  RegionEntry* const found = index_.find(kind, what);
  if (found != nullptr && !found->record) {
    found->record = make_record(*found);
    offer(*found);
  }
  return found;
}

const RegionEntry* RemoteRegions::entry_of(const MemoryRecord& record) {
  const RegionEntry* const found = index_.find_exactly(record.region);
  return found != nullptr && found->record.get() == &record ? found : nullptr;
}

ConstByteSpan RemoteRegions::key_of(const RegionEntry& entry, std::size_t instance) const {
  const Shape& shape = shape_of(entry.row);
  ConstByteSpan rest = bytes_of(shape, entry.row);
  for (const auto& [whose, size] : shape.keys) {
    if (whose == instance) return rest.first(size);
    rest = rest.subspan(size);
  }
  return {};
}

}  // namespace towpath::agent
