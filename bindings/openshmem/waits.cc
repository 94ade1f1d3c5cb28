// Waits and tests for elements of this PE that others write, and locks.
#include <towpath/core/format.h>
#include <towpath/shmem/change.h>
#include <towpath/shmem/context.h>

#include "bindings/openshmem/process.h"

using namespace towpath;
using namespace towpath::openshmem;

namespace {

template <typename T>
bool is_as_wanted(const door_wanted& wanted, std::size_t index) {
  auto* const element = static_cast<T*>(const_cast<void*>(wanted.ivars)) + index;
  const T value = static_cast<const T*>(wanted.values)[wanted.one_for_each != 0 ? index : 0];
  // Acquire: pairs with the writer's atomic operation, or its put before a fence.
  const auto looks = [&] {
    return shmem::holds(std::atomic_ref<T>(*element).load(std::memory_order_acquire),
                        static_cast<shmem::Compare>(wanted.cmp), value);
  };
  if (!looks()) return false;
  Process& self = process();
  const std::byte* const at = self.in_heap(element, sizeof(T));
  return at == nullptr || self.world().is_whole({at, sizeof(T)}, looks);
}

bool holds(const door_wanted& wanted, std::size_t index) {
  switch (wanted.type) {
    case door_int16: return is_as_wanted<std::int16_t>(wanted, index);
    case door_uint16: return is_as_wanted<std::uint16_t>(wanted, index);
    case door_int32: return is_as_wanted<std::int32_t>(wanted, index);
    case door_uint32: return is_as_wanted<std::uint32_t>(wanted, index);
    case door_int64: return is_as_wanted<std::int64_t>(wanted, index);
    default: return is_as_wanted<std::uint64_t>(wanted, index);
  }
}

/// By no comparison nothing would ever hold.
void check(int cmp) {
  if (cmp >= SHMEM_CMP_EQ && cmp <= SHMEM_CMP_GE) [[likely]]
    return;
  die(error(Code::invalid_argument, cat("comparison ", cmp), "use SHMEM_CMP_EQ to SHMEM_CMP_GE"));
}

bool counts(const door_wanted& wanted, std::size_t index) {
  return wanted.status == nullptr || wanted.status[index] == 0;
}

bool is_empty(const door_wanted& wanted) {
  for (std::size_t i = 0; i < wanted.nelems; ++i)
    if (counts(wanted, i)) return false;
  return true;
}

template <typename Ready>
void wait(const Ready& ready) {
  must(process().world().wait_for_write(ready));
}

}  // namespace

extern "C" {

int door_test_all(door_wanted wanted) {
  check(wanted.cmp);
  for (std::size_t i = 0; i < wanted.nelems; ++i)
    if (counts(wanted, i) && !holds(wanted, i)) return 0;
  return 1;
}

size_t door_test_any(door_wanted wanted) {
  check(wanted.cmp);
  const std::uint64_t list = address_of(wanted.ivars) + (wanted.nelems << 40U);
  return process()
      .world()
      .fair_start()
      .find(list, wanted.nelems,
            [&](std::size_t i) { return counts(wanted, i) && holds(wanted, i); })
      .value_or(SIZE_MAX);
}

size_t door_test_some(door_wanted wanted, size_t* indices) {
  check(wanted.cmp);
  std::size_t found = 0;
  for (std::size_t i = 0; i < wanted.nelems; ++i)
    if (counts(wanted, i) && holds(wanted, i)) indices[found++] = i;
  return found;
}

void door_wait_all(door_wanted wanted) {
  wait([&] { return door_test_all(wanted) != 0; });
}

size_t door_wait_any(door_wanted wanted) {
  if (is_empty(wanted)) return SIZE_MAX;
  std::size_t found = SIZE_MAX;
  wait([&] { return (found = door_test_any(wanted)) != SIZE_MAX; });
  return found;
}

size_t door_wait_some(door_wanted wanted, size_t* indices) {
  if (is_empty(wanted)) return 0;
  std::size_t found = 0;
  wait([&] { return (found = door_test_some(wanted, indices)) != 0; });
  return found;
}

uint64_t shmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value) {
  check(cmp);
  std::uint64_t seen = 0;
  wait([&] {
    seen = shmem_signal_fetch(sig_addr);
    return shmem::holds(seen, static_cast<shmem::Compare>(cmp), cmp_value);
  });
  return seen;
}

void shmem_set_lock(long* lock) {
  Process& self = process();
  must(shmem::acquire_lock(self.world(), self.offset(lock, sizeof *lock)));
}

void shmem_clear_lock(long* lock) {
  Process& self = process();
  must(shmem::release_lock(self.world(), self.offset(lock, sizeof *lock)));
}

int shmem_test_lock(long* lock) {
  Process& self = process();
  const auto acquired = shmem::try_acquire_lock(self.world(), self.offset(lock, sizeof *lock));
  must(acquired.status());
  return *acquired ? 0 : 1;
}

}  // extern "C"
