// Transfer: a promise that ends exactly once.
//
// A transfer ends in one of done, failed, cancelled, timed_out, peer_lost, and when it has ended it
// is quiesced: no byte can land in, or leave, either side's buffers. It can be posted again then.
// At its deadline, on cancel() and when the peer is lost, the outcome is fixed at once; the
// transfer drains until it is quiesced.
//
// The handle may be dropped at any moment. An active transfer is then cancelled and drains by
// itself; its memory stays registered and alive until it is quiesced.
//
// Thread: any; one thread at a time posts. `state()` and `outcome()` are cheap reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/core/transfer_state.h>

namespace towpath::agent {

class TransferCore;
struct Explanation;

/// What one posting cost. Times in microseconds.
struct TransferReport {
  std::uint64_t start_us = 0;     ///< of the post, since the Unix epoch
  double post_us = 0;             ///< spent inside post()
  double transfer_us = 0;         ///< from the start of post() to the end
  std::uint64_t bytes = 0;        ///< moved, as the backend counted them
  std::uint64_t descriptors = 0;  ///< as the user listed them
  std::uint64_t segments = 0;     ///< after merging

  double total_us() const noexcept { return post_us + transfer_us; }
  /// 0 when no time passed.
  double bytes_per_second() const noexcept {
    return transfer_us > 0 ? static_cast<double>(bytes) / transfer_us * 1e6 : 0;
  }
};

/// A descriptor whose bytes are not all in place.
struct DescriptorError {
  std::uint64_t descriptor = 0;  ///< position in the transfer's selections
  Status status;
};

struct PostOptions {
  /// From now; none: the agent's default. A transfer always has a deadline.
  std::optional<Duration> timeout;
  /// Replaces the notification given when the transfer was made, from this post on; empty: none,
  /// unless `sends_empty`.
  std::optional<Bytes> notification;
  bool sends_empty = false;  ///< an empty notification is one, too
};

class Transfer {
 public:
  Transfer() = default;
  explicit Transfer(std::shared_ptr<TransferCore> core);
  Transfer(Transfer&&) noexcept = default;
  Transfer& operator=(Transfer&& other) noexcept;
  ~Transfer();

  /// Starts moving bytes; may end before it returns. What goes wrong with the bytes is the
  /// transfer's outcome, not post()'s. Errors: not_ready (still active or draining; the agent is
  /// gone), not_found (a region was deregistered or the peer's metadata replaced: prepare again),
  /// peer_lost. With a notification besides: exhausted (those that wait for this peer, and those of
  /// transfers under way, leave no room; make progress and post again), invalid_argument (too
  /// long), unsupported (no common backend carries them).
  Status post(const PostOptions& options = {});

  TransferState state() const noexcept;
  /// `none` until it is decided; may be known while still draining.
  Outcome outcome() const noexcept;
  bool ended() const noexcept { return state() == TransferState::ended; }
  /// Why it did not end as done; ok when it did, or while it has not ended.
  Status status() const;
  /// After it ended: the descriptors whose bytes are not all in place, in order. All others are,
  /// unless status() is a failure and this is empty: then nothing is proven of any.
  std::vector<DescriptorError> errors() const;

  /// Makes progress, and sleeps while there is none to make, until the transfer has ended or
  /// `timeout` has passed, or the agent has ended. Returns the outcome, or `none` when it has not
  /// ended. Where it has ended already there is progress in one of 256 calls, for the others' sake.
  Outcome wait(Duration timeout = Duration::max());
  /// Fixes the outcome as cancelled if it is not decided yet. Does not wait for quiet: wait() does.
  void cancel();

  /// Errors: no_telemetry (switched off, or not ended).
  Result<TransferReport> report() const;
  /// Why this backend moves it, which others were refused, and what it should cost.
  Explanation explain() const;

  std::uint64_t bytes() const noexcept;        ///< to be moved
  std::uint64_t descriptors() const noexcept;  ///< selected
  std::string backend() const;                 ///< the chosen one's name
  bool valid() const noexcept { return core_ != nullptr; }

 private:
  std::shared_ptr<TransferCore> core_;
};

}  // namespace towpath::agent
