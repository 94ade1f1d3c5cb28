// KVBM's configuration, as TOML or JSON: whatever it says, each setting has a path and a place.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <towpath/compat/kvbm/file.h>

#include "must.h"

using towpath::fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace towpath::kvbm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& read : {parse_kvbm_toml(text, "f"), parse_kvbm_json(text, "f")}) {
    if (!read.ok()) continue;
    for (const Setting& setting : *read) must(!setting.place.empty());
  }
  return 0;
}
