// Job: the shared memory of the PEs of one host: a control segment, and a heap for each PE.
//
// All are sealed memfds: they have no name, so nothing is left behind when the last PE ends, in
// whatever way. The launcher makes them and lets its children inherit them; PEs that were started
// separately get them over a socket (unique_id.h). docs/formats/shmem_job.md draws the segment.
// Invariants: the layout follows from the number of PEs alone. Thread: JobView any.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/shmem/barrier.h>
#include <towpath/shmem/bootstrap.h>
#include <towpath/shmem/call.h>
#include <towpath/sys/mapping.h>

namespace towpath::shmem {

inline constexpr std::uint32_t kMaxPes = 1024;
inline constexpr std::uint32_t kTeamSlots = 1024;    ///< teams at a time, with the predefined ones
inline constexpr std::uint32_t kBlockSlots = 16384;  ///< symmetric blocks at a time

enum class PeState : std::uint32_t {
  absent = 0,  ///< has not begun
  running = 1,
  finalized = 2,  ///< came to the end with all others
  left = 3,       ///< let go of its context without the others
  lost = 4,       ///< its process ended
  stopped = 5,    ///< a signal stopped it, and the others have given it up
};

/// What is known of one PE. Written by its own process, but for `state`.
struct PeRecord {
  alignas(64) std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> pid;    // of one elsewhere: written by each neighbour that hears of it
  std::uint64_t start_time;          // with the pid: which process
  std::atomic<std::uint32_t> doing;  // a CallKind
  std::atomic<std::uint32_t> in_team;  // slot of the team that it does it with
  std::atomic<std::uint32_t> released_any[2];
  alignas(64) EventCount event_count;  // rung when somebody wrote into its heap and it sleeps
  /// Blocks that this PE needs no longer, as of its last two allocations.
  alignas(64) std::uint64_t released[2][kBlockSlots / 64];
};

/// What one member says when it arrives; two of them, so that a round can be read while the next
/// one is entered.
struct alignas(64) MemberLine {
  Call call;
  std::uint64_t note;  // differs between members: a count, a slot
  std::atomic<std::uint32_t>
      arrived;  // the gathering's count of rounds, with the one that this is of
};
static_assert(sizeof(MemberLine) == 64);

struct TeamSlot {
  Barrier barrier;
  alignas(64) std::atomic<std::uint32_t> in_use;
  std::atomic<std::uint32_t> gone;  // members that have destroyed it
};

struct JobHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t pes;
  std::uint64_t heap_bytes;
  std::uint64_t heap_page_bytes;                  // of reserved huge pages; 0: ordinary ones
  std::uint32_t wants_huge_pages;                 // transparent ones, of each mapping
  alignas(64) std::atomic<std::uint32_t> losses;  // PEs that are lost or left
  std::atomic<std::uint32_t> ends_with;  // 1 + the status that a PE wants the job to end with
};

/// The control segment, mapped.
class JobView {
 public:
  /// Errors: corrupt (not a job's segment), unsupported (another version), or Mapping::of_file's.
  static Result<JobView> map(int control_fd);

  JobHeader& header() const noexcept { return *at<JobHeader>(0); }
  std::uint32_t pes() const noexcept { return pes_; }
  PeRecord& pe(std::uint32_t pe) const noexcept {
    return *at<PeRecord>(kPesOffset + pe * sizeof(PeRecord));
  }
  TeamSlot& team(std::uint32_t slot) const noexcept {
    return *at<TeamSlot>(kPesOffset + pes_ * sizeof(PeRecord) + slot * team_bytes(pes_));
  }
  MemberLine& line(std::uint32_t slot, std::uint32_t member, std::uint32_t parity) const noexcept {
    auto* lines = reinterpret_cast<MemberLine*>(&team(slot) + 1);
    return lines[2 * member + parity];
  }

  /// Wakes everyone, wherever they sleep: a PE was lost.
  void ring_all() const noexcept;
  /// Marks a running PE as lost or left, once, and wakes everyone. Thread: any process.
  void mark(std::uint32_t pe, PeState ended) const noexcept;

  /// Asks whoever started the PEs to end them all; the first one who asks says the status.
  void end_with(int status) const noexcept;
  /// The status asked for, if anybody did.
  std::optional<int> wanted_end() const noexcept;

  static std::uint64_t bytes_for(std::uint32_t pes) noexcept;

 private:
  static constexpr std::uint64_t kPesOffset = 4096;
  static std::uint64_t team_bytes(std::uint32_t pes) noexcept {
    return sizeof(TeamSlot) + 2ULL * pes * sizeof(MemberLine);
  }
  template <typename T>
  T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(mapping_.data() + offset);
  }

  sys::Mapping mapping_;
  std::uint32_t pes_ = 0;
};

struct JobOptions {
  int pes = 1;
  std::uint64_t heap_bytes = kDefaultHeapBytes;  ///< of each PE; used pages only take memory
  /// How many of the PEs are of this host; all, if nothing is said.
  std::optional<int> heaps;
  sys::HugePages huge_pages = sys::HugePages::off;  ///< as HeapPages has it
};

/// Errors: invalid_argument (PEs, heap), exhausted (descriptors, memory), those of
/// sys::choose_reserved_pages() (required). The heaps are those of the PEs of this host, one after
/// the other.
Result<JobFiles> create_job(const JobOptions& options);

/// `files` of create_job(), whose heaps are those of `here`, by PE of all `pes`.
JobFiles spread(JobFiles files, const std::vector<std::uint32_t>& here, std::uint32_t pes);

/// Second descriptors of the same job. Errors: exhausted.
Result<JobFiles> duplicate(const JobFiles& files);

}  // namespace towpath::shmem
