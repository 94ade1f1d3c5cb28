// Token: a secret that two ends share, of which keys are made that prove each to the other.
//
// It has at least 128 bits. Of what people write into files, that is judged by the letters: digits
// are counted as 3 bits each, hexadecimal ones as 4, letters and digits as 6, other text as 6.5.
// Invariant: it is never printed.
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

  /// Random bytes. Errors: invalid_argument (too short to be a secret, or too long).
  static Result<Token> make(std::string_view secret);
  /// As a person or a program wrote it. Errors: as make(), and for less than 128 bits.
  static Result<Token> from_text(std::string_view text);

  /// To make keys of. It is sent to nobody.
  const std::string& secret() const noexcept { return secret_; }

 private:
  explicit Token(std::string_view secret) : secret_(secret) {}

  std::string secret_;
};

}  // namespace towpath::net
