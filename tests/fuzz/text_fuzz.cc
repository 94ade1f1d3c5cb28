// Names and sizes that people and peers write: no input may crash the helpers, and two names never
// meet in one encoding, so an encoded name reads back as the one it came from.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <towpath/core/format.h>

#include "must.h"

namespace {

using towpath::fuzz::must;

int digit(char letter) { return letter <= '9' ? letter - '0' : (letter | 0x20) - 'a' + 10; }

std::string decode(std::string_view safe) {
  if (safe == "%") return {};
  std::string name;
  for (std::size_t at = 0; at < safe.size(); ++at) {
    if (safe[at] != '%') {
      name.push_back(safe[at]);
      continue;
    }
    must(safe.size() - at >= 3);
    name.push_back(static_cast<char>(digit(safe[at + 1]) * 16 + digit(safe[at + 2])));
    at += 2;
  }
  return name;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)towpath::parse_bytes(text);
  (void)towpath::printable(text);
  const std::string safe = towpath::path_safe(text);
  must(safe.find_first_of(std::string_view("/\0", 2)) == std::string::npos);
  must(decode(safe) == text);
  return 0;
}
