// Child: this program once more, as the other process of a command. Stopped and reaped when this
// dies. It is in a process group of its own: Ctrl-C at a terminal ends this process alone, and the
// child, which finds that out as if this had been killed, removes what both have made.
// Thread: none of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>

namespace towpath::tools {

class Child {
 public:
  /// `what` is it in messages: "target". `arguments` begin with the name of the program.
  static Result<Child> start(std::string what, const std::vector<std::string>& arguments);
  Child(Child&& other) noexcept
      : what_(std::move(other.what_)),
        pid_(std::exchange(other.pid_, -1)),
        status_(other.status_) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  /// ok while it runs. Errors: peer_lost, with how it ended.
  Status lives();
  /// peer_lost when a signal has ended it; ok while it runs, and when it ended by itself.
  Status ended_by_signal();
  /// Waits until it has ended by itself, `most` at the longest. Whether it has.
  bool ends_within(Duration most);
  pid_t pid() const noexcept { return pid_; }

 private:
  Child(std::string what, pid_t pid) : what_(std::move(what)), pid_(pid) {}
  std::string what_;
  pid_t pid_;       // -1: reaped
  int status_ = 0;  // of what was reaped
};

}  // namespace towpath::tools
