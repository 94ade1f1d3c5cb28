#include <sys/mman.h>
#include <unistd.h>

#include <towpath/sys/fork_mark.h>

namespace towpath::sys {

ForkMark::ForkMark() noexcept : process_(::getpid()) {
  auto page = Mapping::anonymous(page_size());
  if (!page.ok() || ::madvise(page->data(), page->size(), MADV_WIPEONFORK) != 0) return;
  page_ = *std::move(page);
  *page_.data() = std::byte{1};
}

bool ForkMark::is_another_process() const noexcept { return ::getpid() != process_; }

}  // namespace towpath::sys
