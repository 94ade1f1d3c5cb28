#include <algorithm>

#include <towpath/kv/peers/block_lessor.h>

namespace towpath::kv {

bool BlockLessor::has(BlockHash hash) const {
  const unsigned leased = options_.not_from == 0 ? 0U : 1U << options_.not_from;
  return (options_.block_directory->tiers_of(hash) & ~leased) != 0;
}

std::size_t BlockLessor::room_for(const AgentIdentity& lessee) const {
  std::size_t its = 0;
  for (auto at = sessions_.lower_bound({lessee.incarnation, 0});
       at != sessions_.end() && at->first.first == lessee.incarnation; ++at)
    its += at->second.wanted.size();
  return std::min(options_.most_blocks - std::min(options_.most_blocks, wanted_),
                  options_.most_of_a_lessee - std::min(options_.most_of_a_lessee, its));
}

void BlockLessor::ask(const AgentIdentity& lessee, const PeerMessage& ask) {
  const Key key{lessee.incarnation, ask.session};
  if (const auto known = sessions_.find(key); known != sessions_.end() && known->second.coming)
    return;                      // asked again: the answer is being made
  release(lessee, ask.session);  // asked again: the first answer was lost
  Session session{.lessee = lessee};
  std::vector<CachedBlock> wanted;
  const std::size_t room = room_for(lessee);
  for (std::size_t i = 0; i < ask.hashes.size(); ++i) {
    const BlockHash hash = ask.hashes[i];
    if (!has(hash)) continue;
    if (wanted.size() == room) {
      session.not_now.push_back(hash);
      continue;
    }
    CachedBlock& block = wanted.emplace_back(CachedBlock{hash, {}});
    if (!ask.parents.empty() && ask.parents[i] != 0) block.parent = ask.parents[i];
    session.wanted.push_back(hash);
  }
  auto coming = cache_.promote(wanted);
  if (!coming.ok()) {  // too much waits: nothing is granted now
    session.not_now.insert(session.not_now.end(), session.wanted.begin(), session.wanted.end());
    session.wanted.clear();
    coming = cache_.promote({});
  }
  if (!coming.ok()) return;
  wanted_ += session.wanted.size();
  session.coming = *std::move(coming);
  sessions_.emplace(key, std::move(session));
}

std::vector<BlockLessor::Answer> BlockLessor::take_answers() {
  std::vector<Answer> answers;
  for (auto& [key, session] : sessions_) {
    if (!session.coming || !session.coming->ended()) continue;
    PeerMessage answer{
        .word = PeerMessage::Word::grant, .session = key.second, .lease = options_.lease};
    answer.not_now = std::exchange(session.not_now, {});
    auto wanted = session.wanted.begin();
    for (Promoted& one : session.coming->take()) {
      const BlockHash hash = *wanted++;
      if (one.status.code() == Code::exhausted && has(hash)) answer.not_now.push_back(hash);
      if (!one.status.ok()) continue;  // the lessee does not find it granted
      const BlockIdentity& identity = one.block.identity();
      answer.granted.push_back(
          {one.block.hash(), one.block.slot(), identity.digest, identity.block.parent});
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
  wanted_ -= known->second.wanted.size();
  sessions_.erase(known);
}

void BlockLessor::end_leases() {
  const Instant now = options_.clock->now();
  std::erase_if(sessions_, [&](const auto& entry) {
    const Session& session = entry.second;
    const bool is_over = !session.coming && (now >= session.end || session.held.empty());
    if (!is_over && !(options_.is_gone && options_.is_gone(session.lessee))) return false;
    wanted_ -= session.wanted.size();
    if (!session.held.empty()) ++ended_leases_;
    return true;
  });
}

}  // namespace towpath::kv
