#include <string>

#include <unistd.h>

#include <towpath/backends/shm/peer_file.h>
#include <towpath/backends/shm/probe.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/process.h>

namespace towpath::backends::shm {
namespace {

Status map_own_memfd() {
  TOWPATH_TRY(const sys::Fd fd, sys::create_sealed_memfd("towpath-shm-probe", 4096));
  TOWPATH_TRY(const FileRef file, file_ref(fd.get()));
  return PeerMapping::open({.pid = ::getpid(), .file = file, .writable = true}).status();
}

/// Without a descriptor or memory to try it with, nothing is known of the machine.
Verdict verdict_of(const Status& status) {
  if (status.ok()) return Verdict::yes;
  return status.code() == Code::exhausted ? Verdict::unknown : Verdict::no;
}

std::string hint_of(const Status& status) {
  switch (status.code()) {
    case Code::not_found: return "mount proc(5) at /proc";  // our own descriptor is not there
    case Code::unsupported: return "allow memfd_create(2) and file seals (seccomp profile, kernel)";
    default: return std::string(status.hint());
  }
}

Finding probe_mapping() {
  Finding finding{.question = "Can a process map the shared memory of another one?",
                  .signal = "memfd_create, seals, open through /proc/<pid>/fd, mmap",
                  .source = "a memfd of this process"};
  const Status status = map_own_memfd();
  finding.verdict = verdict_of(status);
  finding.reason = status.ok() ? "all of it works" : std::string(status.message());
  finding.hint = hint_of(status);
  return finding;
}

}  // namespace

std::vector<Finding> probe_shm() { return {probe_mapping(), sys::probe_process_memory()}; }

}  // namespace towpath::backends::shm
