// Tests in a child process of their own, where the kernel can be made to refuse what it grants
// here: system calls (a seccomp filter), locked memory, being root; or see other files. What is
// refused once cannot be had again, so it must be a process that ends. For tests only. Thread: the
// one that forks.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace towpath::sys::testing {

/// Why a test is skipped, and what to do about it.
inline constexpr const char* kNoFilter =
    "no seccomp filter can be set: let the container's own filter allow seccomp(2) and prctl(2)";
inline constexpr const char* kNoNobody =
    "rights cannot be given up: run as root with CAP_SETUID, or as a user without rights";
inline constexpr const char* kNoMounts =
    "no mount namespace of its own: run as root with CAP_SYS_ADMIN";

/// Runs `body` in a child; its failed expectations are printed, and reported here as one. A body
/// that skips has its whole test skipped, for the reason that it prints.
inline ::testing::AssertionResult passes_in_child(const std::function<void()>& body) {
  constexpr unsigned kWatchdogSeconds = 120;
  constexpr int kFailed = 1, kSkipped = 2;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return ::testing::AssertionFailure() << "cannot fork";
  if (child == 0) {
    ::alarm(kWatchdogSeconds);
    body();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? kFailed : ::testing::Test::IsSkipped() ? kSkipped : 0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ::testing::AssertionSuccess();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) {
    [] { GTEST_SKIP() << "its child says above why"; }();
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "the child ended with wait status " << status;
}

/// From now on, in this thread and those it starts, these system calls fail with `errno_value`.
/// Whether that worked. See seccomp(2).
inline bool refuse_calls(std::initializer_list<long> calls, int errno_value) {
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call), 0, 1));
    program.push_back(
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<__u32>(errno_value)));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

/// From now on a user without rights, who may lock `size_bytes` of memory. Whether that worked.
inline bool become_nobody(rlim_t size_bytes) {
  constexpr unsigned kNobody = 65534;
  const rlimit limit{size_bytes, size_bytes};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
  if (::geteuid() != 0) return true;
  return ::setresgid(kNobody, kNobody, kNobody) == 0 && ::setresuid(kNobody, kNobody, kNobody) == 0;
}

/// From now on names are looked up in this file instead of /etc/hosts. Whether that worked.
inline bool use_hosts_file(const std::string& path) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(path.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
}

}  // namespace towpath::sys::testing
