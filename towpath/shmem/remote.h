// Remote: the way to PEs on other hosts, whose memory loads and stores do not reach.
//
// The seam below World: PEs of one host never come here. Each host has a job of its own (job.h),
// with the records of all PEs and the heaps of its own. An engine carries what is done to heaps
// elsewhere, and keeps what the records of this host say of PEs elsewhere: that they have begun,
// have arrived at a gathering, have ended. So barriers, waits and deaths are examined here as
// those of neighbours are.
//
// Invariants: puts and posts to one PE take place in the order in which they were called. A PE that
// is lost is marked in the records, and whatever waits for it here ends.
// Thread: any, but for start() and close().
#pragma once

#include <cstdint>
#include <span>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/shmem/call.h>
#include <towpath/shmem/change.h>
#include <towpath/shmem/job.h>

namespace towpath::shmem {

/// A member of a team came to a gathering: what other hosts must hear.
struct ArrivalNews {
  std::uint32_t slot = 0;
  std::uint32_t member = 0;
  std::uint32_t members = 0;
  std::uint32_t round = 0;  ///< of the member's own count
  Call call;
  std::uint64_t note = 0;
};

class Remote {
 public:
  /// What this PE shares with its neighbours; outlives the engine.
  struct Here {
    const JobView* job = nullptr;
    std::uint32_t my_pe = 0;
    ByteSpan heap;
  };

  virtual ~Remote() = default;
  /// Once, before all else: from now on the others are notified that this PE runs.
  virtual Status start(const Here& here) = 0;

  // Ranges were checked. Errors: peer_lost, exhausted.

  /// `bytes` may be reused; they are in place after quiet(). Of an aligned word of up to 8 bytes
  /// nobody sees a part; longer ones come in parts that end anywhere: see is_whole().
  virtual Status put(RemoteAddress to, ConstByteSpan bytes) = 0;
  /// Errors also: out_of_range (`into` cannot be written).
  virtual Status get(RemoteAddress from, ByteSpan into) = 0;
  /// Whether `condition`, which looks at `element` of this PE's heap, holds while no put has
  /// brought a part of that and not all. Cost: a few loads, unless a long put to there is under
  /// way.
  virtual bool is_whole(ConstByteSpan element, const Condition& condition) noexcept = 0;
  /// The value from before.
  virtual Result<std::uint64_t> change(RemoteAddress at, const Change& change) = 0;
  /// As change(), without waiting: it has taken place after quiet().
  virtual Status post(RemoteAddress at, const Change& change) = 0;

  /// Puts and posts of this PE that were called before are in place, but for those to PEs that are
  /// lost.
  virtual void quiet() noexcept = 0;

  /// Notifies the hosts of the team about it; `doors` are its first members there.
  virtual Status arrive(const ArrivalNews& news, std::span<const std::uint32_t> doors) = 0;

  /// As take_team_slot() and leave_team_slot() (team_slots.h), where PE 0 is.
  virtual Result<std::uint64_t> take_slot() = 0;
  virtual void leave_slot(std::uint32_t slot, std::uint32_t members) noexcept = 0;

  /// As JobView::end_with(), on all other hosts. Takes bounded time.
  virtual void end_all(int status) noexcept = 0;

  /// The last: this PE has ended so, the others are notified. Takes bounded time.
  virtual void close(PeState ended) noexcept = 0;
};

}  // namespace towpath::shmem
