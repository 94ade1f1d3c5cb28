// Programs in the guest's root, where run_guest.py carries them.
#pragma once

#include <string>

namespace towpath::guest {

struct Ended {
  int status = -1;   ///< -1: by a signal, or it could not be started
  std::string said;  ///< on standard output
};

/// Until it has ended. `line`: words between spaces.
Ended run(const std::string& line);
bool has_program(const std::string& path);

}  // namespace towpath::guest
