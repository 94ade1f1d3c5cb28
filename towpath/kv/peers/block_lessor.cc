#include <algorithm>

#include <towpath/kv/peers/block_lessor.h>

namespace towpath::kv {

bool BlockLessor::has(BlockHash hash) const {
  const unsigned leased = options_.not_from == 0 ? 0U : 1U << options_.not_from;
  return (options_.block_directory->tiers_of(hash) & ~leased) != 0;
}

void BlockLessor::ask(const AgentIdentity& lessee, const PeerMessage& ask) {
  const Key key{lessee.incarnation, ask.session};
  if (const auto known = sessions_.find(key); known != sessions_.end() && known->second.coming)
    return;                      // asked again: the answer is being made
  release(lessee, ask.session);  // asked again: the first answer was lost
  std::vector<CachedBlock> wanted;
  const std::size_t room = options_.most_blocks - std::min(options_.most_blocks, wanted_);
  for (const BlockHash hash : ask.hashes)
    if (wanted.size() < room && has(hash)) wanted.push_back({hash, {}});
  auto coming = cache_.promote(wanted);
  if (!coming.ok()) {  // too much waits: nothing is granted now
    wanted.clear();
    coming = cache_.promote({});
  }
  if (!coming.ok()) return;
  wanted_ += wanted.size();
  sessions_.emplace(key, Session{lessee, wanted.size(), *std::move(coming)});
}

std::vector<BlockLessor::Answer> BlockLessor::take_answers() {
  std::vector<Answer> answers;
  for (auto& [key, session] : sessions_) {
    if (!session.coming || !session.coming->ended()) continue;
    PeerMessage answer{
        .word = PeerMessage::Word::grant, .session = key.second, .lease = options_.lease};
    for (Promoted& one : session.coming->take()) {
      if (!one.status.ok()) continue;  // the lessee does not find it in the answer
      answer.granted.push_back({one.block.hash(), one.block.slot(), one.block.identity().digest});
      session.held.push_back(std::move(one.block));
    }
    session.coming.reset();
    session.end = options_.clock->now() + options_.lease;
    granted_blocks_ += session.held.size();
    answers.push_back({session.lessee, std::move(answer)});
  }
  return answers;
}

void BlockLessor::release(const AgentIdentity& lessee, std::uint64_t session) {
  const auto known = sessions_.find({lessee.incarnation, session});
  if (known == sessions_.end()) return;
  wanted_ -= known->second.wanted;
  sessions_.erase(known);
}

void BlockLessor::end_leases() {
  const Instant now = options_.clock->now();
  std::erase_if(sessions_, [&](const auto& entry) {
    const Session& session = entry.second;
    const bool is_over = !session.coming && (now >= session.end || session.held.empty());
    if (!is_over && !(options_.is_gone && options_.is_gone(session.lessee))) return false;
    wanted_ -= session.wanted;
    if (!session.held.empty()) ++ended_leases_;
    return true;
  });
}

}  // namespace towpath::kv
