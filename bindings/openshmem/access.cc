// Put, get, atomic operations, signals, order.
#include <memory>
#include <new>

#include <towpath/core/checked.h>

#include "bindings/openshmem/process.h"

using namespace towpath;
using namespace towpath::openshmem;

namespace {

/// Bytes that blocks, at least one, with a step between them reach over.
std::uint64_t extent(std::ptrdiff_t step, const door_strides& strides, const door_blocks& blocks) {
  const auto before = checked_multiply(blocks.count - 1, static_cast<std::uint64_t>(step));
  const auto elements = before ? checked_add(*before, blocks.nelems) : std::nullopt;
  return door_bytes(elements.value_or(SIZE_MAX), strides.width);
}

void copy_strided(std::byte* to, const std::byte* from, const door_strides& strides,
                  const door_blocks& blocks) {
  for (std::uint64_t i = 0; i < blocks.count; ++i)
    std::memcpy(to + i * static_cast<std::uint64_t>(strides.dest) * strides.width,
                from + i * static_cast<std::uint64_t>(strides.source) * strides.width,
                blocks.nelems * strides.width);
}

/// A get of blocks from another host fetches as much at once, with what lies between them.
constexpr std::uint64_t kWindowBytes = 1 << 20;
/// From here on what lies between two blocks takes longer than to ask for each (decision 0067: 8
/// bytes take 11 us, 64 KiB 40).
constexpr std::uint64_t kGapOfQuestion = 16 << 10;

/// How many blocks one question asks for: one where the gaps are large, or a block is. Of several
/// blocks the step fits into the heap.
std::uint64_t blocks_in_window(const door_strides& strides, const door_blocks& blocks) {
  if (blocks.count == 1) return 1;
  const std::uint64_t step = static_cast<std::uint64_t>(strides.source) * strides.width;
  const std::uint64_t block = blocks.nelems * strides.width;
  if (block > kWindowBytes || step > block + kGapOfQuestion) return 1;
  return std::min<std::uint64_t>((kWindowBytes - block) / step + 1, blocks.count);
}

void get_far(const shmem::World& world, std::byte* to, shmem::RemoteAddress from,
             const door_strides& strides, const door_blocks& blocks) {
  std::uint64_t at_once = blocks_in_window(strides, blocks);
  std::unique_ptr<std::byte[]> window;
  if (at_once > 1) window.reset(new (std::nothrow) std::byte[kWindowBytes]);
  if (window == nullptr) at_once = 1;
  for (std::uint64_t done = 0; done < blocks.count; done += at_once) {
    const door_blocks some{.nelems = blocks.nelems,
                           .count = std::min(at_once, blocks.count - done)};
    const std::uint64_t reach = extent(strides.source, strides, some);
    must(world.read(from, {window != nullptr ? window.get() : to, reach}));
    if (window != nullptr) copy_strided(to, window.get(), strides, some);
    from.offset += at_once * static_cast<std::uint64_t>(strides.source) * strides.width;
    to += at_once * static_cast<std::uint64_t>(strides.dest) * strides.width;
  }
}

shmem::Change change_of(const door_atomic& what) {
  return {.op = static_cast<shmem::ChangeOp>(what.op),
          .word_bytes = static_cast<std::uint8_t>(what.width),
          .operand = what.value,
          .expected = what.cond};
}
static_assert(door_load == static_cast<int>(shmem::ChangeOp::fetch) &&
              door_compare_swap == static_cast<int>(shmem::ChangeOp::compare_swap) &&
              door_xor == static_cast<int>(shmem::ChangeOp::bit_xor));

void check(const door_strides& strides) {
  if (strides.dest < 1 || strides.source < 1)
    die(error(Code::invalid_argument,
              cat("strides of ", strides.dest, " and ", strides.source, " elements"),
              "strides are at least 1"));
}

}  // namespace

extern "C" {

void door_put(shmem_ctx_t ctx, void* dest, const void* source, size_t bytes, int pe) {
  if (bytes == 0) return;
  Process& self = process();
  const shmem::RemoteAddress to = self.remote_address(ctx, pe, dest, bytes);
  must(self.world().write(to, {static_cast<const std::byte*>(source), bytes}));
  self.world().nudge(to.pe);
}

void door_get(shmem_ctx_t ctx, void* dest, const void* source, size_t bytes, int pe) {
  if (bytes == 0) return;
  Process& self = process();
  const shmem::RemoteAddress from = self.remote_address(ctx, pe, source, bytes);
  auto* into = static_cast<std::byte*>(dest);
  // The bytes of a variable lie in the heap too, of which it is known that they can be written.
  if (!self.world().is_here(from.pe))
    if (std::byte* const mine = self.in_heap(dest, bytes)) into = mine;
  must(self.world().read(from, {into, bytes}));
}

void door_ibput(shmem_ctx_t ctx, void* dest, const void* source, door_strides strides,
                door_blocks blocks, int pe) {
  check(strides);
  if (blocks.count == 0 || blocks.nelems == 0) return;
  Process& self = process();
  shmem::World& world = self.world();
  shmem::RemoteAddress to =
      self.remote_address(ctx, pe, dest, extent(strides.dest, strides, blocks));
  const auto* from = static_cast<const std::byte*>(source);
  if (world.is_here(to.pe)) {
    copy_strided(world.heap_of(to.pe) + to.offset, from, strides, blocks);
    return world.nudge(to.pe);
  }
  for (std::size_t i = 0; i < blocks.count; ++i) {
    must(world.write(to, {from, blocks.nelems * strides.width}));
    to.offset += static_cast<std::uint64_t>(strides.dest) * strides.width;
    from += static_cast<std::uint64_t>(strides.source) * strides.width;
  }
}

void door_ibget(shmem_ctx_t ctx, void* dest, const void* source, door_strides strides,
                door_blocks blocks, int pe) {
  check(strides);
  if (blocks.count == 0 || blocks.nelems == 0) return;
  Process& self = process();
  const std::uint64_t reach = extent(strides.source, strides, blocks);
  const shmem::RemoteAddress from = self.remote_address(ctx, pe, source, reach);
  if (self.world().is_here(from.pe)) {
    copy_strided(static_cast<std::byte*>(dest), self.world().heap_of(from.pe) + from.offset,
                 strides, blocks);
    return;
  }
  get_far(self.world(), static_cast<std::byte*>(dest), from, strides, blocks);
}

void door_iput(shmem_ctx_t ctx, void* dest, const void* source, door_strides strides, size_t nelems,
               int pe) {
  door_ibput(ctx, dest, source, strides, {.nelems = 1, .count = nelems}, pe);
}

void door_iget(shmem_ctx_t ctx, void* dest, const void* source, door_strides strides, size_t nelems,
               int pe) {
  door_ibget(ctx, dest, source, strides, {.nelems = 1, .count = nelems}, pe);
}

uint64_t door_change(shmem_ctx_t ctx, const void* at, door_atomic what, int pe) {
  Process& self = process();
  const auto before =
      self.world().change(self.remote_address(ctx, pe, at, what.width), change_of(what));
  must(before.status());
  return *before;
}

void door_post(shmem_ctx_t ctx, void* at, door_atomic what, int pe) {
  Process& self = process();
  must(self.world().post(self.remote_address(ctx, pe, at, what.width), change_of(what)));
}

void door_put_signal(shmem_ctx_t ctx, void* dest, const void* source, size_t bytes,
                     struct door_signal signal, int pe) {
  if (signal.op != SHMEM_SIGNAL_SET && signal.op != SHMEM_SIGNAL_ADD)
    die(error(Code::invalid_argument, cat("signal operation ", signal.op),
              "use SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD"));
  door_put(ctx, dest, source, bytes, pe);
  // The atomic operation orders the bytes before it.
  door_post(ctx, signal.word,
            {.op = signal.op == SHMEM_SIGNAL_ADD ? door_add : door_swap,
             .width = sizeof(std::uint64_t),
             .value = signal.value,
             .cond = 0},
            pe);
}

void shmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal, int pe) {
  door_put_signal(ctx, nullptr, nullptr, 0, {sig_addr, signal, SHMEM_SIGNAL_ADD}, pe);
}
void shmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal, int pe) {
  door_put_signal(ctx, nullptr, nullptr, 0, {sig_addr, signal, SHMEM_SIGNAL_SET}, pe);
}
void shmem_signal_add(uint64_t* sig_addr, uint64_t signal, int pe) {
  shmem_ctx_signal_add(SHMEM_CTX_DEFAULT, sig_addr, signal, pe);
}
void shmem_signal_set(uint64_t* sig_addr, uint64_t signal, int pe) {
  shmem_ctx_signal_set(SHMEM_CTX_DEFAULT, sig_addr, signal, pe);
}

uint64_t shmem_signal_fetch(const uint64_t* sig_addr) {
  // Acquire: pairs with the update in door_put_signal().
  return std::atomic_ref<std::uint64_t>(*const_cast<std::uint64_t*>(sig_addr))
      .load(std::memory_order_acquire);
}

void shmem_fence(void) { process().context().fence(); }
void shmem_quiet(void) { process().context().quiet(); }
void shmem_ctx_fence(shmem_ctx_t) { shmem_fence(); }
void shmem_ctx_quiet(shmem_ctx_t) { shmem_quiet(); }
void shmem_pe_quiet(const int*, size_t npes) {
  if (npes != 0) shmem_quiet();
}
void shmem_ctx_pe_quiet(shmem_ctx_t, const int* target_pes, size_t npes) {
  shmem_pe_quiet(target_pes, npes);
}

}  // extern "C"
