#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/sys/file_range.h>
#include <towpath/sys/open_rules.h>

namespace towpath::sys {

using internal::quoted_path;

Result<std::size_t> FileRange::read_at(ByteSpan into, std::uint64_t offset) {
  const FdRange& range = parts_.range;
  if (offset >= range.size_bytes) return std::size_t{0};
  const std::uint64_t length = std::min<std::uint64_t>(into.size(), range.size_bytes - offset);
  return parts_.whole->read_at(into.first(length), range.begin + offset);
}

Result<std::size_t> FileRange::write_at(ConstByteSpan from, std::uint64_t offset) {
  const FdRange& range = parts_.range;
  if (!parts_.writable)
    return error(Code::denied, cat(quoted_path(path()), " is open for reading only"));
  if (from.empty()) return std::size_t{0};
  if (offset >= range.size_bytes)
    return error(Code::exhausted,
                 cat("offset ", offset, " is behind the end of ", quoted_path(path()),
                     ", which has ", range.size_bytes, " bytes and cannot grow"));
  const std::uint64_t length = std::min<std::uint64_t>(from.size(), range.size_bytes - offset);
  return parts_.whole->write_at(from.first(length), range.begin + offset);
}

void FileRange::drop_cache(const FdRange& range) {
  const FdRange& all = parts_.range;
  if (range.begin >= all.size_bytes) return;
  parts_.whole->drop_cache(
      {.begin = all.begin + range.begin,
       .size_bytes = std::min(range.size_bytes, all.size_bytes - range.begin)});
}

Status FileRange::resize(std::uint64_t size_bytes) {
  if (size_bytes == parts_.range.size_bytes) return {};
  return error(Code::unsupported, cat(quoted_path(path()), " has ", parts_.range.size_bytes,
                                      " bytes, always; not ", size_bytes));
}

Status FileRange::preallocate(std::uint64_t size_bytes) {
  if (size_bytes <= parts_.range.size_bytes) return {};
  return error(Code::exhausted, cat(quoted_path(path()), " has ", parts_.range.size_bytes,
                                    " bytes, always; not ", size_bytes));
}

}  // namespace towpath::sys
