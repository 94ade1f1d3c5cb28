#include <array>
#include <cstdio>
#include <memory>

#include <towpath/core/format.h>
#include <towpath/sys/dynamic_library.h>
#include <towpath/sys/kernel_config.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kMaxConfig = std::size_t{4} << 20U;  // Debian's has 270 KiB

/// Of zlib, which this library does not need otherwise, three functions are enough; who links
/// libcurl has it.
struct Zlib {
  void* (*open)(const char* path, const char* mode) = nullptr;
  int (*read)(void* file, void* into, unsigned length) = nullptr;
  int (*close)(void* file) = nullptr;

  static Result<Zlib> load() {
    TOWPATH_TRY(const DynamicLibrary library, DynamicLibrary::open("libz.so.1"));
    Zlib zlib;
    zlib.open = reinterpret_cast<decltype(open)>(library.find("gzopen"));
    zlib.read = reinterpret_cast<decltype(read)>(library.find("gzread"));
    zlib.close = reinterpret_cast<decltype(close)>(library.find("gzclose"));
    if (zlib.open == nullptr || zlib.read == nullptr || zlib.close == nullptr)
      return error(Code::unsupported, "libz.so.1 is no zlib");
    return zlib;
  }
};

/// What gzip(1) made of a text.
Result<std::string> read_gzip_file(const std::string& path) {
  TOWPATH_TRY(const Zlib zlib, Zlib::load());
  void* const file = zlib.open(path.c_str(), "rbe");
  if (file == nullptr)
    return error(Code::not_found, cat("cannot open '", printable(path, 256), "'"));
  std::string text;
  std::array<char, 16384> buffer{};
  int got = 0;
  do {
    got = zlib.read(file, buffer.data(), static_cast<unsigned>(buffer.size()));
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  } while (got > 0 && text.size() <= kMaxConfig);
  const int closed = zlib.close(file);  // that the end is missing is reported only here
  if (text.size() > kMaxConfig)
    return error(Code::corrupt,
                 cat("'", printable(path, 256), "' is longer than ", kMaxConfig, " bytes"));
  if (got < 0 || closed != 0)
    return error(Code::corrupt, cat("'", printable(path, 256), "' is damaged"));
  return text;
}

/// The table of symbols is long, and read piece by piece.
std::optional<bool> has_symbol(const std::string& table, std::string_view name) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(table.c_str(), "re"),
                                                             &std::fclose);
  if (!file) return std::nullopt;
  std::array<char, 1024> line{};
  bool any = false;
  while (std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    any = true;
    if (std::string_view(line.data()).find(name) != std::string_view::npos) return true;
  }
  return any ? std::optional<bool>(false) : std::nullopt;
}

}  // namespace

KernelAnswer built_with(const KernelOption& option, const MachineRoot& root,
                        const std::string& boot) {
  const auto release = read_text_file(root.proc + "/sys/kernel/osrelease");
  const std::string plain =
      cat(boot, "/config-", release.ok() ? trimmed(*release) : std::string_view("?"));
  const std::string packed = root.proc + "/config.gz";
  const std::string symbols = root.proc + "/kallsyms";
  const std::string yes = option.name + "=y";
  const auto text = read_text_file(plain, kMaxConfig);
  if (text.ok()) return {line_after(*text, yes).has_value(), plain};
  const auto unpacked = read_gzip_file(packed);
  if (unpacked.ok()) return {line_after(*unpacked, yes).has_value(), packed};
  if (const auto found = has_symbol(symbols, option.symbol)) return {found, symbols};
  return {std::nullopt, cat(text.status().message(), "; ", unpacked.status().message(), "; ",
                            symbols, " shows nothing")};
}

}  // namespace towpath::sys
