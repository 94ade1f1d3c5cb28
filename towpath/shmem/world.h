// World: one PE's view of its job. Below it lies shared memory, above it what users call.
//
// It maps the control segment and the heaps, reports where a byte of another PE lies, waits, and
// sees deaths. It has no thread: who waits looks, at the end of every short sleep, whether those
// that it waits for still live. What needs all PEs is in gather.h and allocation.h.
//
// Addresses: the own heap lies at kSymmetricBase, if nothing else does, so that an address in it is
// the same on all PEs; otherwise, and for several PEs in one process, anywhere. Either way
// `shift(pe)` added to a local address is the same place in the heap of `pe`.
// Thread: any, but for what says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/memory/host_pages.h>
#include <towpath/run/deadline.h>
#include <towpath/shmem/bootstrap.h>
#include <towpath/shmem/change.h>

namespace towpath::shmem {

// What lies below it. Calls that are declared `inline`, and templates without a body, are those of
// the library itself: world_parts.h has them.
template <class Words>
class BasicEventCount;
struct SharedWords;
enum class CallKind : std::uint32_t;
class Heap;
class JobView;
class Remote;
struct TeamView;

/// Free under ASan and TSan too, and below all that the kernel places by itself.
inline constexpr std::uint64_t kSymmetricBase = 0x7e80'0000'0000;

/// Where a search for one of several elements begins: behind the one that it found last. So a
/// series of searches of one list finds each element that is as wanted, and none starves.
///
/// It knows lists by a key, and remembers as many as it has rows. Lists that take each other's row
/// begin at places that are spread evenly over the list instead. Thread: any.
class FairStart {
 public:
  /// The first place for which `holds(place)`, from the start of this list on, and around its end.
  template <typename Holds>
  std::optional<std::size_t> find(std::uint64_t key, std::size_t count, const Holds& holds) {
    if (count == 0) return std::nullopt;
    const std::uint64_t mixed = key * kGolden;
    std::atomic<std::uint64_t>& row = rows_[mixed >> (64 - kRowBits)];
    const std::uint64_t tag = mixed << kRowBits >> 32U << 32U;
    std::size_t place = start_of(row.load(std::memory_order_relaxed), tag) % count;
    for (std::size_t step = 0; step < count; ++step, place = place + 1 < count ? place + 1 : 0) {
      if (!holds(place)) continue;
      row.store(tag | ((place + 1) & kPlaceMask), std::memory_order_relaxed);
      return place;
    }
    return std::nullopt;
  }

 private:
  static constexpr unsigned kRowBits = 6;
  static constexpr std::uint64_t kPlaceMask = 0xffff'ffff;
  static constexpr std::uint64_t kGolden = 0x9e37'79b9'7f4a'7c15;  // odd, and of no pattern

  std::uint64_t start_of(std::uint64_t row, std::uint64_t tag) noexcept {
    if ((row & ~kPlaceMask) == tag) return row & kPlaceMask;
    return unknown_.fetch_add(1, std::memory_order_relaxed) * kGolden >> 32U;
  }

  std::array<std::atomic<std::uint64_t>, 1U << kRowBits> rows_{};  // high half: whose; low: place
  std::atomic<std::uint64_t> unknown_{0};
};

class World {
  struct Private {};

 public:
  static Result<std::shared_ptr<World>> open(Bootstrap bootstrap, const WorldOptions& options);
  World(Private, JobView job, const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  std::uint32_t my_pe() const noexcept { return my_pe_; }
  std::uint32_t pes() const noexcept { return pes_; }
  /// As pes(), but 0 once finalized: one comparison shows a wrong PE and a wrong moment.
  std::uint32_t open_pes() const noexcept { return open_pes_.load(std::memory_order_relaxed); }
  bool has_same_addresses() const noexcept { return address_of(heap_base()) == kSymmetricBase; }

  std::byte* heap_base() const noexcept { return heap_base_; }
  std::uint64_t heap_bytes() const noexcept { return heap_bytes_; }
  /// In which pages the own heap lies, and where: what was had of what was asked for.
  const memory::Placement& heap_placement() const noexcept;
  int heap_fd() const noexcept;
  /// What to add to a local heap address; kFar for a PE of another host. `pe` < pes().
  std::uint64_t shift(std::uint32_t pe) const noexcept { return shifts_[pe]; }
  static constexpr std::uint64_t kFar = ~std::uint64_t{0};  // no shift is odd
  /// Where the heap of a PE of this host lies here.
  std::byte* heap_of(std::uint32_t pe) const noexcept {
    return reinterpret_cast<std::byte*>(address_of(heap_base_) + shifts_[pe]);
  }
  bool is_here(std::uint32_t pe) const noexcept { return shifts_[pe] != kFar; }

  /// The way to the others; only when there are some.
  inline Remote& remote() const noexcept;
  /// Of these PEs, the first on each other host.
  std::vector<std::uint32_t> doors_to(std::span<const std::int32_t> pes) const;

  // Bytes and words of any PE's heap, wherever it is; ranges were checked. Errors: Remote's, and
  // not_ready (a forked child reaches no other host: the connections are the PE's).

  Status read(RemoteAddress from, ByteSpan into) const;
  Status write(RemoteAddress to, ConstByteSpan bytes) const;
  Result<std::uint64_t> change(RemoteAddress at, const Change& change) const;
  /// As change(); what it was is not asked.
  Status post(RemoteAddress at, const Change& change) const;
  /// Puts and posts to other hosts are in place.
  void quiet_far() const noexcept {
    if (has_others_) quiet_remote();
  }

  /// After a write into the heap of `pe`: wakes who sleeps there. Sleepers that are just lying down
  /// may be missed unless a full fence (an atomic operation) lies between; they look again soon.
  /// For a PE of another host this is nobody: there the engine does it.
  void nudge(std::uint32_t pe) const noexcept {
    if (sleepers_of(pe).load() != 0) [[unlikely]]
      ring(pe);
  }

  /// Waits until `ready()`; looks first, then sleeps on `bell`. Before giving up it looks once
  /// more. Errors: peer_lost (one of `awaited` ended), timed_out.
  template <typename Ready>
  Status wait(BasicEventCount<SharedWords>& event_count, const Ready& ready,
              std::span<const std::int32_t> awaited);
  /// Whether `holds()`, which is true of an element of the own heap, is so of the whole of it: long
  /// puts from other hosts come in parts.
  template <typename Holds>
  bool is_whole(ConstByteSpan element, const Holds& holds) const {
    return !has_others_ || is_whole_far(element, Condition::of(holds));
  }
  /// Of searches for one of several elements in the own heap.
  FairStart& fair_start() noexcept { return fair_start_; }
  /// For something in the own heap that any PE may write.
  template <typename Ready>
  Status wait_for_write(const Ready& ready) {
    if (run::look_for(ready, looks_)) return {};
    return wait_longer(Condition::of(ready));
  }
  /// The same in a call of another kind than a wait.
  template <typename Ready>
  Status wait_for_write(CallKind kind, const Ready& ready);

  /// While it lives, others that wait for this PE see what it is doing.
  class Doing;

  /// ok, or peer_lost with those of them that have ended. Cost: a load unless somebody has; with
  /// `look` a system call each.
  Status lost_among(std::span<const std::int32_t> pes, bool look) const;
  /// PEs that have ended, as far as is known.
  std::vector<int> losses() const;
  /// Those that are lost now no longer end waits for writes. Not beside such waits.
  void forget_losses();
  /// "PE 3 has not come: it is in barrier of team 2".
  std::string whereabouts(std::span<const std::int32_t> awaited) const;

  /// ok, or why a PE, or this moment, is wrong.
  Status check_pe(std::int64_t pe) const;
  Status check_open() const;
  /// ok, or peer_lost: the others have given this PE up. Cost: a load.
  inline Status check_mine() const;

  inline const JobView& job() const noexcept;
  /// One thread at a time uses what follows: it belongs to the calls that need all PEs.
  inline TeamView& team(std::uint32_t slot) noexcept;
  inline Heap& heap() noexcept;
  inline std::vector<std::atomic<std::uint64_t>>& released() noexcept;

  /// Of work in a stream, which nobody waits for: the first failure stays until it is taken.
  void keep_stream_failure(const Status& status);
  Status take_stream_failure();

  /// Asks whoever started the PEs, on all hosts, to end them with this status.
  void end_all(int status) const noexcept;
  /// Came to the end with all others; further calls fail.
  void finish() noexcept;
  /// The same alone, unless it has finished: others that wait for this PE are notified.
  void leave() noexcept;
  /// Whether this process is a forked child of the PE: it has the memory, and is no PE. What it
  /// ends is not the PE, and it meets nobody: gather() refuses, finish() and leave() do nothing.
  bool is_inherited() const noexcept;
  /// ok, or not_ready: in such a child.
  Status check_process() const;

 private:
  struct Parts;
  static constexpr std::size_t kRecordBytes = 4224;  // of a PeRecord

  /// A word of its record (PeRecord): how many sleep on its event count.
  const std::atomic<std::uint32_t>& sleepers_of(std::uint32_t pe) const noexcept {
    return *reinterpret_cast<const std::atomic<std::uint32_t>*>(sleepers_ + pe * kRecordBytes);
  }
  void ring(std::uint32_t pe) const noexcept;
  void quiet_remote() const noexcept;
  bool is_whole_far(ConstByteSpan element, const Condition& holds) const;
  Status wait_longer(const Condition& ready);

  Status map_heaps(JobFiles files, const HeapPages& pages);
  Status meet();
  Status watch_others();
  Status wait_asleep(BasicEventCount<SharedWords>& event_count, const Condition& ready,
                     std::span<const std::int32_t> awaited);
  bool has_ended(std::uint32_t pe, bool look) const;
  bool is_stopped(std::uint32_t pe) const;
  Status given_up() const;

  const std::unique_ptr<Parts> parts_;
  // What puts, gets and waits look at:
  const std::uint32_t pes_;
  std::uint32_t my_pe_ = 0;
  std::atomic<std::uint32_t> open_pes_{0};
  std::byte* heap_base_ = nullptr;
  const std::uint64_t heap_bytes_;
  std::vector<std::uint64_t> shifts_;
  const std::byte* const sleepers_;  // of PE 0
  const run::Looks looks_;
  bool has_others_ = false;  // on other hosts
  // Searches write it: not into the line of what puts look at.
  alignas(64) FairStart fair_start_;
};

}  // namespace towpath::shmem
