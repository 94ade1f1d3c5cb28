// Whether the kernel does what some calls promise, for tests that need it: what emulates one
// (qemu's user mode, gVisor) takes the call, and does less or nothing. Asked of it by the plain
// call, and not of the library, which must not skip its own tests. Each answers why not; empty
// where it does. Thread: the one that forks.
#pragma once

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/fd.h>

namespace towpath::sys::testing {

/// process_vm_readv(2), of this very process.
inline std::string why_no_process_memory() {
  char from = 'x', into = 0;
  const iovec local{&into, 1}, remote{&from, 1};
  if (::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1) return {};
  return cat("process_vm_readv of this very process: ", std::strerror(errno));
}

/// MADV_WIPEONFORK of madvise(2): a child finds zeros.
inline std::string why_no_wipe_on_fork() {
  constexpr std::size_t kBytes = 4096;
  void* const page =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return cat("mmap: ", std::strerror(errno));
  std::string why;
  if (::madvise(page, kBytes, MADV_WIPEONFORK) != 0) {
    why = cat("madvise(MADV_WIPEONFORK): ", std::strerror(errno));
  } else {
    *static_cast<char*>(page) = 1;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(*static_cast<char*>(page));
    int status = -1;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0)
      why = "madvise(MADV_WIPEONFORK) is taken, and a child finds the bytes all the same";
  }
  ::munmap(page, kBytes);
  return why;
}

/// Reserved pages of 2 MiB mapped by mmap(2), where there are free ones: they lie at their own
/// size.
inline std::string why_no_huge_pages() {
  constexpr std::size_t kBytes = std::size_t{2} << 20U;
  constexpr int kSize = 21 << 26;  // MAP_HUGE_2MB, which headers lack before glibc 2.38
  void* const page = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | kSize, -1, 0);
  if (page == MAP_FAILED) return cat("mmap(MAP_HUGETLB): ", std::strerror(errno));
  ::munmap(page, kBytes);
  return {};
}

/// MSG_CTRUNC of recvmsg(2), where more descriptors come than there is room for.
inline std::string why_no_report_of_lost_descriptors() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return cat("socketpair: ", std::strerror(errno));
  const Fd from(ends[0]), into(ends[1]);
  constexpr std::size_t kSent = 8;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kSent)> sent{}, room{};
  char byte = 'x';
  iovec part{&byte, 1};
  msghdr message{.msg_name = nullptr,
                 .msg_namelen = 0,
                 .msg_iov = &part,
                 .msg_iovlen = 1,
                 .msg_control = sent.data(),
                 .msg_controllen = sent.size(),
                 .msg_flags = 0};
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * kSent);
  const std::array<int, kSent> zeros{};
  std::memcpy(CMSG_DATA(header), zeros.data(), sizeof zeros);
  if (::sendmsg(from.get(), &message, 0) != 1) return cat("sendmsg: ", std::strerror(errno));
  message.msg_control = room.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  if (::recvmsg(into.get(), &message, MSG_CMSG_CLOEXEC) != 1)
    return cat("recvmsg: ", std::strerror(errno));
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    for (std::size_t i = 0; CMSG_LEN(sizeof(int) * (i + 1)) <= one->cmsg_len; ++i) {
      int got = -1;
      std::memcpy(&got, CMSG_DATA(one) + sizeof(int) * i, sizeof got);
      const Fd closed(got);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) return {};
  return "recvmsg has room for 1 of 8 descriptors, and says nothing (MSG_CTRUNC)";
}

/// This program can be started anew: execve(2) of a program of another processor needs binfmt_misc.
inline std::string why_no_program_of_its_own() {
  std::array<char, 4096> self{};
  if (::readlink("/proc/self/exe", self.data(), self.size() - 1) < 0)
    return cat("readlink: ", std::strerror(errno));
  std::string list = "--gtest_list_tests", none = "--gtest_filter=-*";
  std::array<char*, 4> words{self.data(), list.data(), none.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, self.data(), &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return cat("this program cannot start itself: ", std::strerror(failed));
  int status = -1;
  if (::waitpid(child, &status, 0) == child && status == 0) return {};
  return cat("this program, started by itself, ends with wait status ", status);
}

}  // namespace towpath::sys::testing
