#include "bindings/openshmem/statics.h"

#include <cerrno>

#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/core/checked.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/os_error.h>

namespace towpath::openshmem {
namespace {

struct Segment {
  std::uint64_t begin = 0, end = 0;
};

/// The pages of the program's variables, from dl_iterate_phdr(3), which names the program first.
/// What the loader made read-only after it had put addresses there (RELRO) is left out.
int find_variables(dl_phdr_info* program, std::size_t, void* into) {
  auto& found = *static_cast<Segment*>(into);
  const std::uint64_t page = sys::page_size();
  std::uint64_t read_only_until = 0;
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const auto& header = program->dlpi_phdr[i];
    const std::uint64_t begin = program->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_RELRO) read_only_until = (begin + header.p_memsz) / page * page;
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    if (found.begin == 0) found.begin = begin / page * page;
    found.end = (begin + header.p_memsz + page - 1) / page * page;
  }
  found.begin = std::max(found.begin, std::min(read_only_until, found.end));
  return 1;  // no further object
}

/// By the kernel, and by the bare system call: a sanitizer would look at each byte, and what it put
/// between variables is nobody's to read.
Status copy_to_file(ConstByteSpan bytes, int fd, std::uint64_t offset) {
  while (!bytes.empty()) {
    const long written = ::syscall(SYS_pwrite64, fd, bytes.data(), bytes.size(), offset);
    if (written <= 0)
      return sys::os_error(errno, "cannot copy the program's variables to the symmetric heap");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

}  // namespace

Result<Statics> Statics::share(shmem::Context& context) {
  Segment variables;
  ::dl_iterate_phdr(find_variables, &variables);
  const std::uint64_t size = variables.end - variables.begin;
  const std::shared_ptr<shmem::World>& world = context.underneath();
  if (size != 0 && world->heap_placement().pages == sys::PageKind::reserved)
    return error(Code::unsupported,
                 "the program's variables cannot lie in a heap of reserved huge pages",
                 "start it with `towpath run --huge-pages best_effort`, for transparent ones");
  TOWPATH_TRY(shmem::SharedBlock block,
              shmem::allocate_block(world, size, {.alignment = sys::page_size()}));
  if (size != 0) {
    auto* const at = reinterpret_cast<std::byte*>(variables.begin);
    TOWPATH_TRY(copy_to_file({at, size}, world->heap_fd(), block->place().offset));
    // Nothing may happen between the copy and the mapping that writes to a variable.
    if (::mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, world->heap_fd(),
               static_cast<off_t>(block->place().offset)) == MAP_FAILED)
      return sys::os_error(errno, "cannot map the program's variables into the symmetric heap");
  }
  // Nobody reaches a variable before it is there.
  TOWPATH_TRY(context.sync());
  return Statics(std::move(block), variables.begin);
}

}  // namespace towpath::openshmem
