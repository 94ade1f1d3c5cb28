#include <string_view>

#include <unistd.h>

#include <towpath/standard/environment.h>

namespace towpath::standard {

Environment read_environment() {
  Environment found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      found.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return found;
}

}  // namespace towpath::standard
