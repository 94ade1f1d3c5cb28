// CatalogueJournal: which blocks are here to be granted, and how that changed of late, so that
// peers who know how it was get only what has changed.
//
// An edition is a number: how many changes there were before it. Edition 0 has no block. What an
// edition lacks is said by the changes from it on, the last of each block; who has some of them
// already may take them again. At most kMostKept changes are kept.
// Not a place where blocks are: BlockDirectory reports which are. Thread: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <towpath/kv/peers/peer_message.h>

namespace towpath::kv {

class CatalogueJournal {
 public:
  static constexpr std::size_t kMostKept = 8 * kMaxChangesReported;
  /// Beyond, the block that came first is not reported any more, though it may be here: the whole
  /// must fit where it is published (rendezvous::kMaxMetadataBytes), with what else a catalogue
  /// has.
  static constexpr std::size_t kMostHere = kMaxHashesListed / 16 * 15;

  /// The block is here now, or is not. No change if that is how it was.
  void note(BlockHash hash, bool is_here);
  /// These are here now, and no others. Of more than kMostHere some are not reported: which came
  /// first is not known.
  void settle(const std::unordered_set<BlockHash>& all);

  /// Those that peers hear of, in no order.
  std::vector<BlockHash> here() const;
  bool is_here(BlockHash hash) const { return came_.contains(hash); }
  std::uint64_t edition() const { return edition_; }
  /// Whether since() says all that the edition lacks; else the whole has to be reported: the
  /// changes are not kept any more, or are more than the whole.
  bool covers(std::uint64_t edition) const;
  /// From the edition to this one, one behind the other. Of one that is not covered, and of this
  /// one: that this one is what there is.
  std::vector<CatalogueChanges> since(std::uint64_t edition) const;

 private:
  struct Change {
    BlockHash hash;
    bool is_here;
  };
  struct Coming {
    BlockHash hash;
    std::uint64_t edition;
  };
  CatalogueChanges between(std::uint64_t from, std::uint64_t to) const;
  void add(const Change& change);
  bool is_over(const Coming& coming) const;
  BlockHash first_that_came();

  std::unordered_map<BlockHash, std::uint64_t> came_;  // in which edition
  std::deque<Coming> comings_;                         // the oldest first, also some that are over
  std::deque<Change> changes_;                         // the last ones, up to edition_
  std::uint64_t edition_ = 0;
};

}  // namespace towpath::kv
