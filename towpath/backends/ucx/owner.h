// Owner: the registrations of this side, and what peers may do to them.
//
// Peers do not touch memory: they ask, and the owner moves the bytes inside of its own calls, after
// it has held every range against what is registered at that moment. So a registration that was
// taken back is out of reach at once, and no byte lands behind the owner's back.
//
// Invariant: between calls nobody reads or writes registered memory. Thread: loop.
#pragma once

#include <cstdint>
#include <unordered_map>

#include <towpath/backends/ucx/frames.h>
#include <towpath/core/descriptor.h>

namespace towpath::backends::ucx {

class Owner {
 public:
  /// Gives the token by which peers name it: random, so that only those who were told know it.
  std::uint64_t add(const RegionDescriptor& region);
  void remove(std::uint64_t token) { regions_.erase(token); }
  /// Null when there is none (any more).
  const RegionDescriptor* find(std::uint64_t token) const;

  /// Copies a write's payload to its pieces and tells `answer` which ones it refused.
  void place(const Frame& write, FrameWriter& answer) const;
  /// Tells `answer` which pieces of a read are refused and appends the bytes of the others.
  void gather(const Frame& read, FrameWriter& answer) const;

 private:
  Code judge(const Piece& piece) const;

  std::unordered_map<std::uint64_t, RegionDescriptor> regions_;
};

}  // namespace towpath::backends::ucx
