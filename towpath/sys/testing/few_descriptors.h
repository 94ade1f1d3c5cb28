// For tests: a process that has hardly a descriptor left to open. Thread: one at a time, of all
// that open something.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace towpath::sys::testing {

/// Leaves so many descriptors free for its lifetime.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t free) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int first = ::dup(0);
    ::close(first);
    const rlimit few{static_cast<rlim_t>(first) + free, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

}  // namespace towpath::sys::testing
