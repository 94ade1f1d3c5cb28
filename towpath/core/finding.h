// What was asked of the machine, what it answered, and what that means. `towpath doctor` and
// `towpath explain` print findings and know nothing else.
// Thread: immutable.
#pragma once

#include <string>
#include <string_view>

namespace towpath {

enum class Verdict { yes, degraded, no, unknown };

struct Finding {
  std::string question;  ///< "Can files be read past the page cache in /mnt/kv?"
  std::string signal;    ///< what was examined: "open(O_DIRECT), then a 4096-byte read"
  std::string source;    ///< where: "/mnt/kv", "/proc/sys/kernel/io_uring_disabled"
  Verdict verdict = Verdict::unknown;
  std::string reason;  ///< why this verdict, with the values seen
  std::string hint;    ///< what to do about it; empty when there is nothing to do
};

constexpr std::string_view name_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::yes: return "yes";
    case Verdict::degraded: return "degraded";
    case Verdict::no: return "no";
    case Verdict::unknown: return "unknown";
  }
  return "unknown";
}

}  // namespace towpath
