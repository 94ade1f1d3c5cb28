// ChunkStream: chunks that land in memory of this process one behind the other, and a consumer that
// is notified of them by release-stores into one word: a thread, another process, or a kernel on a
// GPU that polls pinned memory or, where a stream of the GPU does the storing, its own. The
// consumer calls nothing and takes no lock.
//
//   storage or peer  -->  chunks 0 1 2 3 ...       several under way at once, landing in any order
//   the word reported         [closed : 1 | landed : 63]
//
//   consumer:  word = load_acquire(reported);  chunks [0, landed_chunks(word)) are in place
//
// Chunks are reported in their order: one that lands early waits for those before it. A second
// word, which the consumer stores into, lets memory be used again: chunk i is asked for only when
// the consumer has taken chunk i - slots.
//
// It is not a queue between threads, and moves nothing itself: each chunk is a transfer of the
// agent, whatever backend that chose. Invariants: the word never falls; nothing is reported of a
// chunk that failed, nor of those behind it; it is closed once, when no chunk is under way any
// more. Thread: loop. The consumer: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/memory/device_region.h>

namespace towpath::agent {

/// Set in the word when no more chunks will land.
inline constexpr std::uint64_t kStreamClosed = std::uint64_t{1} << 63U;
constexpr std::uint64_t landed_chunks(std::uint64_t word) noexcept { return word & ~kStreamClosed; }

struct ChunkStreamOptions {
  Agent* agent = nullptr;  ///< outlives the stream
  /// Chunk i is extent i of both. The same extent of memory may stand in `local` many times.
  PreparedList local;
  PreparedList remote;
  /// The words lie at multiples of 8 and outlive the stream. open() sets `advertised` to 0.
  std::uint64_t* advertised = nullptr;
  memory::DeviceWord* advertised_on_device = nullptr;  ///< in its place; outlives the stream too
  std::uint64_t* taken = nullptr;  ///< how many chunks the consumer is done with; null: all fit
  std::uint64_t slots = 0;         ///< chunks that memory has room for; with `taken`
  std::size_t depth = 8;           ///< chunks under way at once
  std::vector<std::string> backends;
  std::optional<Duration> timeout;  ///< of each chunk; nothing: the agent's
};

class ChunkStream {
 public:
  /// Errors: invalid_argument (no agent, not one word to report, lists of different lengths, no
  /// depth or slots); the device's.
  static Result<ChunkStream> open(ChunkStreamOptions options);
  /// Moved from, it may only be destroyed.
  ChunkStream(ChunkStream&&) noexcept = default;
  ChunkStream& operator=(ChunkStream&&) = delete;
  /// Cancels, and waits until it is quiesced: then the word is closed.
  ~ChunkStream();

  /// Does a bounded amount of work. True: there is more to do at once.
  bool progress();
  /// Makes progress, and sleeps while there is none to make, until it has ended. A consumer that
  /// takes chunks wakes nobody: it is examined every 100 us.
  void wait();
  /// No more chunks are asked for; those under way are cancelled.
  void cancel();

  /// The word is closed.
  bool ended() const noexcept { return ended_; }
  /// Why not all chunks landed, or were reported; ok when they did, or while it has not ended.
  const Status& status() const noexcept { return status_; }
  std::uint64_t landed() const noexcept { return landed_; }

 private:
  explicit ChunkStream(ChunkStreamOptions options)
      : options_(std::move(options)), flights_(options_.depth) {}

  Transfer& flight(std::uint64_t chunk) { return flights_[chunk % flights_.size()]; }
  bool has_room() const noexcept;
  Status post(std::uint64_t chunk);
  bool land();
  bool launch();
  void stop(Status why);
  void close_if_quiesced();
  Status notify(std::uint64_t word);

  ChunkStreamOptions options_;
  std::vector<Transfer> flights_;
  std::uint64_t landed_ = 0;  // all before it are in place
  std::uint64_t next_ = 0;    // the first one that was not asked for
  Status status_;
  bool ended_ = false;
};

}  // namespace towpath::agent
