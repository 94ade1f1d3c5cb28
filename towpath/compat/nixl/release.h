// What NIXL's users take a request for that was released: one of which no byte moves any more.
#pragma once

#include <towpath/agent/transfer.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>

namespace towpath::nixl {

/// Cancels it where it runs, and waits for quiet for so long. Errors: not_ready (its bytes may
/// still move, so it is to be kept, and its memory left alone). Thread: any.
Status end_transfer(agent::Transfer& transfer, Duration most);

}  // namespace towpath::nixl
