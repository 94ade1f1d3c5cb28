#include <algorithm>
#include <array>

#include <towpath/core/format.h>
#include <towpath/net/token.h>

namespace towpath::net {

namespace {

// In halves of a bit, of a character that is chosen at random among its like.
struct Alphabet {
  bool (*has)(char letter);
  std::size_t half_bits;
};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_hex(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'f') || (letter >= 'A' && letter <= 'F');
}
bool is_base64(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         std::string_view("+/=-_").find(letter) != std::string_view::npos;
}
bool is_printable(char letter) { return letter >= ' ' && letter <= '~'; }

std::size_t bits_of(std::string_view secret) {
  static constexpr std::array<Alphabet, 4> kAlphabets = {
      {{is_digit, 6}, {is_hex, 8}, {is_base64, 12}, {is_printable, 13}}};
  for (const Alphabet& alphabet : kAlphabets)
    if (std::ranges::all_of(secret, alphabet.has)) return secret.size() * alphabet.half_bits / 2;
  return secret.size() * 8;
}

}  // namespace

Result<Token> Token::make(std::string_view secret) {
  if (secret.size() >= kMinBytes && secret.size() <= kMaxBytes) return Token(secret);
  return error(Code::invalid_argument, cat("a token of ", secret.size(), " bytes"),
               cat("use ", kMinBytes, " to ", kMaxBytes,
                   " bytes that nobody can guess: `openssl rand -hex 32` makes some"));
}

Result<Token> Token::from_text(std::string_view text) {
  constexpr std::size_t kMinBits = 8 * kMinBytes;
  if (const std::size_t bits = bits_of(text); bits < kMinBits)
    return error(Code::invalid_argument,
                 cat("a token of ", text.size(), " characters, which are worth ", bits, " bits"),
                 cat("use at least ", kMinBits, " bits: `openssl rand -hex 32` makes 256"));
  return make(text);
}

}  // namespace towpath::net
