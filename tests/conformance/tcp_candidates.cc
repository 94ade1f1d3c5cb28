#include <towpath/backends/messages/message_backend.h>

#include "message_candidates.h"

namespace towpath::backend::conformance {

std::vector<Candidate> candidates() {
  return message_candidates("tcp", backends::messages::tcp_type, {});
}

}  // namespace towpath::backend::conformance
