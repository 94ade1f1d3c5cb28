// A configuration file: whatever it says, each key has a line, and is a value or remarked on.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <towpath/standard/config_file.h>

#include "must.h"

using towpath::fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = towpath::standard::parse_config_file(text, "nixl.cfg");
  if (!file.ok()) return 0;
  for (const auto& [key, value] : file->values) must(!file->place_of(key).empty());
  for (const auto& [key, why] : file->remarks)
    must(!file->place_of(key).empty() && !file->values.contains(key));
  return 0;
}
