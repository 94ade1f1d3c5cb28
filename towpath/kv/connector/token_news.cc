#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

#include <towpath/kv/connector/token_news.h>

namespace towpath::kv {

void TokenNews::name(const Name& block) {
  const auto [known, is_new] = named_.try_emplace(block.hash);
  if (!is_new) return;
  known->second = {
      block.parent, {block.tokens.begin(), block.tokens.end()}, std::string(block.room)};
  newly_named_.push_back(block.hash);
}

/// Workers report in no order; a router hangs a block onto its parent, which comes first.
void TokenNews::report(BlockHash hash, const HeldBlocks& held, std::vector<HeldBlockEvent>& into) {
  std::vector<HeldBlockEvent> chain;
  for (std::optional<BlockHash> next = hash; next;) {
    const auto known = named_.find(*next);
    if (known == named_.end() || !held.has(*next) || !reported_.insert(*next).second) break;
    const Content& content = known->second;
    chain.push_back(
        {BlockEvent::Kind::stored, *next, content.parent, content.tokens, content.room});
    next = content.parent;
  }
  std::ranges::move(std::views::reverse(chain), std::back_inserter(into));
}

std::vector<HeldBlockEvent> TokenNews::take(const std::vector<BlockEvent>& events,
                                            const HeldBlocks& held) {
  std::vector<HeldBlockEvent> news;
  for (const BlockEvent& event : events) {
    if (event.kind == BlockEvent::Kind::stored)
      report(event.hash, held, news);
    else if (reported_.erase(event.hash) > 0)
      news.push_back({.kind = event.kind, .hash = event.hash});
  }
  for (const BlockHash hash : std::exchange(newly_named_, {})) report(hash, held, news);
  return news;
}

}  // namespace towpath::kv
