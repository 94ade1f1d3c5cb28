#include <towpath/backends/messages/message_backend.h>

#include "message_candidates.h"

namespace towpath::backend::conformance {

// Memory of devices lies behind the same connections: tcp has those cases.
std::vector<Candidate> candidates() {
  auto both = message_candidates("tcp-tls", backends::messages::tcp_type, {{"security", "tls"}});
  return {std::move(both.front())};
}

}  // namespace towpath::backend::conformance
