#include <towpath/kv/peers/block_lender.h>

namespace towpath::kv {

PeerMessage BlockLender::lend(const AgentIdentity& borrower, const PeerMessage& ask) {
  PeerMessage answer{
      .word = PeerMessage::Word::lend, .session = ask.session, .lease = options_.lease};
  release(borrower, ask.session);  // asked again: the first answer was lost
  Session session{{}, options_.clock->now() + options_.lease};
  for (const BlockHash hash : ask.hashes) {
    if (held_ + session.held.size() >= options_.most_blocks) break;
    Result<BlockRef> block = keeper_.hold(hash);
    if (!block.ok()) continue;  // the borrower does not find it in the answer
    answer.lent.push_back({hash, block->slot(), block->identity().digest});
    session.held.push_back(*std::move(block));
  }
  if (session.held.empty()) return answer;
  held_ += session.held.size();
  lent_blocks_ += session.held.size();
  sessions_[{borrower.incarnation, ask.session}] = std::move(session);
  return answer;
}

void BlockLender::release(const AgentIdentity& borrower, std::uint64_t session) {
  const auto known = sessions_.find({borrower.incarnation, session});
  if (known == sessions_.end()) return;
  held_ -= known->second.held.size();
  sessions_.erase(known);
}

void BlockLender::end_leases() {
  const Instant now = options_.clock->now();
  std::erase_if(sessions_, [&](const auto& entry) {
    if (now < entry.second.end) return false;
    held_ -= entry.second.held.size();
    ++ended_leases_;
    return true;
  });
}

}  // namespace towpath::kv
