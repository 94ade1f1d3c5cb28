// Exchange: where all PEs of a job say something once, and hear what each has said: what a launcher
// or a library for starting jobs does for its processes.
// Thread: one at a time.
#pragma once

#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::shmem {

class Exchange {
 public:
  virtual ~Exchange() = default;
  /// What each PE said, by PE. Collective. Errors: timed_out (who has not come), denied.
  virtual Result<std::vector<Bytes>> all(ConstByteSpan mine) = 0;
};

}  // namespace towpath::shmem
