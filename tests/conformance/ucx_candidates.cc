#include <towpath/backends/messages/message_backend.h>

#include "message_candidates.h"

namespace towpath::backend::conformance {

std::vector<Candidate> candidates() {
  return message_candidates("ucx-tcp", backends::messages::ucx_type, {{"transports", "tcp"}});
}

}  // namespace towpath::backend::conformance
