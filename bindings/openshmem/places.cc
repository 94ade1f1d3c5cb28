// Who this PE is, and where symmetric objects of others are.
#include "bindings/openshmem/process.h"

using namespace towpath;
using namespace towpath::openshmem;

extern "C" {

int shmem_my_pe(void) { return process().my_pe(); }
int shmem_n_pes(void) { return process().context().n_pes(); }

int shmem_pe_accessible(int pe) { return process().world().check_pe(pe).ok() ? 1 : 0; }

int shmem_addr_accessible(const void* addr, int pe) {
  return shmem_pe_accessible(pe) != 0 && process().in_heap(addr, 1) != nullptr;
}

void* shmem_ptr(const void* dest, int pe) {
  Process& self = process();
  std::byte* const mine = self.in_heap(dest, 1);
  const auto index = static_cast<std::uint32_t>(pe);
  if (mine == nullptr || !self.world().check_pe(pe).ok() || !self.world().is_here(index))
    return nullptr;
  if (pe == self.my_pe()) return const_cast<void*>(dest);
  return self.world().heap_of(index) + (mine - self.world().heap_base());
}

}  // extern "C"
