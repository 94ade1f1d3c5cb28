#include <utility>

#include <towpath/kv/peers/hand_over.h>

namespace towpath::kv {

bool HandOver::has_arrived(const Held& one) const {
  return (options_.block_directory->tiers_of(one.block.hash()) & 1U << options_.server) != 0;
}

void HandOver::hold(BlockRef block) {
  Held one{std::move(block), options_.clock->now() + options_.timeout};
  if (options_.most_blocks == 0 || has_arrived(one)) return;
  if (held_.size() == options_.most_blocks) {
    held_.pop_front();
    ++figures_.given_up;
  }
  held_.push_back(std::move(one));
}

/// Servers take blocks in the order of the reports, more or less: those behind the first that is
/// missing are verified with it, once it has gone.
bool HandOver::progress() {
  const std::size_t before = held_.size();
  while (!held_.empty()) {
    const bool arrived = has_arrived(held_.front());
    if (!arrived && options_.clock->now() < held_.front().until) break;
    ++(arrived ? figures_.handed_over : figures_.given_up);
    held_.pop_front();
  }
  return held_.size() < before;
}

void HandOver::give_up() {
  figures_.given_up += held_.size();
  held_.clear();
}

}  // namespace towpath::kv
