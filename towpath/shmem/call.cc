#include <towpath/core/format.h>
#include <towpath/shmem/call.h>

namespace towpath::shmem {
namespace {

struct Words {
  const char* name;
  std::array<const char*, 4> arguments;
};

/// By CallKind.
constexpr std::array<Words, 20> kWords = {{
    {"nothing", {}},
    {"join", {}},
    {"barrier", {}},
    {"sync", {}},
    {"allocate", {"bytes", "alignment", "zeroed"}},
    {"free", {"block"}},
    {"split_strided", {"start", "stride", "size"}},
    {"split_2d", {"x range"}},
    {"destroy", {}},
    {"broadcast", {"target", "source", "bytes", "root"}},
    {"collect", {"target", "source", "element bytes"}},
    {"alltoall", {"target", "source", "bytes"}},
    {"reduce", {"target", "source", "count", "operation"}},
    {"finalize", {}},
    {"wait_until", {}},
    {"lock", {}},
    {"reduce_scatter", {"target", "source", "count", "operation"}},
    {"scan", {"target", "source", "count", "operation"}},
    {"exclusive_scan", {"target", "source", "count", "operation"}},
    {"keep", {"block", "bytes"}},
}};

const Words& words_of(CallKind kind) noexcept {
  const auto index = static_cast<std::size_t>(kind);
  return kWords[index < kWords.size() ? index : 0];
}

std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 33U)) * 0xff51afd7ed558ccdULL;
  value = (value ^ (value >> 33U)) * 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33U);
}

}  // namespace

std::uint64_t digest_of(const Call& call) noexcept {
  std::uint64_t digest = static_cast<std::uint64_t>(call.kind);
  for (const std::uint64_t argument : call.arguments) digest = mix(digest * 31 + argument);
  return digest & 0xffff'ffff'ffffULL;
}

const char* name_of(CallKind kind) noexcept { return words_of(kind).name; }

std::string to_string(const Call& call) {
  const Words& words = words_of(call.kind);
  std::string out = words.name;
  const char* between = "(";
  for (std::size_t index = 0; index < words.arguments.size(); ++index) {
    if (words.arguments[index] == nullptr) break;
    // Negative arguments (a stride) are printed as what they are.
    out +=
        cat(between, words.arguments[index], " ", static_cast<std::int64_t>(call.arguments[index]));
    between = ", ";
  }
  return *between == '(' ? out : out + ")";
}

}  // namespace towpath::shmem
