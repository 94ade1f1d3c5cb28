// A user's program: fails to compile, link or run when the installed package lacks something.
#include <cstdio>

#include <towpath/core/text.h>
#include <towpath/memory/system_region.h>

int main() {
  auto size = towpath::parse_bytes("64K");
  if (!size.ok()) return 1;
  auto region = towpath::memory::SystemRegion::allocate(*size);
  if (!region.ok()) {
    std::fprintf(stderr, "%s\n", region.status().to_string().c_str());
    return 1;
  }
  std::printf("%s\n", to_string((*region)->descriptor()).c_str());
  return 0;
}
