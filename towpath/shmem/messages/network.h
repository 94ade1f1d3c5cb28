// How PEs of several hosts reach each other, and when one is given up.
// Thread: immutable.
#pragma once

#include <towpath/core/clock.h>
#include <towpath/net/ucx/ucx_worker.h>

namespace towpath::shmem {

struct Heartbeat {
  Duration every = std::chrono::seconds(1);
  Duration timeout = std::chrono::seconds(5);  ///< of a PE that says nothing
};

struct NetworkOptions {
  net::UcxOptions ucx;
  Heartbeat heartbeat;
};

}  // namespace towpath::shmem
