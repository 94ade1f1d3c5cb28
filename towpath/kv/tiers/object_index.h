// ObjectIndex: which objects a tier has in a store, that they are no more than there is room for,
// and which is evicted for which.
//
//   put:  admit() --> [ has a place ] --posted, ended--> keep()   found, used, evicted: BlockPool
//             |  no place is free: the removal of the policy's victim is owed to the store
//             v
//         [ removals owed ] --the store's answer--> the put may go
//
// The store's own list is the truth, and is read before the first put goes: so the bound holds over
// the lives of processes, whenever one dies. A list that goes round in a circle, or on and on, is
// refused. An object is counted from before it is put until the store has said that it is gone; a
// put whose end nobody knows is owed a removal. One tier at a time bounds a prefix; others may read
// there. Objects under the prefix that are no blocks of this shape, or that say so when they are
// read, are left alone, and not counted. Thread: that of the tier.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/tiers/block_tier.h>

namespace towpath::kv {

struct BucketObject {
  std::string key;
  std::uint64_t bytes = 0;
  std::string modified;  ///< as text in the order of time
};

struct BucketPage {
  std::vector<BucketObject> objects;
  std::string next;  ///< to ask for the next page with; empty: this is the last
};

/// What can be done to the objects of a store by no transfer: saying which there are,
/// and taking one away. Whoever opens a tier of objects brings one (standard/object_place.h); kv
/// knows no store.
///
/// Each question is answered once, in progress(), unless the bucket dies before. Thread: that of
/// the tier that has it.
class ObjectBucket {
 public:
  using Listed = std::function<void(Result<BucketPage>)>;
  using Removed = std::function<void(Status)>;

  virtual ~ObjectBucket() = default;

  /// A page of the objects whose keys begin with `prefix`. `next` is that of the page before;
  /// empty: from the beginning.
  virtual void list(const std::string& prefix, const std::string& next, Listed listed) = 0;
  /// An object that is not there is no error.
  virtual void remove(const std::string& key, Removed removed) = 0;
  /// Whether it did something.
  virtual bool progress() = 0;
};

struct ObjectIndexOptions {
  std::string prefix;              ///< of keys, with the "/" at its end; digits of a hash follow
  std::uint64_t object_bytes = 0;  ///< of each block's
  std::uint64_t bound_bytes = 0;
  PolicyKind policy = PolicyKind::lru;
  std::size_t depth = 8;  ///< removals under way at once
  BlockDirectory* block_directory =
      nullptr;  ///< is notified of all that the store has; outlives the index
  TierIndex tier = 0;
};

class ObjectIndex {
 public:
  /// Errors: invalid_argument (room for no object), and those of BlockPool::make().
  static Result<std::unique_ptr<ObjectIndex>> make(std::unique_ptr<ObjectBucket> bucket,
                                                   const ObjectIndexOptions& options);

  /// Of an object that is being put, or read.
  struct Place {
    std::optional<PartialBlock> room;  ///< of one that was not there
    BlockRef held;
  };
  /// A put of this block begins: what failed before is tried anew.
  void begin_put() { failure_ = {}; }
  /// Whether it may go now; `place` keeps what it has until then. Errors: why the store could not
  /// be listed, or did not take an object away.
  Result<bool> admit(BlockHash hash, Place& place);
  /// It has ended well.
  void keep(BlockHash hash, Place& place);
  /// It has not: the object may be there all the same.
  void give_up(BlockHash hash, Place& place);

  /// The object is used, and stays while it is held. Nothing where it is not known.
  BlockRef hold(BlockHash hash) { return objects_->find(hash); }
  /// Another has put it.
  void meet(BlockHash hash);
  /// It is not there.
  void forget(BlockHash hash);
  /// It is to be there no more.
  void discard(BlockHash hash);
  bool is_going(BlockHash hash) const { return owed_.contains(hash); }

  /// Lists, and removes what is owed. Whether it did something.
  bool progress();
  /// Whether an answer of the store is awaited.
  bool is_busy() const { return listing_ == Listing::under_way || under_way_ > 0; }

  /// `blocks` are those that can be found; who goes is counted at once.
  TierCapacity room() const;

 private:
  enum class Listing : std::uint8_t { wanted, under_way, done };
  /// A block, or the record of its removal.
  struct ListedBlock {
    BlockHash hash = 0;
    std::uint64_t bytes = 0;
    std::string modified;
  };

  ObjectIndex(std::unique_ptr<ObjectBucket> bucket, const ObjectIndexOptions& options)
      : options_(options), bucket_(std::move(bucket)) {}

  std::string key_of(BlockHash hash) const;
  std::optional<BlockHash> hash_of(const std::string& key) const;
  void ask_for_page(const std::string& next);
  /// Errors: exhausted (the list is too long), corrupt (it goes round in a circle).
  Status take_page(BucketPage& page, const std::string& asked);
  void end_listing();
  std::optional<PartialBlock> make_room();
  void enter(BlockHash hash, PartialBlock&& room);
  void remove_some();

  const ObjectIndexOptions options_;
  std::unique_ptr<BlockPool> objects_;
  Listing listing_ = Listing::wanted;
  std::vector<ListedBlock> listed_;
  std::size_t pages_ = 0;               // of the listing under way
  std::unordered_set<BlockHash> owed_;  // also those under way
  std::vector<BlockHash> to_ask_;       // of these, that are not
  std::size_t under_way_ = 0;
  Status failure_;  // the last one; until the next put nothing is asked
  std::uint64_t evicted_ = 0;
  std::unique_ptr<ObjectBucket> bucket_;  // dies first: it calls in here
};

/// Sixteen digits: the last part of a block's key.
std::string object_digits(BlockHash hash);

}  // namespace towpath::kv
