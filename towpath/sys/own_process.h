// OwnProcess: the process that made this value, which a forked child's copy of it still names. What
// removes a file, or gives back a lock, when it goes has one: in a child it takes nothing away,
// since it is a copy of the parent's. What is asked on a data path has a ForkMark, which costs a
// load. Thread: as any value.
#pragma once

#include <unistd.h>

namespace towpath::sys {

class OwnProcess {
 public:
  /// False in a forked child. Cost: a system call.
  bool is_this() const noexcept { return pid_ == ::getpid(); }

 private:
  pid_t pid_ = ::getpid();
};

}  // namespace towpath::sys
