#include <towpath/core/format.h>
#include <towpath/sys/file.h>

namespace towpath::sys {
namespace {

std::string describe(const char* verb, const File& file, std::size_t length, std::uint64_t offset) {
  return cat("cannot ", verb, " ", length, " bytes at offset ", offset, " of '",
             printable(file.path(), 256), "'");
}

}  // namespace

Status File::mark_in_use() {
  return error(Code::unsupported, cat("'", printable(path(), 256), "' takes no marks"));
}

Result<bool> File::in_use() {
  return error(Code::unsupported, cat("'", printable(path(), 256), "' takes no marks"));
}

Status sync_and_drop_cache(File& file, const FdRange& range) {
  TOWPATH_TRY(file.sync());
  file.drop_cache(range);
  return {};
}

Status read_exactly(File& file, ByteSpan into, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < into.size()) {
    auto got = file.read_at(into.subspan(done), offset + done);
    if (!got.ok())
      return error(got.code(),
                   cat(describe("read", file, into.size(), offset), ": stopped after ", done))
          .because(got.status());
    done += *got;
    // Off the alignment, a direct read can only have met the end; going on would be EINVAL.
    if (*got == 0 || (done < into.size() && done % file.alignment() != 0))
      return error(Code::corrupt, cat(describe("read", file, into.size(), offset),
                                      ": the file ends after ", done, " of them"));
  }
  return {};
}

Status write_exactly(File& file, ConstByteSpan from, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < from.size()) {
    auto put = file.write_at(from.subspan(done), offset + done);
    if (!put.ok())
      return error(put.code(),
                   cat(describe("write", file, from.size(), offset), ": stopped after ", done))
          .because(put.status());
    done += *put;
    if (*put == 0 || (done < from.size() && done % file.alignment() != 0))
      return error(Code::io_error, cat(describe("write", file, from.size(), offset),
                                       ": the file system took only ", done, " of them"));
  }
  return {};
}

}  // namespace towpath::sys
