#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <sys/ioctl.h>

#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/process.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kMaxMapsBytes = std::size_t{16} << 20U;  // of a hundred thousand mappings

/// The next word of a line, which then begins behind it.
std::string_view take_word(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

bool has_plain_name(std::string_view name) {
  return name.empty() || name == "[heap]" || name == "[stack]" || name.starts_with("[anon:");
}

/// "begin-end perms offset device inode name"; nothing: it does not look so.
std::optional<ProcessMapping> parse(std::string_view line) {
  ProcessMapping mapping;
  const std::string_view range = take_word(line);
  const char* const last = range.data() + range.size();
  const auto [dash, first_error] = std::from_chars(range.data(), last, mapping.begin, 16);
  if (first_error != std::errc() || dash == last || *dash != '-') return std::nullopt;
  const auto [end, second_error] = std::from_chars(dash + 1, last, mapping.end, 16);
  if (second_error != std::errc() || end != last || mapping.end < mapping.begin)
    return std::nullopt;
  const std::string_view permissions = take_word(line);
  take_word(line);  // the offset
  take_word(line);  // the device
  const std::string_view inode = take_word(line);
  const std::string_view name = take_word(line);
  mapping.is_writable = permissions.substr(0, 2).ends_with('w');
  mapping.is_plain = permissions.starts_with('r') && permissions.ends_with('p') && inode == "0" &&
                     has_plain_name(name);
  return mapping;
}

// <linux/fs.h> of Linux 6.11; Debian 12 has an older one.
struct MappingQuery {
  std::uint64_t size = sizeof(MappingQuery);
  std::uint64_t flags = 0;  // 0: what covers the address
  std::uint64_t address = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t is = 0;
  std::uint64_t page_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint32_t name_size = 0;
  std::uint32_t build_id_size = 0;
  std::uint64_t name = 0;
  std::uint64_t build_id = 0;
};
constexpr unsigned long kQueryMapping = _IOWR('f', 17, MappingQuery);
constexpr std::uint64_t kReadable = 1, kWritable = 2, kShared = 8;

constexpr std::size_t kMostName = 128;  // longer ones are files; then there is no answer

}  // namespace

Result<std::vector<ProcessMapping>> process_mappings(pid_t pid, const std::string& proc) {
  TOWPATH_TRY(const std::string text, read_text_file(cat(proc, "/", pid, "/maps"), kMaxMapsBytes));
  std::vector<ProcessMapping> mappings;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (const auto mapping = parse(line)) mappings.push_back(*mapping);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return mappings;
}

Result<Fd> open_process_mappings(pid_t pid, const std::string& proc) {
  const std::string path = cat(proc, "/", pid, "/maps");
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return os_error(errno, cat("cannot open '", path, "'"));
  MappingQuery nothing;  // at address 0
  if (::ioctl(file.get(), kQueryMapping, &nothing) != 0 && errno != ENOENT)
    return os_error(errno, cat("cannot ask '", path, "' for a mapping"));
  return file;
}

Result<ProcessMapping> process_mapping_at(const Fd& mappings, std::uint64_t address) {
  std::array<char, kMostName> name{};
  MappingQuery query{.address = address,
                     .name_size = kMostName,
                     .name = reinterpret_cast<std::uintptr_t>(name.data())};
  if (::ioctl(mappings.get(), kQueryMapping, &query) != 0)
    return error(Code::not_found, cat("no mapping is known at ", hex(address)));
  const bool is_private = (query.is & kReadable) != 0 && (query.is & kShared) == 0;
  return ProcessMapping{.begin = query.begin,
                        .end = query.end,
                        .is_plain = is_private && query.inode == 0 && has_plain_name(name.data()),
                        .is_writable = (query.is & kWritable) != 0};
}

}  // namespace towpath::sys
