// TokenNews: which blocks came and went, with the tokens that they hold. Routers that match prompts
// by tokens need them; a worker's report has hashes only, so a block is reported once a request of
// this scheduler has named its tokens: when it is saved, or when a prompt meets what others have
// kept.
//
//   requests: name(hash, tokens) --+
//                                  +--> take(): stored {hash, parent, tokens, room}, removed {hash}
//   workers:  HeldBlocks ----------+
//
// Invariants: a block is reported as stored before it is reported as removed, once until then, and
// behind the one it stands on, where that is held; tokens are kept only of blocks that are held, or
// on their way to be. Thread: none of its own.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <towpath/kv/blocks/sequence_hash.h>
#include <towpath/kv/connector/held_blocks.h>
#include <towpath/kv/connector/scheduler.h>

namespace towpath::kv {

class TokenNews {
 public:
  struct Name {
    BlockHash hash = 0;
    std::optional<BlockHash> parent;
    std::span<const TokenId> tokens;
    std::string_view room;
  };
  /// Of a block that is held, or about to be saved.
  void name(const Name& block);
  /// It is held no more, and not about to be.
  void forget(BlockHash hash) { named_.erase(hash); }
  void forget_unless(const auto& is_wanted) {
    std::erase_if(named_, [&](const auto& block) { return !is_wanted(block.first); });
  }

  /// What there is to report, `events` being what happened since the last call.
  std::vector<HeldBlockEvent> take(const std::vector<HeldBlocks::Event>& events,
                                   const HeldBlocks& held);

 private:
  struct Content {
    std::optional<BlockHash> parent;
    std::vector<TokenId> tokens;
    std::string room;
  };
  void report(BlockHash hash, const HeldBlocks& held, std::vector<HeldBlockEvent>& into);
  void report_lasting(BlockHash hash, std::vector<HeldBlockEvent>& into);

  std::unordered_map<BlockHash, Content> named_;
  std::unordered_set<BlockHash> reported_;
  std::unordered_set<BlockHash> reported_lasting_;  // of these
  std::vector<BlockHash> newly_named_;
};

}  // namespace towpath::kv
