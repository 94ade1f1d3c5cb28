// Owner: the registrations of this side, and what peers may do to them.
//
// Peers do not touch memory: they ask, and the owner moves the bytes inside of its own calls, after
// it has held every range against what is registered at that moment. So a registration that was
// taken back is out of reach at once, and no byte lands behind the owner's back.
//
// A device's memory goes through a window of pinned memory, and its copies are waited for.
//
// A side may be stopped by its machine in the midst of a frame, and go on when the writer has long
// given up. So the grant of a write is looked at again before each step of its bytes.
//
// Invariant: between calls nobody reads or writes registered memory. Thread: loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <towpath/backends/ucx/device_window.h>
#include <towpath/backends/ucx/frames.h>
#include <towpath/backends/ucx/token_table.h>
#include <towpath/core/descriptor.h>
#include <towpath/sys/random.h>

namespace towpath::backends::ucx {

/// The leave to place a write's bytes (link.h), which runs out. Thread: loop.
class Grant {
 public:
  /// Bytes that land between two looks at it.
  static constexpr std::uint64_t kStepBytes = 128 * 1024;

  explicit Grant(std::function<bool()> is_fresh) : is_fresh_(std::move(is_fresh)) {}

  /// Whether so many more, at most a step, may land now.
  bool holds_for(std::uint64_t bytes) {
    if (left_ < bytes) {
      if (!is_fresh_()) return false;
      left_ = kStepBytes;
    }
    left_ -= bytes;
    return true;
  }

 private:
  const std::function<bool()> is_fresh_;
  std::uint64_t left_ = 0;
};

class Owner {
 public:
  /// Gives the token by which peers name it: random, so that only those who were told know it.
  /// `window`: to the device whose memory it is, null for the host's. Both stay where they are
  /// until remove().
  std::uint64_t add(const RegionDescriptor& region, DeviceWindow* window = nullptr);
  void remove(std::uint64_t token) noexcept { regions_.remove(token); }
  /// Null when there is none (any more).
  const RegionDescriptor* find(std::uint64_t token) const;

  /// Copies a write's payload to its pieces and tells `answer` which ones it refused. False: the
  /// grant ran out before all of it was in place.
  bool place(const Frame& write, FrameWriter& answer, Grant& grant) const;
  /// Tells `answer` which pieces of a read are refused and appends the bytes of the others.
  void gather(const Frame& read, FrameWriter& answer);

 private:
  /// Where the bytes of a piece come from, or why they do not.
  struct Gathered {
    Code verdict = Code::ok;
    DeviceWindow* window = nullptr;  ///< into which they were fetched, if a device has them
    ConstByteSpan fetched;
  };

  struct Judged {
    Code verdict = Code::ok;
    const Registered* in = nullptr;  ///< whose piece it is, when all is well
  };

  std::uint64_t next_token();
  Judged judge(const Piece& piece) const;
  /// None: the grant ran out.
  std::optional<Code> place(const Piece& piece, const std::byte* from, Grant& grant) const;
  Gathered fetch(const Piece& piece) const;

  TokenTable regions_;
  std::array<std::uint64_t, sys::kMostRandom>
      tokens_{};  // lists are registered, not single regions
  std::size_t tokens_left_ = 0;
  std::vector<Gathered> gathered_;  // of one frame
};

}  // namespace towpath::backends::ucx
