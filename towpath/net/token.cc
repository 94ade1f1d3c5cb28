#include <algorithm>
#include <array>

#include <towpath/core/text.h>
#include <towpath/net/token.h>

namespace towpath::net {

Result<Token> Token::make(std::string_view secret) {
  if (secret.size() >= kMinBytes && secret.size() <= kMaxBytes) return Token(secret);
  return error(Code::invalid_argument, cat("a token of ", secret.size(), " bytes"),
               cat("use ", kMinBytes, " to ", kMaxBytes,
                   " bytes that nobody can guess: `openssl rand -hex 32` makes some"));
}

bool Token::matches(std::string_view told) const noexcept {
  std::array<unsigned char, kMaxBytes> ours{};
  std::array<unsigned char, kMaxBytes> theirs{};
  std::ranges::copy(secret_, ours.begin());
  std::ranges::copy(told.substr(0, kMaxBytes), theirs.begin());
  // All of it, with no branch on what a byte is: where they differ, time does not tell.
  unsigned difference = told.size() == secret_.size() ? 0U : 1U;
  for (std::size_t i = 0; i < kMaxBytes; ++i)
    difference |= static_cast<unsigned>(ours[i] ^ theirs[i]);
  return difference == 0;
}

}  // namespace towpath::net
