#include <towpath/backends/messages/message_backend.h>
#include <towpath/net/tls/tls_context.h>

#include "message_candidates.h"

namespace towpath::backend::conformance {

// Memory of devices lies behind the same connections: tcp has those cases.
std::vector<Candidate> candidates() {
  const auto over_tls = [](const char* name, Params params) {
    params.emplace("security", "tls");
    return message_candidates(name, backends::messages::tcp_type, params).front();
  };
  Candidate by_kernel = over_tls("tcp-kernel-tls", {{"ktls", "on"}});
  by_kernel.pairings = {{Store::system, Store::system, false}};
  if (const Status can = net::can_kernel_do_tls(); !can.ok())
    by_kernel.unavailable = can.to_string();
  return {over_tls("tcp-tls", {}), std::move(by_kernel)};
}

}  // namespace towpath::backend::conformance
