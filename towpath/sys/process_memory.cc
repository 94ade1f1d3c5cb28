#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>

#include <sys/uio.h>
#include <unistd.h>

#include <towpath/core/checked.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/process.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kBatch = 256;  // of each side per system call; the kernel takes 1024

/// Walks over parts, in batches of iovec, from wherever the kernel stopped.
template <typename Part>
class Cursor {
 public:
  explicit Cursor(std::span<const Part> parts) : parts_(parts) {}

  /// What comes next, at most kBatch parts.
  std::span<const iovec> batch() {
    std::size_t count = 0;
    std::uint64_t skip = offset_;
    for (std::size_t i = index_; i < parts_.size() && count < kBatch; ++i, skip = 0)
      if (parts_[i].size_bytes > skip) batch_[count++] = cut(parts_[i], skip);
    return {batch_.data(), count};
  }

  void advance(std::uint64_t bytes) {
    offset_ += bytes;
    while (index_ < parts_.size() && offset_ >= parts_[index_].size_bytes)
      offset_ -= parts_[index_++].size_bytes;
  }

 private:
  static iovec cut(const IoPart& part, std::uint64_t skip) {
    return {static_cast<std::byte*>(part.data) + skip, part.size_bytes - skip};
  }
  static iovec cut(const RemotePart& part, std::uint64_t skip) {
    return {bytes_at(part.address + skip, 0).data(), part.size_bytes - skip};
  }

  std::span<const Part> parts_;
  std::size_t index_ = 0;
  std::uint64_t offset_ = 0;  // into parts_[index_]
  std::array<iovec, kBatch> batch_;
};

template <typename Part>
std::optional<std::uint64_t> total_of(std::span<const Part> parts) {
  std::uint64_t total = 0;
  for (const Part& part : parts) {
    const auto sum = checked_add(total, part.size_bytes);
    if (!sum) return std::nullopt;
    total = *sum;
  }
  return total;
}

struct Progress {
  const char* verb;
  pid_t pid;
  std::uint64_t done;
  std::uint64_t total;
};

Status memory_error(int errno_value, const Progress& at) {
  const std::string what = cat("cannot ", at.verb, " the memory of process ", at.pid, ": ", at.done,
                               " of ", at.total, " bytes moved");
  switch (errno_value) {
    case ESRCH: return error(Code::peer_lost, cat(what, ", then the process was gone"));
    case EFAULT:
      return error(Code::out_of_range, cat(what, ", the next are not mapped on one of the sides"));
    case EPERM:
      return os_error(errno_value, what,
                      "run both processes as the same user and set kernel.yama.ptrace_scope=0 (or "
                      "let the owner call prctl(PR_SET_PTRACER)), or grant CAP_SYS_PTRACE");
    case ENOSYS:
      return os_error(
          errno_value, what,
          "the kernel or a seccomp profile leaves process_vm_readv out: share memory by "
          "memfd instead");
    default: return os_error(errno_value, what);
  }
}

using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                         unsigned long);

Result<std::uint64_t> move_bytes(Call call, Progress at, std::span<const IoPart> local,
                                 std::span<const RemotePart> remote) {
  const auto ours = total_of(local);
  const auto theirs = total_of(remote);
  if (!ours || !theirs || *ours != *theirs)
    return error(Code::invalid_argument,
                 cat("local and remote parts differ in length: ", ours.value_or(UINT64_MAX),
                     " and ", theirs.value_or(UINT64_MAX), " bytes"));
  at.total = *ours;
  Cursor here(local);
  Cursor there(remote);
  while (at.done < at.total) {
    const auto mine = here.batch();
    const auto other = there.batch();
    const ssize_t moved = call(at.pid, mine.data(), mine.size(), other.data(), other.size(), 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return memory_error(moved < 0 ? errno : EIO, at);
    at.done += static_cast<std::uint64_t>(moved);
    here.advance(static_cast<std::uint64_t>(moved));
    there.advance(static_cast<std::uint64_t>(moved));
  }
  return at.done;
}

/// 0: everyone of the same user; 1: only descendants and whom the owner named; 2: only with the
/// capability; 3: nobody (Documentation/admin-guide/LSM/Yama.rst).
void judge_scope(const Result<std::string>& text, Finding& finding) {
  if (!text.ok()) {
    finding.reason = text.status().message();
    return;
  }
  const auto scope = parse_number(*text);
  if (!scope) {
    finding.reason = "ptrace_scope is no number";
    return;
  }
  finding.reason = cat("ptrace_scope is ", *scope);
  finding.verdict = *scope == 0 ? Verdict::yes : *scope == 1 ? Verdict::degraded : Verdict::no;
  if (*scope != 0)
    finding.hint =
        "sysctl kernel.yama.ptrace_scope=0, or CAP_SYS_PTRACE; without, memory is shared by memfd";
}

}  // namespace

Result<std::uint64_t> read_process_memory(pid_t pid, std::span<const IoPart> local,
                                          std::span<const RemotePart> remote) {
  return move_bytes(::process_vm_readv, {.verb = "read", .pid = pid}, local, remote);
}

Result<std::uint64_t> write_process_memory(pid_t pid, std::span<const IoPart> local,
                                           std::span<const RemotePart> remote) {
  return move_bytes(::process_vm_writev, {.verb = "write", .pid = pid}, local, remote);
}

Finding probe_process_memory(const std::string& proc) {
  const std::string scope_path = proc + "/sys/kernel/yama/ptrace_scope";
  Finding finding{.question = "Can a process read the memory of another one of the same user?",
                  .signal = "kernel.yama.ptrace_scope, then process_vm_readv(2) of one own byte",
                  .source = scope_path};
  char source = 1, target = 0;
  const IoPart local{&target, 1};
  const RemotePart remote{address_of(&source), 1};
  if (auto moved = read_process_memory(::getpid(), {&local, 1}, {&remote, 1}); !moved.ok()) {
    finding.verdict = Verdict::no;
    finding.reason = moved.status().message();
    finding.hint = moved.status().hint();
    return finding;
  }
  const auto text = read_text_file(scope_path);
  if (text.ok() || text.code() != Code::not_found) {
    judge_scope(text, finding);
  } else {
    finding.verdict = Verdict::yes;
    finding.reason = "this kernel has no Yama";
  }
  return finding;
}

}  // namespace towpath::sys
