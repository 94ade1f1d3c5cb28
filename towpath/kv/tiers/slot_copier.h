// SlotCopier: copies blocks between the slots of a cache's pool and bytes aside, in host memory and
// in canonical order. What is held against a digest is held against it there.
//
//   take_aside() --> begin(copy) --> [ under way ] --progress()--> copy.has_ended --> give_back()
//
// In host memory a copy ends where it begins, and is digested on its way. With a device, all that
// began since the last progress() goes to a stream as one batch, and ends later; bytes aside are
// pinned. When a copy fails, all that are under way fail with it, and the next batch has a new
// stream. Invariants: a copy ends exactly once, and no byte of it moves afterwards; when this dies,
// none is under way. Thread: one at a time.
#pragma once

#include <memory>
#include <optional>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/kv/block_id.h>
#include <towpath/kv/digest.h>
#include <towpath/layout/physical_layout.h>
#include <towpath/memory/device_region.h>

namespace towpath::kv {

/// Both spans are a block long, or empty. It is the caller's, who keeps it and its bytes where they
/// are until it has ended.
struct SlotCopy {
  SlotId slot = 0;
  ConstByteSpan in{};  ///< goes into the slot, if anything
  ByteSpan out{};      ///< then filled from the slot, if anything
  Digest digest{};     ///< of the block
  /// For the caller to compare: of what was written last, taken in the pass that wrote it. Nothing:
  /// this process did not see the bytes.
  std::optional<Digest> found{};

  Instant since{0};  ///< for the caller
  bool has_ended = false;
  Status status{};  ///< errors: the driver's; those of PhysicalLayout

  /// For copiers.
  void end(Status how) {
    status = std::move(how);
    has_ended = true;
  }
};

class SlotCopier {
 public:
  /// Without a device: of host memory. `at_once`: copies with a device, each way.
  /// Errors: invalid_argument (memory of a device without it; none at once; storage), exhausted (no
  /// pinned memory), and the driver's.
  static Result<std::unique_ptr<SlotCopier>> make(const layout::PhysicalLayout& layout,
                                                  memory::SharedDevice device, std::size_t at_once);
  virtual ~SlotCopier() = default;

  /// Blocks on their way out of the pool, or into it, that there are bytes aside for.
  virtual std::size_t at_once() const noexcept = 0;
  /// What was copied in is proven when it was copied out again: this process does not see it else.
  virtual bool must_read_back() const noexcept = 0;

  /// A block long; its bytes are what the last user left. At most three for each of at_once().
  virtual ByteSpan take_aside() = 0;
  virtual void give_back(ByteSpan aside) = 0;

  virtual void begin(SlotCopy& copy) = 0;
  /// True: something has begun to move, or has ended.
  virtual bool progress() { return false; }
  /// Sleeps until what is moving may have ended; false: nothing is.
  virtual bool wait() { return false; }
};

}  // namespace towpath::kv
