// Lines: the output of a process, passed on by whole lines with a prefix.
// Thread: none of its own.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <towpath/sys/fd.h>

namespace towpath::tools {

class Lines {
 public:
  /// Reads `from`, which does not block; writes to `to`.
  Lines(sys::Fd from, std::FILE* to, std::string prefix)
      : from_(std::move(from)), to_(to), prefix_(std::move(prefix)) {}

  int fd() const noexcept { return from_.get(); }
  /// Passes on what is there, a bounded amount: there may be more. Of a line that is too long to be
  /// kept, what came is passed on as a line. False: the process has closed its side, and all is
  /// passed on.
  bool pass_on();
  /// The last call, though others may still hold that side open: a line that has not ended too.
  void end();

 private:
  void write_lines(bool with_rest);

  sys::Fd from_;
  std::FILE* to_;
  std::string prefix_;
  std::string kept_;  // of a line that has not ended
};

}  // namespace towpath::tools
