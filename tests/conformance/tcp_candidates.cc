#include <towpath/backends/messages/message_backend.h>

#include "message_candidates.h"

namespace towpath::backend::conformance {

std::vector<Candidate> candidates() {
  std::vector<Candidate> all = message_candidates("tcp", backends::messages::tcp_type, {});
  Candidate encrypted =
      message_candidates("tcp-tls", backends::messages::tcp_type, {{"security", "tls"}}).front();
  encrypted.pairings = {{Store::system, Store::system, false}};
  all.push_back(std::move(encrypted));
  Candidate rails =
      message_candidates("tcp-rails", backends::messages::tcp_type, {{"rails", "3"}}).front();
  rails.pairings = {{Store::system, Store::system, false}};
  all.push_back(std::move(rails));
  return all;
}

}  // namespace towpath::backend::conformance
