#include <utility>

#include <towpath/kv/connector/block_keeper.h>

namespace towpath::kv {

std::vector<Result<BlockRef>> BlockKeeper::hold(std::span<const BlockHash> hashes,
                                                const std::function<void()>& meanwhile) {
  constexpr Duration kNap = std::chrono::milliseconds(1);
  std::vector<Result<BlockRef>> held(hashes.size(), BlockRef());
  for (const auto coming = bring(hashes, 50);;) {
    for (ComingBlocks::Came& came : coming->take()) {
      if (came.status.ok())
        held[came.index] = std::move(came.block);
      else
        held[came.index] = std::move(came.status);
    }
    if (coming->left() == 0) return held;
    const bool more = progress();
    if (meanwhile) meanwhile();
    if (!more) wait_for_work(kNap);
  }
}

}  // namespace towpath::kv
