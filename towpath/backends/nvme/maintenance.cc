#include <algorithm>
#include <array>

#include <towpath/backends/nvme/maintenance.h>
#include <towpath/backends/nvme/outcome.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::backends::nvme {
namespace {

Status check(const NamespaceInfo& info, std::span<const BlockRange> ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto& [lba, blocks] = ranges[i];
    if (blocks == 0) return error(Code::invalid_argument, cat("range ", i, " has no blocks"));
    if (!range_fits(lba, blocks, info.blocks))
      return error(Code::out_of_range,
                   cat("range ", i, ", ", blocks, " blocks from ", lba, ", is beyond the ",
                       info.blocks, " blocks of ", info.path));
  }
  return {};
}

}  // namespace

Status flush(Namespace& target) {
  const std::int32_t result = target.execute(encode_flush(target.info().id));
  return result == 0 ? Status() : failure_of(result, cat("the flush of ", target.info().path));
}

Status deallocate(Namespace& target, std::span<const BlockRange> ranges) {
  const NamespaceInfo& info = target.info();
  TOWPATH_TRY(check(info, ranges));
  if (!target.writable())
    return error(Code::denied, cat(info.path, " is open for reading only"),
                 "open it with Access::read_write");
  if (!info.deallocates)
    return error(Code::unsupported, cat("the drive of ", info.path, " does not deallocate"));
  alignas(4096) std::array<std::byte, kMaxRanges * kRangeBytes> payload;
  for (std::size_t done = 0; done < ranges.size();) {
    const auto batch = ranges.subspan(done, std::min(kMaxRanges, ranges.size() - done));
    const ByteSpan bytes = ByteSpan(payload).first(batch.size() * kRangeBytes);
    encode_ranges(batch, bytes);
    TOWPATH_TRY(const Command command, encode_deallocate(info.id, bytes));
    if (const std::int32_t result = target.execute(command); result != 0)
      return failure_of(result, cat("the deallocation of ", batch.size(), " ranges of ", info.path,
                                    ", after ", done));
    done += batch.size();
  }
  return {};
}

}  // namespace towpath::backends::nvme
