#include <cerrno>
#include <vector>

#include <sys/resource.h>
#include <sys/uio.h>

#include <towpath/sys/os_error.h>
#include <towpath/sys/uring_state.h>

namespace towpath::sys {
namespace {

std::string locked_memory_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_bytes(limit.rlim_cur);
}

Status buffers_error(int errno_value, std::uint64_t total_bytes) {
  const std::string what = cat("cannot register buffers of ", format_bytes(total_bytes));
  switch (errno_value) {
    case ENOMEM:
      return os_error(errno_value,
                      cat(what, " (locked memory is limited to ", locked_memory_limit(), ")"),
                      "raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=), or register less");
    case EFAULT:
      return error(Code::invalid_argument, cat(what, ": ", errno_text(errno_value)),
                   "the bytes are not mapped, or their pages cannot be pinned (device or peer "
                   "memory): use plain reads and writes for them");
    case EBUSY: return error(Code::already_exists, cat(what, ": a set is registered already"));
    case ENXIO: return error(Code::not_ready, cat(what, ": no set is registered"));
    default: return os_error(errno_value, what);
  }
}

Status files_error(int errno_value, std::size_t count) {
  const std::string what = cat("cannot register ", count, " files");
  switch (errno_value) {
    case EBUSY: return error(Code::already_exists, cat(what, ": a set is registered already"));
    case ENXIO: return error(Code::not_ready, cat(what, ": no set is registered"));
    default: return os_error(errno_value, what);
  }
}

iovec to_iovec(ByteSpan bytes) noexcept { return {bytes.data(), bytes.size()}; }

}  // namespace

Status Ring::register_buffers(std::span<const ByteSpan> buffers) {
  std::vector<iovec> vectors;
  std::uint64_t total = 0;
  for (const ByteSpan buffer : buffers) {
    vectors.push_back(to_iovec(buffer));
    total += buffer.size();
  }
  const int rc = io_uring_register_buffers(&state_->ring, vectors.data(),
                                           static_cast<unsigned>(vectors.size()));
  return rc < 0 ? buffers_error(-rc, total) : Status();
}

Status Ring::reserve_buffers(unsigned count) {
  const int rc = io_uring_register_buffers_sparse(&state_->ring, count);
  return rc < 0 ? buffers_error(-rc, 0) : Status();
}

Status Ring::set_buffer(unsigned index, ByteSpan buffer) {
  const iovec vector = to_iovec(buffer);
  const __u64 tag = 0;
  const int rc = io_uring_register_buffers_update_tag(&state_->ring, index, &vector, &tag, 1);
  return rc < 0 ? buffers_error(-rc, buffer.size()) : Status();
}

Status Ring::unregister_buffers() {
  const int rc = io_uring_unregister_buffers(&state_->ring);
  return rc < 0 ? buffers_error(-rc, 0) : Status();
}

Status Ring::register_files(std::span<const int> fds) {
  const int rc =
      io_uring_register_files(&state_->ring, fds.data(), static_cast<unsigned>(fds.size()));
  return rc < 0 ? files_error(-rc, fds.size()) : Status();
}

Status Ring::reserve_files(unsigned count) {
  const int rc = io_uring_register_files_sparse(&state_->ring, count);
  return rc < 0 ? files_error(-rc, count) : Status();
}

Status Ring::set_file(unsigned index, int fd) {
  const int rc = io_uring_register_files_update(&state_->ring, index, &fd, 1);
  return rc < 0 ? files_error(-rc, 1) : Status();
}

Status Ring::unregister_files() {
  const int rc = io_uring_unregister_files(&state_->ring);
  return rc < 0 ? files_error(-rc, 0) : Status();
}

}  // namespace towpath::sys
