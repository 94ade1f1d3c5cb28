#include <algorithm>
#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include <towpath/backends/shm/host_facts.h>
#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/process.h>
#include <towpath/sys/text_file.h>

namespace towpath::backends::shm {
namespace {

Result<std::uint64_t> namespace_of(const char* path) {
  struct stat info {};
  if (::stat(path, &info) != 0) return sys::os_error(errno, cat("cannot look at ", path));
  return static_cast<std::uint64_t>(info.st_ino);
}

}  // namespace

Result<HostFacts> read_host_facts() {
  HostFacts facts;
  TOWPATH_TRY(const std::string text, sys::read_text_file("/proc/sys/kernel/random/boot_id"));
  const std::string_view boot = sys::trimmed(text);
  if (boot.size() != facts.boot_id.size())
    return error(Code::corrupt, cat("the boot id '", printable(boot), "' is none"));
  std::ranges::copy(boot, facts.boot_id.begin());
  facts.pid = static_cast<std::uint32_t>(::getpid());
  TOWPATH_TRY(facts.start_time, sys::process_start_time(::getpid()));
  TOWPATH_TRY(facts.pid_namespace, namespace_of("/proc/self/ns/pid"));
  TOWPATH_TRY(facts.network_namespace, namespace_of("/proc/self/ns/net"));
  facts.uid = ::geteuid();
  return facts;
}

Status check_same_host(const HostFacts& self, const HostFacts& peer) {
  if (self.boot_id != peer.boot_id)
    return error(Code::unsupported, "the peer runs on another host", "use a network backend");
  if (self.pid_namespace != peer.pid_namespace) {
    return error(Code::unsupported, "the peer lives in another pid namespace",
                 "start both containers with a shared pid namespace, or use a network backend");
  }
  if (self.network_namespace != peer.network_namespace) {
    return error(Code::unsupported, "the peer lives in another network namespace",
                 "start both containers with a shared network namespace, or use a network backend");
  }
  return {};
}

Result<FileRef> file_ref(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return sys::os_error(errno, cat("cannot look at descriptor ", fd));
  return FileRef{.fd = fd, .device = info.st_dev, .inode = info.st_ino};
}

}  // namespace towpath::backends::shm
