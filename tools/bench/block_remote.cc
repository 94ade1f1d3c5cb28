#include <towpath/core/format.h>
#include <towpath/memory/block_region.h>
#include <towpath/memory/registered.h>
#include <towpath/memory/system_region.h>

#include "tools/bench/remote.h"

namespace towpath::tools::bench {
namespace {

/// It is filled and verified through the agent, whole, before and after what is measured: there is
/// no other way past the caches to a drive that only takes commands.
class BlockRemote final : public Remote {
 public:
  explicit BlockRemote(agent::Agent& agent) : agent_(agent) {}

  Status open(const Options& options, std::uint64_t bytes) {
    TOWPATH_TRY(auto drive,
                memory::BlockRegion::create({.path = options.drive,
                                             .size_bytes = bytes,
                                             .access = memory::BlockAccess::read_write}));
    TOWPATH_TRY(drive_, agent_.register_region(std::move(drive)));
    TOWPATH_TRY(copy_, memory::SystemRegion::allocate(bytes));
    TOWPATH_TRY(registered_copy_, agent_.register_region(copy_));
    path_ = options.drive;
    if (!options.backend.empty()) backends_ = {options.backend};
    return {};
  }

  const std::string& peer() const override { return agent_.name(); }
  MemoryKind kind() const override { return MemoryKind::block; }
  Status add(DescriptorList& list, const StridedDescriptor& blocks) const override {
    const RegionDescriptor drive = drive_.descriptor();
    return add_from({drive.address, drive.length, drive.device_id}, list, blocks);
  }
  std::string what() const override { return cat("the drive ", printable(path_)); }

  Result<Duration> prepare(const Blocks& blocks, Before before) override {
    const ByteSpan area = copy_->bytes().first(blocks.area_bytes());
    if (before == Before::pattern)
      fill(area, blocks.seed);
    else
      poison(area);
    TOWPATH_TRY(move(TransferOp::write, area));
    return Duration(0);
  }

  Result<Looked> look(const Blocks& blocks) override {
    if (blocks.count == 0) return Looked{};
    const ByteSpan area = copy_->bytes().first(blocks.area_bytes());
    std::ranges::fill(area, std::byte{0});
    TOWPATH_TRY(move(TransferOp::read, area));
    return Looked{.wrong = first_wrong(area, blocks)};
  }

 private:
  Status move(TransferOp op, ByteSpan area) {
    DescriptorList here(MemoryKind::system), there(MemoryKind::block);
    TOWPATH_TRY(here.add(Descriptor{address_of(area.data()), area.size(), 0}));
    TOWPATH_TRY(add(there, {.length = area.size(), .stride = area.size(), .count = 1}));
    TOWPATH_TRY(auto transfer,
                agent_.create_transfer(op, here, peer(), there, {.backends = backends_}));
    TOWPATH_TRY(transfer.post({}));
    return transfer.wait() == Outcome::done ? Status() : transfer.status();
  }

  agent::Agent& agent_;
  std::string path_;
  std::vector<std::string> backends_;  // empty: whichever can
  std::shared_ptr<memory::SystemRegion> copy_;
  memory::Registration registered_copy_;
  memory::Registration drive_;
};

}  // namespace

Result<std::unique_ptr<Remote>> open_block_remote(agent::Agent& agent, const Options& options,
                                                  std::uint64_t bytes) {
  auto remote = std::make_unique<BlockRemote>(agent);
  TOWPATH_TRY(remote->open(options, bytes));
  return std::unique_ptr<Remote>(std::move(remote));
}

}  // namespace towpath::tools::bench
