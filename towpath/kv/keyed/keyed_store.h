// KeyedStore: a tier for callers that name what they keep themselves, by keys of any length: bytes
// of any length under each, in batches, moved by a thread of the store's own.
//
//   submit(batch) --> [ waits, under way ] --> fd() is readable --> take_ended(): a Status for each
//
// A key is 128 bits of a digest of the caller's name. The tier knows blocks by the first 64; the
// others are the salt of the block's digest, so that two keys that agree in the first 64 are two:
// neither is ever given for the other, and the later one takes the place of the earlier.
//
// Invariants: a get that ended well gives the bytes of the last put of that key that ended well; a
// put that ended well is there for good, until the tier needs its room. What is under way together
// happens in any order. A batch ends exactly once, and nothing touches its bytes afterwards. A
// block that is got while it is about to leave the tier for others' sake is put again.
//
// A put of other bytes leaves the older ones on the disk, behind a record that they are removed.
// Where an opening cannot read that record, what was put before it is missing, until it is put
// again or a later opening can. Limit: a record whose first page has rotted passes for none, and so
// does a segment; where the index does not say better, older bytes are given then.
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/kv/block_id.h>
#include <towpath/kv/figures.h>

namespace towpath::kv {

class BlockTier;

struct BlockKey {
  BlockHash hash = 0;
  std::uint64_t rest = 0;

  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};

class KeyedStore {
 public:
  enum class Operation : std::uint8_t {
    put,     ///< other bytes that were there under the key go
    get,     ///< fills `bytes`, which are as long as what was put
    find,    ///< asks whether it is there; has no bytes
    remove,  ///< has no bytes; a loss of power soon after may bring back what it removed
  };
  struct Item {
    BlockKey key;
    ByteSpan bytes;  ///< the caller's, until the batch has been taken; put: only read
  };
  using BatchId = std::uint64_t;
  struct Ended {
    BatchId id = 0;
    /// For each item, in order. Errors: not_found; corrupt (quarantined: it is there no more);
    /// invalid_argument (of another length); out_of_range (too large); exhausted; denied;
    /// cancelled; io_error and others of a tier's.
    std::vector<Status> statuses;
  };

  /// `tier` may be one that reports to no BlockDirectory. Errors: exhausted (no descriptor or
  /// thread).
  static Result<std::unique_ptr<KeyedStore>> open(std::unique_ptr<BlockTier> tier);
  KeyedStore(const KeyedStore&) = delete;
  KeyedStore& operator=(const KeyedStore&) = delete;
  /// What has not begun does not begin, and what is under way is waited for.
  ~KeyedStore();

  /// Never waits. An empty batch ends at once.
  BatchId submit(Operation operation, std::vector<Item> items);
  /// In the order in which they ended.
  std::vector<Ended> take_ended();
  /// Readable while there is something to take.
  int fd() const noexcept;
  KeyedFigures figures() const;

 private:
  class Thread;
  explicit KeyedStore(std::unique_ptr<Thread> thread);
  const std::unique_ptr<Thread> thread_;
};

}  // namespace towpath::kv
