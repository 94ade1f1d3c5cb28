#include <algorithm>

#include <towpath/kv/peers/block_lender.h>

namespace towpath::kv {

bool BlockLender::has(BlockHash hash) const {
  const unsigned borrowed = options_.not_from == 0 ? 0U : 1U << options_.not_from;
  return (options_.block_directory->tiers_of(hash) & ~borrowed) != 0;
}

void BlockLender::ask(const AgentIdentity& borrower, const PeerMessage& ask) {
  const Key key{borrower.incarnation, ask.session};
  if (const auto known = sessions_.find(key); known != sessions_.end() && known->second.coming)
    return;                        // asked again: the answer is being made
  release(borrower, ask.session);  // asked again: the first answer was lost
  std::vector<CachedBlock> wanted;
  const std::size_t room = options_.most_blocks - std::min(options_.most_blocks, wanted_);
  for (const BlockHash hash : ask.hashes)
    if (wanted.size() < room && has(hash)) wanted.push_back({hash, {}});
  auto coming = cache_.promote(wanted);
  if (!coming.ok()) {  // too much waits: nothing is lent now
    wanted.clear();
    coming = cache_.promote({});
  }
  if (!coming.ok()) return;
  wanted_ += wanted.size();
  sessions_.emplace(key, Session{borrower, wanted.size(), *std::move(coming)});
}

std::vector<BlockLender::Answer> BlockLender::take_answers() {
  std::vector<Answer> answers;
  for (auto& [key, session] : sessions_) {
    if (!session.coming || !session.coming->ended()) continue;
    PeerMessage answer{
        .word = PeerMessage::Word::lend, .session = key.second, .lease = options_.lease};
    for (Promoted& one : session.coming->take()) {
      if (!one.status.ok()) continue;  // the borrower does not find it in the answer
      answer.lent.push_back({one.block.hash(), one.block.slot(), one.block.identity().digest});
      session.held.push_back(std::move(one.block));
    }
    session.coming.reset();
    session.end = options_.clock->now() + options_.lease;
    lent_blocks_ += session.held.size();
    answers.push_back({session.borrower, std::move(answer)});
  }
  return answers;
}

void BlockLender::release(const AgentIdentity& borrower, std::uint64_t session) {
  const auto known = sessions_.find({borrower.incarnation, session});
  if (known == sessions_.end()) return;
  wanted_ -= known->second.wanted;
  sessions_.erase(known);
}

void BlockLender::end_leases() {
  const Instant now = options_.clock->now();
  std::erase_if(sessions_, [&](const auto& entry) {
    const Session& session = entry.second;
    const bool is_over = !session.coming && (now >= session.end || session.held.empty());
    if (!is_over && !(options_.is_gone && options_.is_gone(session.borrower))) return false;
    wanted_ -= session.wanted;
    if (!session.held.empty()) ++ended_leases_;
    return true;
  });
}

}  // namespace towpath::kv
