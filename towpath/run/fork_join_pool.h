// ForkJoinPool: threads that do parts of a piece of work beside the thread that has it.
//
//   pool.share(3, [&](std::size_t part) { ... });     // returns when all parts are done
//
//   caller   | part 0 |  part 2, which nobody had begun |
//   member 0 |    part 1    |
//
// The caller takes back what no member has begun when it has done its own part, so that it waits
// for no more than what a member is in the middle of: on a busy machine it does all of it, as if it
// were alone. Members keep off the processor that the caller runs on; one that has nothing to do
// looks for more for some 20 us, then sleeps. Thread: one caller at a time; parts of a piece run at
// the same time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <towpath/core/status.h>

namespace towpath::run {

class ForkJoinPool {
 public:
  /// No thread runs before start(). `name` is what ps(1) shows, with a number.
  ForkJoinPool(std::string name, std::size_t members);
  ForkJoinPool(const ForkJoinPool&) = delete;
  ForkJoinPool& operator=(const ForkJoinPool&) = delete;
  ~ForkJoinPool();

  /// Starts the threads, once; what comes later is what came then. Errors: exhausted (some could
  /// not be started; the others serve).
  const Status& start();
  /// Those that were started.
  std::size_t members() const noexcept { return members_.size(); }
  /// Those that sleep just now.
  std::size_t asleep() const noexcept;

  /// Calls work(0) to work(parts - 1), each once; at least one. What they did is seen by the
  /// caller. How many of them members did: one that sleeps may take long to wake up. Cost: below a
  /// microsecond, and a system call for each member that sleeps.
  template <typename Work>
  std::size_t share(std::size_t parts, const Work& work) {
    return share_piece(parts, {&work, [](const void* what, std::size_t part) {
                                 (*static_cast<const Work*>(what))(part);
                               }});
  }

 private:
  struct Piece {
    const void* what = nullptr;
    void (*call)(const void* what, std::size_t part) = nullptr;
    int processor = -1;  // the caller's
  };
  struct Member;

  std::size_t share_piece(std::size_t parts, const Piece& piece);

  const std::string name_;
  const std::size_t wanted_;
  bool is_started_ = false;
  Status started_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace towpath::run
