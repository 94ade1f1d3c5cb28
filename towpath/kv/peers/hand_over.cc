#include <algorithm>
#include <unordered_set>
#include <utility>

#include <towpath/kv/peers/hand_over.h>

namespace towpath::kv {

bool HandOver::has_arrived(BlockHash hash) const {
  return (options_.block_directory->tiers_of(hash) & 1U << options_.server) != 0;
}

void HandOver::hold(BlockRef block) {
  Held one{std::move(block), options_.clock->now() + options_.timeout};
  if (options_.most_blocks == 0 || has_arrived(one.block.hash())) return;
  if (held_.size() == options_.most_blocks) give_up_first();
  held_.push_back(std::move(one));
}

/// Servers take blocks in the order of the reports, more or less: those behind the first that is
/// missing are verified with it, once it has gone.
bool HandOver::progress() {
  const std::size_t before = held_.size();
  while (!held_.empty()) {
    if (has_arrived(held_.front().block.hash())) {
      ++figures_.handed_over;
      held_.pop_front();
    } else if (options_.clock->now() >= held_.front().until) {
      give_up_first();
    } else {
      break;
    }
  }
  return held_.size() < before;
}

void HandOver::give_up() {
  while (!held_.empty()) give_up_first();
}

/// The server may take it yet, while it is in memory.
void HandOver::give_up_first() {
  if (given_up_.size() == options_.most_blocks) {
    if (!has_arrived(given_up_.front())) ++missing_;
    given_up_.pop_front();
  }
  given_up_.push_back(held_.front().block.hash());
  held_.pop_front();
  ++figures_.given_up;
}

std::uint64_t HandOver::take_missing() {
  const std::unordered_set<BlockHash> given_up(given_up_.begin(), given_up_.end());
  given_up_.clear();
  const auto has_not = [this](BlockHash hash) { return !has_arrived(hash); };
  return std::exchange(missing_, 0) +
         static_cast<std::uint64_t>(std::ranges::count_if(given_up, has_not));
}

}  // namespace towpath::kv
