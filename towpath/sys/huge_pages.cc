#include <algorithm>
#include <bit>
#include <cerrno>

#include <dirent.h>
#include <sys/mman.h>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/sys/huge_pages.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

constexpr std::string_view kPoolPrefix = "hugepages-";

std::string pool_text(const std::vector<HugePagePool>& pools) {
  std::string text;
  for (const HugePagePool& pool : pools)
    text += cat(text.empty() ? "" : ", ", pool.free_pages, " of ", format_bytes(pool.page_bytes));
  return text.empty() ? std::string("none") : text;
}

/// How many of the pool's pages hold `bytes`.
std::uint64_t pages_for(std::uint64_t bytes, std::uint64_t page_bytes) {
  return bytes / page_bytes + (bytes % page_bytes != 0 ? 1 : 0);
}

Status too_few(const MapPages& options, const std::vector<HugePagePool>& pools) {
  return error(pools.empty() ? Code::unsupported : Code::exhausted,
               cat("too few reserved huge pages for ", format_bytes(options.size_bytes),
                   "; free are ", pool_text(pools)),
               "reserve more (sysctl vm.nr_hugepages=N, or hugepages= at boot), or ask for "
               "best_effort");
}

Result<MappedPages> map_reserved(const MapPages& options) {
  TOWPATH_TRY(const auto pools, huge_page_pools(options.sys));
  const auto fits = [&](const HugePagePool& pool) {
    return (options.huge_page_bytes == 0 || pool.page_bytes == options.huge_page_bytes) &&
           pool.free_pages >= pages_for(options.size_bytes, pool.page_bytes);
  };
  const auto pool = std::ranges::find_if(pools, fits);
  if (pool == pools.end()) return too_few(options, pools);
  auto mapping = Mapping::reserved_pages(
      pages_for(options.size_bytes, pool->page_bytes) * pool->page_bytes, pool->page_bytes);
  // Others may have taken them since.
  if (!mapping.ok()) return too_few(options, pools).because(mapping.status());
  return MappedPages{.mapping = *std::move(mapping),
                     .kind = PageKind::reserved,
                     .page_bytes = pool->page_bytes,
                     .why_not = {}};
}

/// Ordinary memory, with the wish for transparent pages.
Result<MappedPages> map_transparent(const MapPages& options, std::string why_not_reserved) {
  TOWPATH_TRY(Mapping mapping, Mapping::anonymous(options.size_bytes));
  MappedPages pages{.mapping = std::move(mapping),
                    .kind = PageKind::ordinary,
                    .page_bytes = page_size(),
                    .why_not = std::move(why_not_reserved)};
  const auto enabled = read_text_file(options.sys + "/kernel/mm/transparent_hugepage/enabled");
  const bool never = !enabled.ok() || enabled->find("[never]") != std::string::npos;
  if (never)
    pages.why_not += "; transparent ones are off";
  else if (::madvise(pages.mapping.data(), pages.mapping.size(), MADV_HUGEPAGE) != 0)
    pages.why_not += cat("; transparent ones: ", errno_text(errno));
  else
    pages.kind = PageKind::transparent;
  return pages;
}

}  // namespace

std::string_view name_of(PageKind kind) noexcept {
  switch (kind) {
    case PageKind::ordinary: return "ordinary";
    case PageKind::transparent: return "transparent";
    case PageKind::reserved: return "reserved";
  }
  return "unknown";
}

Result<std::vector<HugePagePool>> huge_page_pools(const std::string& sys) {
  const std::string root = sys + "/kernel/mm/hugepages";
  SystemFileSystem files;
  const auto names = files.list(root);
  if (!names.ok()) return std::vector<HugePagePool>{};
  std::vector<HugePagePool> pools;
  for (const std::string& name : *names) {  // "hugepages-2048kB"
    if (!name.starts_with(kPoolPrefix) || !name.ends_with("kB")) continue;
    const auto digits = std::string_view(name).substr(kPoolPrefix.size());
    const auto kilobytes = parse_number(digits.substr(0, digits.size() - 2));
    const auto bytes = kilobytes ? checked_multiply(*kilobytes, 1024) : std::nullopt;
    TOWPATH_TRY(const std::string total, read_text_file(cat(root, '/', name, "/nr_hugepages")));
    TOWPATH_TRY(const std::string free, read_text_file(cat(root, '/', name, "/free_hugepages")));
    const auto pages = parse_number(total);
    const auto free_pages = parse_number(free);
    if (!bytes || !is_power_of_two(*bytes) || !pages || !free_pages)
      return error(Code::corrupt, cat(root, '/', printable(name), " is not understood"));
    pools.push_back({.page_bytes = *bytes, .pages = *pages, .free_pages = *free_pages});
  }
  std::ranges::sort(pools, {}, &HugePagePool::page_bytes);
  return pools;
}

Result<MappedPages> map_pages(const MapPages& options) {
  if (options.size_bytes == 0)
    return error(Code::invalid_argument, "cannot map 0 bytes", "ask for at least 1 byte");
  if (options.huge_page_bytes != 0 && !is_power_of_two(options.huge_page_bytes))
    return error(Code::invalid_argument,
                 cat("huge pages of ", options.huge_page_bytes, " bytes: no power of two"),
                 "2 MiB and 1 GiB are usual; 0 chooses");
  if (options.huge == HugePages::off) {
    TOWPATH_TRY(Mapping mapping, Mapping::anonymous(options.size_bytes));
    return MappedPages{.mapping = std::move(mapping),
                       .kind = PageKind::ordinary,
                       .page_bytes = page_size(),
                       .why_not = {}};
  }
  auto reserved = map_reserved(options);
  if (reserved.ok() || options.huge == HugePages::required) return reserved;
  return map_transparent(options, std::string(reserved.status().message()));
}

}  // namespace towpath::sys
