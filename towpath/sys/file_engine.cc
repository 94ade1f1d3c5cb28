#include <cerrno>

#include <sys/uio.h>

#include <towpath/sys/file_engine.h>

namespace towpath::sys {

std::int32_t FileEngine::read_cached(const FileIo& io) {
  const auto* vectors = reinterpret_cast<const iovec*>(io.parts.data());
  const ssize_t got = ::preadv2(io.file.fd, vectors, static_cast<int>(io.parts.size()),
                                static_cast<off_t>(io.offset), RWF_NOWAIT);
  return static_cast<std::int32_t>(got < 0 ? -errno : got);
}

}  // namespace towpath::sys
