// Pes: the processes of a job, as their launcher sees them.
//
// It starts them, sees them end, and ends them. What to do when one fails is the caller's.
// Invariants: those that still run are killed and reaped when this dies. A PE dies with its
// launcher. Thread: none of its own; the one that started them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <towpath/core/result.h>
#include <towpath/standard/settings.h>
#include <towpath/sys/fd.h>

namespace towpath::tools {

struct PeCommand {
  std::vector<std::string> words;   ///< the program, and its arguments
  std::string name;                 ///< for messages: "PE 3"
  standard::Environment variables;  ///< besides the launcher's own
  std::vector<int> inherited;       ///< descriptors, by the same numbers
  int in = -1;  ///< become its standard input, output and errors; -1: as the launcher's
  int out = -1;
  int err = -1;
};

class Pes {
 public:
  struct End {
    int status = 0;        ///< as a shell reports it: 128 and the number of the signal
    std::string in_words;  ///< "ended with status 3", "was ended by signal 9 (Killed)"
  };

  Pes() = default;
  Pes(const Pes&) = delete;
  Pes& operator=(const Pes&) = delete;
  ~Pes();

  /// Errors: not_found, denied (the program cannot be run), exhausted.
  Status start(const PeCommand& command);

  /// Readable when the process that was started as `index` has ended.
  int fd(int index) const noexcept { return rows_[static_cast<std::size_t>(index)].process.get(); }
  /// How it ended, once; nothing while it runs.
  std::optional<End> reap(int index);
  std::size_t running() const noexcept;
  void signal_all(int number) const noexcept;

 private:
  struct Row {
    pid_t pid = -1;  // -1: reaped
    sys::Fd process;
  };
  std::vector<Row> rows_;
};

}  // namespace towpath::tools
