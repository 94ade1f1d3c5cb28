// Checks of our own invariants. A failed check is a fault in Towpath: it says where, and stops the
// process. What a user, a peer or the machine can cause is never a check; it is a Status.
// Thread: any.
#pragma once

namespace towpath {

[[noreturn]] void check_failed(const char* condition, const char* why, const char* file,
                               int line) noexcept;

}  // namespace towpath

#define TOWPATH_CHECK(condition, why)                  \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::towpath::check_failed(#condition, why, __FILE__, __LINE__))
