// Who is at the other end of a Unix socket. Thread: any.
#pragma once

#include <sys/types.h>

#include <towpath/core/status.h>

namespace towpath::rendezvous {

/// Fails with denied unless the process at the other end of `socket` runs as `trusted` or as root,
/// when it connected or began to listen (SO_PEERCRED).
Status check_peer_user(int socket, uid_t trusted);

}  // namespace towpath::rendezvous
