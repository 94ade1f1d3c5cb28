// MemoryRecord: one registered region, ours or a peer's, and what each backend made of it.
//
// Equal registrations share a record and count, each in the backends that took it. The record's
// memory in a backend goes when the last of them there goes, and may come back with a later one:
// `changes` tells what was prepared over the old one. When no backend has it any more the record is
// stale, for good: a later registration makes a new one.
// Thread: `region` immutable; the rest is guarded by the agent's control mutex. `memory` is set
// before its instance's bit stands in any prepared list, and dropped under its instance's mutex
// besides: who holds that and finds that the instance has the record may use it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/memory/region.h>

namespace towpath::agent {

/// Backends per agent. A set of them is a InstanceMask; bit i stands for the i-th created.
inline constexpr std::size_t kMaxInstances = 16;
using InstanceMask = std::uint32_t;

constexpr InstanceMask instance_bit(std::size_t instance) noexcept {
  return InstanceMask{1} << instance;
}

/// What backends give peers for one region, by instance: in place, since a pool is thousands of
/// regions, unless there are more of them than usual.
class InstanceKeys {
 public:
  void add(std::size_t instance, ConstByteSpan key);
  void remove(std::size_t instance);
  /// Calls `visit(instance, key)` for each, in the order in which they were added.
  template <typename Visit>
  void each(Visit&& visit) const {
    const ConstByteSpan all =
        more_.empty() ? ConstByteSpan(few_).first(size_) : ConstByteSpan(more_);
    for (std::size_t at = 0; at < all.size();) {
      Head head;
      std::memcpy(&head, &all[at], sizeof head);
      at += sizeof head;
      visit(std::size_t{head.instance}, all.subspan(at, head.size_bytes));
      at += head.size_bytes;
    }
  }
  /// Empty: it has none.
  ConstByteSpan of(std::size_t instance) const noexcept {
    ConstByteSpan found;
    each([&](std::size_t whose, ConstByteSpan key) {
      if (whose == instance) found = key;
    });
    return found;
  }

 private:
  struct Head {
    std::uint32_t instance = 0;
    std::uint32_t size_bytes = 0;
  };

  // Of each: a Head, and the key.
  static constexpr std::size_t kUsualBytes = 128;  // two keys
  Bytes more_;  // all of them, or else they are the first size_ of few_:
  std::uint32_t size_ = 0;
  std::array<std::byte, kUsualBytes> few_;
};

inline void InstanceKeys::add(std::size_t instance, ConstByteSpan key) {
  const Head head{static_cast<std::uint32_t>(instance), static_cast<std::uint32_t>(key.size())};
  const auto raw = std::as_bytes(std::span(&head, 1));
  if (more_.empty() && size_ + raw.size() + key.size() <= kUsualBytes) {
    std::memcpy(&few_[size_], raw.data(), raw.size());
    if (!key.empty()) std::memcpy(&few_[size_] + raw.size(), key.data(), key.size());
    size_ += static_cast<std::uint32_t>(raw.size() + key.size());
    return;
  }
  if (more_.empty()) more_.assign(few_.begin(), few_.begin() + size_);
  more_.insert(more_.end(), raw.begin(), raw.end());
  more_.insert(more_.end(), key.begin(), key.end());
}

inline void InstanceKeys::remove(std::size_t instance) {
  std::byte* const all = more_.empty() ? few_.data() : more_.data();
  std::size_t kept = 0;
  each([&](std::size_t whose, ConstByteSpan key) {  // those that stay move towards the front
    if (whose == instance) return;
    const Head head{static_cast<std::uint32_t>(whose), static_cast<std::uint32_t>(key.size())};
    std::memcpy(all + kept, &head, sizeof head);
    kept += sizeof head;
    if (!key.empty()) std::memmove(all + kept, key.data(), key.size());
    kept += key.size();
  });
  size_ = more_.empty() ? static_cast<std::uint32_t>(kept) : 0;
  if (!more_.empty()) more_.resize(kept);
}

/// What backends made of one region, by instance. Agents have few backends, mostly.
class InstanceMemories {
 public:
  std::unique_ptr<backend::Memory>& operator[](std::size_t instance) {
    if (instance < kFew) return few_[instance];
    if (more_ == nullptr) more_ = std::make_unique<More>();
    return (*more_)[instance - kFew];
  }
  void drop(std::size_t instance) noexcept {
    if (instance < kFew)
      few_[instance].reset();
    else if (more_ != nullptr)
      (*more_)[instance - kFew].reset();
  }
  /// Null: none.
  backend::Memory* at(std::size_t instance) const noexcept {
    if (instance < kFew) return few_[instance].get();
    return more_ == nullptr ? nullptr : (*more_)[instance - kFew].get();
  }
  bool any() const noexcept {
    const auto is_there = [](const auto& memory) { return memory != nullptr; };
    return std::ranges::any_of(few_, is_there) ||
           (more_ != nullptr && std::ranges::any_of(*more_, is_there));
  }

 private:
  static constexpr std::size_t kFew = 4;
  using More = std::array<std::unique_ptr<backend::Memory>, kMaxInstances - kFew>;
  std::array<std::unique_ptr<backend::Memory>, kFew> few_;
  std::unique_ptr<More> more_;
};

/// Only of a region of our own.
struct OwnPart {
  std::array<std::uint32_t, kMaxInstances> references{};  ///< registrations per instance
  /// How often each instance let go of the record, or took it again: odd while it is without. It
  /// becomes odd under the control mutex, and even under the instance's besides.
  std::array<std::atomic<std::uint32_t>, kMaxInstances> changes{};
  InstanceMask leaving = 0;  ///< instances that let go of it, whose memory has yet to be dropped
  /// Of registrations that were let go of, but never quiesced. Else they hold the bytes.
  std::vector<memory::SharedRegion> owners;
  static constexpr std::size_t kNoRow = SIZE_MAX;
  std::size_t row = kNoRow;  ///< by which metadata names it (metadata_encoder.h)
  InstanceKeys keys;         ///< of the instances in `offered`
};

/// What is examined for each record of a list comes first, side by side.
struct MemoryRecord {
  /// No backend has it any more: prepare again. Set under the control mutex, read under an
  /// instance's.
  std::atomic<bool> stale{false};
  InstanceMask instances = 0;  ///< backends in which `memory` stands
  InstanceMask offered = 0;    ///< instances that metadata reports a key of
  InstanceMask unasked =
      0;  ///< a peer's: of those, the instances that have yet to import it, if need be
  std::uint64_t last_list = 0;  ///< the list that found it last, by its number (resolved_list.cc)
  std::uint32_t place_in_list = 0;  ///< in that one's records
  InstanceMemories memory;
  RegionDescriptor region;
  OwnPart* own = nullptr;  ///< ours: it lies behind the record (OwnRecords); null: a peer's
  std::vector<std::pair<std::uint32_t, Status>> refusals;  ///< a peer's: instance, why not imported

  /// How often the instance let go of it or took it again; none: it is without.
  std::optional<std::uint64_t> changes_in(std::size_t instance) const noexcept {
    if (stale) return std::nullopt;
    const std::uint32_t changes = own == nullptr ? 0 : own->changes[instance].load();
    return changes % 2 == 0 ? std::optional<std::uint64_t>(changes) : std::nullopt;
  }
  /// Whether a registration of the same region may share it. Not while memory of it is dropped:
  /// that would have to stand beside its successor.
  bool may_be_joined() const noexcept { return !stale && (own == nullptr || own->leaving == 0); }
  /// Of a peer's, why the instance could not import it; null: it was not asked, or did.
  const Status* refusal_of(std::size_t instance) const noexcept {
    for (const auto& [whose, why] : refusals) {
      if (whose == instance) return &why;
    }
    return nullptr;
  }
};

using RecordPtr = std::shared_ptr<MemoryRecord>;

/// Records of regions of our own that are registered together. They lie side by side, and go when
/// none of them is used any more.
class OwnRecords {
 public:
  explicit OwnRecords(std::size_t count) : all_(std::make_shared_for_overwrite<One[]>(count)) {
    for (std::size_t i = 0; i < count; ++i) all_[i].record.own = &all_[i].part;
  }
  RecordPtr at(std::size_t index) const { return {all_, &all_[index].record}; }

 private:
  struct One {
    MemoryRecord record;
    OwnPart part;
  };
  std::shared_ptr<One[]> all_;
};

}  // namespace towpath::agent
