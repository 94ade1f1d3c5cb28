#include <towpath/core/format.h>
#include <towpath/rendezvous/check_user.h>
#include <towpath/sys/local_socket.h>

namespace towpath::rendezvous {

Status check_peer_user(int socket, uid_t trusted) {
  TOWPATH_TRY(const sys::PeerCredentials peer, sys::peer_credentials(socket));
  if (peer.uid == trusted || peer.uid == 0) return {};
  return error(Code::denied,
               cat("process ", peer.pid, " of user ", peer.uid, " is at the other end; user ",
                   trusted, " or root is expected"),
               "run both sides as the same user");
}

}  // namespace towpath::rendezvous
