#include <towpath/compat/nixl/release.h>

namespace towpath::nixl {

Status end_transfer(agent::Transfer& transfer, Duration most) {
  if (transfer.state() == TransferState::prepared || transfer.ended()) return {};
  transfer.cancel();
  if (transfer.wait(most) != Outcome::none) return {};
  return error(Code::not_ready, "bytes may still move", "release it again");
}

}  // namespace towpath::nixl
