#include <cerrno>
#include <charconv>
#include <optional>

#include <fcntl.h>

#include <towpath/core/text.h>
#include <towpath/standard/shmem.h>
#include <towpath/sys/os_error.h>

namespace towpath::standard {
namespace {

constexpr const char* kPe = "TOWPATH_SHMEM_PE";
constexpr const char* kJob = "TOWPATH_SHMEM_JOB";
constexpr const char* kHeap = "TOWPATH_SHMEM_HEAP";

Status cannot_read(std::string_view name, std::string_view value) {
  return error(Code::invalid_argument, cat(name, "=", printable(value), " cannot be read"),
               "start the program with `towpath run`");
}

Result<int> number(std::string_view name, std::string_view text) {
  int value = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < 0)
    return cannot_read(name, text);
  return value;
}

/// A descriptor of our own for an inherited one, which further programs do not inherit.
Result<sys::Fd> adopt(int inherited) {
  if (::fcntl(inherited, F_SETFD, FD_CLOEXEC) != 0)
    return error(Code::not_ready, cat("descriptor ", inherited, " of the job was not inherited"),
                 "a program that closes descriptors stands between; start the PE itself with "
                 "`towpath run`")
        .because(sys::os_error(errno, "fcntl"));
  sys::Fd borrowed(inherited);
  auto own = borrowed.duplicate();
  (void)borrowed.release();
  return own;
}

Result<shmem::JobFiles> adopt_all(std::string_view list) {
  shmem::JobFiles files;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    TOWPATH_TRY(const int inherited, number(kJob, list.substr(begin, end - begin)));
    TOWPATH_TRY(sys::Fd own, adopt(inherited));
    if (!files.control)
      files.control = std::move(own);
    else
      files.heaps.push_back(std::move(own));
    begin = end + 1;
  }
  return files;
}

}  // namespace

Result<shmem::Bootstrap> shmem_bootstrap(const Environment& environment) {
  shmem::Bootstrap bootstrap;
  const auto job = environment.find(kJob);
  const auto pe = environment.find(kPe);
  if (job != environment.end() && pe != environment.end()) {
    TOWPATH_TRY(bootstrap.my_pe, number(kPe, pe->second));
    TOWPATH_TRY(bootstrap.files, adopt_all(job->second));
    bootstrap.pes = static_cast<int>(bootstrap.files->heaps.size());
  }
  if (const auto heap = environment.find(kHeap); heap != environment.end()) {
    const auto bytes = parse_bytes(heap->second);
    if (!bytes.ok()) return cannot_read(kHeap, heap->second).because(bytes.status());
    bootstrap.heap_bytes = *bytes;
  }
  return bootstrap;
}

Environment shmem_variables(const shmem::JobFiles& files, int pe) {
  std::string list = cat(files.control.get());
  for (const sys::Fd& heap : files.heaps) list += cat(",", heap.get());
  return {{kPe, cat(pe)}, {kJob, std::move(list)}};
}

Result<shmem::Context> open_shmem(const shmem::ContextOptions& options) {
  TOWPATH_TRY(shmem::Bootstrap bootstrap, shmem_bootstrap(read_environment()));
  return shmem::Context::open(std::move(bootstrap), options);
}

}  // namespace towpath::standard
