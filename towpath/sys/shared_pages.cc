#include <algorithm>
#include <cerrno>

#include <sys/mman.h>

#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/shared_pages.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {

Result<HugePagePool> choose_reserved_pages(const SharedPages& wanted) {
  TOWPATH_TRY(auto pools, huge_page_pools(wanted.sys));
  if (pools.empty()) return error(Code::unsupported, "this kernel has no reserved huge pages");
  const std::uint64_t smallest = pools.front().page_bytes;
  std::erase_if(pools, [&](const HugePagePool& pool) {
    return wanted.size_bytes == 0 || wanted.size_bytes % pool.page_bytes != 0;
  });
  if (pools.empty())
    return error(
        Code::invalid_argument,
        cat(wanted.size_bytes, " bytes are no whole huge pages of ", format_bytes(smallest)),
        "use a multiple of the page");
  for (const HugePagePool& pool : pools)
    if (pool.free_pages / wanted.count >= wanted.size_bytes / pool.page_bytes) return pool;
  return error(Code::exhausted,
               cat("too few reserved huge pages for ", wanted.count, " times ",
                   format_bytes(wanted.size_bytes), "; free are ", pools.front().free_pages, " of ",
                   format_bytes(pools.front().page_bytes)),
               "reserve more (sysctl vm.nr_hugepages=N, or hugepages= at boot), or ask for "
               "best_effort");
}

Status ask_for_transparent_pages(ByteSpan mapped, const std::string& sys) {
  const auto setting = read_text_file(sys + "/kernel/mm/transparent_hugepage/shmem_enabled");
  for (const std::string_view off : {"[never]", "[deny]"})
    if (!setting.ok() || setting->find(off) != std::string::npos)
      return error(Code::unsupported,
                   cat("transparent huge pages are off for shared memory",
                       setting.ok() ? cat(" (shmem_enabled: ", off, ")") : std::string()),
                   "as root, write advise to /sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (::madvise(mapped.data(), mapped.size(), MADV_HUGEPAGE) != 0)
    return os_error(errno, "cannot ask for transparent huge pages");
  return {};
}

}  // namespace towpath::sys
