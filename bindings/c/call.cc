#include "bindings/c/call.h"

#include <cstdint>
#include <new>

namespace towpath::c {

towpath_code_t report(const Status& status, towpath_error_t* error) noexcept {
  const auto code = static_cast<towpath_code_t>(status.code());
  if (error == nullptr) return code;
  error->code = code;
  const std::string text = status.ok() ? std::string() : status.to_string();
  const std::size_t length = std::min(text.size(), sizeof error->text - 1);
  std::memcpy(error->text, text.data(), length);
  error->text[length] = '\0';
  return code;
}

char** give_names(const std::vector<std::string>& names) {
  std::size_t size = std::max<std::size_t>(names.size(), 1) * sizeof(char*);
  std::size_t at = size;
  for (const std::string& name : names) size += name.size() + 1;
  auto* const whole = static_cast<char*>(std::malloc(size));
  if (whole == nullptr) throw std::bad_alloc();
  auto** const list = reinterpret_cast<char**>(whole);
  for (std::size_t i = 0; i < names.size(); ++i) {
    list[i] = whole + at;
    std::memcpy(list[i], names[i].c_str(), names[i].size() + 1);
    at += names[i].size() + 1;
  }
  return list;
}

}  // namespace towpath::c

using towpath::Code;

const char* towpath_version(void) { return TOWPATH_VERSION; }

const char* towpath_code_name(towpath_code_t code) {
  // By its bytes: a caller's number may be none that the enumeration can hold.
  unsigned number = 0;
  static_assert(sizeof number == sizeof code);
  std::memcpy(&number, &code, sizeof number);
  constexpr unsigned kNone = UINT8_MAX;
  return towpath::name_of(static_cast<Code>(std::min(number, kNone))).data();  // names are literals
}

void towpath_free(void* handed_out) { std::free(handed_out); }
