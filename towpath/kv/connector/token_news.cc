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
  for (HeldBlockEvent& event : std::views::reverse(chain)) {
    const BlockHash stored = event.hash;
    into.push_back(std::move(event));
    if (held.lasts(stored)) report_lasting(stored, into);
  }
}

/// With its tokens again: a router may know of lasting blocks alone.
void TokenNews::report_lasting(BlockHash hash, std::vector<HeldBlockEvent>& into) {
  const auto known = named_.find(hash);
  if (known == named_.end() || !reported_.contains(hash) || !reported_lasting_.insert(hash).second)
    return;
  const Content& content = known->second;
  into.push_back(
      {BlockEvent::Kind::stored, hash, content.parent, content.tokens, content.room, true});
}

std::vector<HeldBlockEvent> TokenNews::take(const std::vector<HeldBlocks::Event>& events,
                                            const HeldBlocks& held) {
  std::vector<HeldBlockEvent> news;
  for (const HeldBlocks::Event& event : events) {
    auto& reported = event.is_lasting ? reported_lasting_ : reported_;
    if (event.kind == BlockEvent::Kind::removed) {
      if (reported.erase(event.hash) > 0)
        news.push_back({.kind = event.kind, .hash = event.hash, .is_lasting = event.is_lasting});
    } else if (!event.is_lasting) {
      report(event.hash, held, news);
    } else if (held.lasts(event.hash)) {
      report_lasting(event.hash, news);
    }
  }
  for (const BlockHash hash : std::exchange(newly_named_, {})) report(hash, held, news);
  return news;
}

}  // namespace towpath::kv
