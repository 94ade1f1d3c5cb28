// Token: a secret that two ends share, so that a listener which others can reach knows its own.
//
// It is no encryption: it crosses the network as it is, in the first frame of a connection, and
// whoever can read the traffic has it. It keeps strangers and mistakes out of a network that is
// trusted to keep its traffic to itself; anything more is the business of a tunnel around it.
// Invariants: it is never printed; comparing takes equally long wherever two tokens differ.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <towpath/core/result.h>

namespace towpath::net {

class Token {
 public:
  static constexpr std::size_t kMinBytes = 16;
  static constexpr std::size_t kMaxBytes = 256;

  /// Any bytes. Errors: invalid_argument (too short to be a secret, or too long; not its text).
  static Result<Token> make(std::string_view secret);

  /// Whether `told` is this secret. Time: the same for every `told` of up to kMaxBytes.
  bool matches(std::string_view told) const noexcept;

  /// For the one who sends it.
  const std::string& secret() const noexcept { return secret_; }

 private:
  explicit Token(std::string_view secret) : secret_(secret) {}

  std::string secret_;
};

}  // namespace towpath::net
