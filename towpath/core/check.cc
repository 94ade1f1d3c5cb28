#include <cstdio>
#include <cstdlib>

#include <towpath/core/check.h>

namespace towpath {

void check_failed(const char* condition, const char* why, const char* file, int line) noexcept {
  std::fprintf(stderr, "towpath: internal fault at %s:%d: %s (%s)\n", file, line, why, condition);
  std::abort();
}

}  // namespace towpath
