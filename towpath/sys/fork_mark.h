// ForkMark: whether this process is a forked child of the one that made the mark.
//
// A child has a copy of what its parent holds, and shares descriptors, mappings and peers with it:
// to let go of the copy as if it were its own would take them from the parent. So what stands for
// such things remembers whose it is.
//
// It is a page that the kernel empties in a child (MADV_WIPEONFORK), so that a look costs a load;
// where there is none, the process's number is asked for. Thread: any.
#pragma once

#include <atomic>

#include <towpath/sys/mapping.h>
#include <towpath/sys/own_process.h>

namespace towpath::sys {

class ForkMark {
 public:
  ForkMark() noexcept;

  bool is_inherited() const noexcept {
    if (!page_) return !process_.is_this();
    // Relaxed: a child has one thread when it begins, and the page changes in no other way.
    return std::atomic_ref(*page_.data()).load(std::memory_order_relaxed) == std::byte{};
  }

 private:
  Mapping page_;
  OwnProcess process_;
};

}  // namespace towpath::sys
