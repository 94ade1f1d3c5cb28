#include <towpath/core/format.h>
#include <towpath/memory/disk_region.h>

#include "tools/bench/remote.h"

namespace towpath::tools::bench {
namespace {

class FileRemote final : public Remote {
 public:
  explicit FileRemote(std::string agent) : name_(std::move(agent)) {}

  Status open(agent::Agent& agent, const Options& options, std::uint64_t bytes) {
    if (!options.file.empty() && files_.open(options.file, {}).ok())
      return error(Code::already_exists, cat(printable(options.file, 256), " is there already"),
                   "name a file that is not: it would be overwritten");
    TOWPATH_TRY(region_,
                memory::DiskRegion::open(
                    {.path = options.file.empty() ? options.directory + "/" : options.file,
                     .size_bytes = bytes,
                     .direct = options.direct ? memory::DirectIo::required : memory::DirectIo::off,
                     .life = memory::FileLife::nameless},  // an interrupt leaves nothing
                    files_));
    TOWPATH_TRY(registration_, agent.register_region(region_));
    return {};
  }

  const std::string& peer() const override { return name_; }
  MemoryKind kind() const override { return MemoryKind::disk; }
  Status add(DescriptorList& list, const StridedDescriptor& blocks) const override {
    const RegionDescriptor file = registration_.descriptor();
    return add_from({file.address, file.length, file.device_id}, list, blocks);
  }
  std::string what() const override {
    return cat("a file in ", printable(region_->path(), 256),
               region_->direct() ? ", past the page cache" : ", through the page cache");
  }

  Result<Duration> prepare(const Blocks& blocks, Before before) override {
    Bytes all(blocks.area_bytes());
    if (before == Before::pattern)
      fill(all, blocks.seed);
    else
      poison(all);
    TOWPATH_TRY(const auto file, buffered(true));
    TOWPATH_TRY(sys::write_exactly(*file, all, 0));
    TOWPATH_TRY(file->sync());  // so that writing it back does not run into the measurement
    return Duration(0);
  }

  Result<Looked> look(const Blocks& blocks) override {
    if (blocks.count == 0) return Looked{};
    Bytes all(blocks.area_bytes());
    TOWPATH_TRY(const auto file, buffered(false));
    TOWPATH_TRY(sys::read_exactly(*file, all, 0));
    return Looked{.wrong = first_wrong(all, blocks)};
  }

 private:
  // Through a descriptor without O_DIRECT: lengths and addresses need not be aligned then.
  Result<std::unique_ptr<sys::File>> buffered(bool writable) {
    return files_.open(cat("/proc/self/fd/", region_->file().fd()), {.writable = writable});
  }

  sys::SystemFileSystem files_;
  const std::string name_;
  std::shared_ptr<memory::DiskRegion> region_;
  memory::Registration registration_;
};

}  // namespace

Result<std::unique_ptr<Remote>> open_file_remote(agent::Agent& agent, const Options& options,
                                                 std::uint64_t bytes) {
  auto remote = std::make_unique<FileRemote>(agent.name());
  TOWPATH_TRY(remote->open(agent, options, bytes));
  return std::unique_ptr<Remote>(std::move(remote));
}

}  // namespace towpath::tools::bench
