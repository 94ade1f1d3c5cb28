// What a poller of this module says when its timer has run out. Thread: immutable.
#pragma once

#include <cstdint>

namespace towpath::rendezvous {

inline constexpr std::uint64_t kTimerTag = 1;

}  // namespace towpath::rendezvous
