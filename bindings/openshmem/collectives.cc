// Collectives on teams, in the words of towpath/shmem/collectives.h.
#include <complex>

#include <towpath/core/format.h>
#include <towpath/shmem/collectives.h>

#include "bindings/openshmem/process.h"
#include "bindings/openshmem/short_floats.h"

using namespace towpath;
using namespace towpath::openshmem;

namespace {

namespace engine = shmem::internal;

engine::Movement movement(const Process& self, const void* dest, const void* source,
                          std::uint64_t bytes) {
  return {.target = {self.offset(dest, bytes), bytes},
          .source = {self.offset(source, bytes), bytes}};
}

std::size_t size_of(const shmem::Team& team) {
  return static_cast<std::size_t>(std::max(team.n_pes(), 0));
}

/// A barrier, `move`, a barrier.
template <typename Move>
Status between_barriers(const shmem::Team& team, const Move& move) {
  TOWPATH_TRY(team.barrier());
  move();
  return team.barrier();
}

template <typename T>
shmem::Fold sum_or_product(shmem::ReduceOp op) {
  if (op == shmem::ReduceOp::sum) return engine::fold<T, engine::Sum>;
  return op == shmem::ReduceOp::product ? engine::fold<T, engine::Product> : nullptr;
}

struct Element {
  std::uint64_t width;
  shmem::Fold fold;
};

Element element_of(door_type type, shmem::ReduceOp op) {
  switch (type) {
    case door_int8: return {1, shmem::fold_of<std::int8_t>(op)};
    case door_int16: return {2, shmem::fold_of<std::int16_t>(op)};
    case door_int32: return {4, shmem::fold_of<std::int32_t>(op)};
    case door_int64: return {8, shmem::fold_of<std::int64_t>(op)};
    case door_uint8: return {1, shmem::fold_of<std::uint8_t>(op)};
    case door_uint16: return {2, shmem::fold_of<std::uint16_t>(op)};
    case door_uint32: return {4, shmem::fold_of<std::uint32_t>(op)};
    case door_uint64: return {8, shmem::fold_of<std::uint64_t>(op)};
    case door_float: return {sizeof(float), shmem::fold_of<float>(op)};
    case door_double: return {sizeof(double), shmem::fold_of<double>(op)};
    case door_longdouble: return {sizeof(long double), shmem::fold_of<long double>(op)};
    case door_complexf: return {8, sum_or_product<std::complex<float>>(op)};
    case door_half: return {2, shmem::fold_of<Half>(op)};
    case door_bfloat16: return {2, shmem::fold_of<BFloat16>(op)};
    case door_complexd: return {16, sum_or_product<std::complex<double>>(op)};
  }
  return {1, nullptr};
}

shmem::ReduceOp op_of(door_reduce_op op) {
  switch (op) {
    case door_sum: return shmem::ReduceOp::sum;
    case door_prod: return shmem::ReduceOp::product;
    case door_min: return shmem::ReduceOp::min;
    case door_max: return shmem::ReduceOp::max;
    case door_bits_and: return shmem::ReduceOp::bit_and;
    case door_bits_or: return shmem::ReduceOp::bit_or;
    case door_bits_xor: break;
  }
  return shmem::ReduceOp::bit_xor;
}

engine::Folding folding_of(const door_reduction& what) {
  const shmem::ReduceOp op = op_of(what.op);
  const Element element = element_of(what.type, op);
  return {.count = what.count, .element_bytes = element.width, .op = op, .fold = element.fold};
}

}  // namespace

extern "C" {

void shmem_barrier_all(void) { must(process().context().barrier()); }
void shmem_sync_all(void) { must(process().context().sync()); }

void door_must(int answered) {
  if (answered != 0) end_pe();
}

int door_barrier(shmem_team_t team) { return answer(process().team(team).barrier()); }

int door_broadcast(shmem_team_t team, void* dest, const void* source, size_t bytes, int root) {
  Process& self = process();
  return answer(
      engine::broadcast(self.team(team), movement(self, dest, source, bytes), {bytes, 1}, root));
}

int door_broadcast_to_others(shmem_team_t handle, void* dest, const void* source, size_t bytes,
                             int root) {
  const shmem::Team team = process().team(handle);
  const int pe = team.translate(root, process().context().world());
  return answer(between_barriers(team, [&] {
    if (team.my_pe() != root) door_get(SHMEM_CTX_DEFAULT, dest, source, bytes, pe);
  }));
}

int door_collect(shmem_team_t team, void* dest, const void* source, size_t nelems, size_t width) {
  Process& self = process();
  const engine::Movement what{
      .target = {self.offset(dest, 0), self.room_at(dest)},
      .source = {self.offset(source, door_bytes(nelems, width)), self.room_at(source)}};
  return answer(engine::collect(self.team(team), what, {nelems, width}).status());
}

int door_alltoall(shmem_team_t handle, void* dest, const void* source, size_t bytes) {
  Process& self = process();
  const shmem::Team team = self.team(handle);
  const std::uint64_t all = door_bytes(bytes, size_of(team));
  return answer(engine::alltoall(team, movement(self, dest, source, all), bytes));
}

int door_alltoalls(shmem_team_t handle, void* dest, const void* source, door_strides strides,
                   size_t nelems) {
  const shmem::Team team = process().team(handle);
  const shmem::Team world = process().context().world();
  const auto mine = static_cast<std::uint64_t>(team.my_pe());
  const auto share = [&](std::ptrdiff_t stride) {
    return door_bytes(door_bytes(nelems, static_cast<std::uint64_t>(stride)), strides.width);
  };
  if (door_bytes(std::max(share(strides.dest), share(strides.source)), size_of(team)) == SIZE_MAX)
    die(error(
        Code::out_of_range,
        cat(nelems, " elements of each PE, in steps of ", strides.dest, " and ", strides.source),
        "no memory is that large"));
  return answer(between_barriers(team, [&] {
    for (int member = 0; member < team.n_pes(); ++member)
      door_iget(
          SHMEM_CTX_DEFAULT,
          static_cast<std::byte*>(dest) + static_cast<std::uint64_t>(member) * share(strides.dest),
          static_cast<const std::byte*>(source) + mine * share(strides.source), strides, nelems,
          team.translate(member, world));
  }));
}

int door_reduce(shmem_team_t team, void* dest, const void* source, door_reduction what) {
  Process& self = process();
  const engine::Folding folding = folding_of(what);
  const std::uint64_t bytes = door_bytes(folding.count, folding.element_bytes);
  return answer(engine::reduce(self.team(team), movement(self, dest, source, bytes), folding));
}

int door_reduce_scatter(shmem_team_t handle, void* dest, const void* source, door_reduction what) {
  Process& self = process();
  const shmem::Team team = self.team(handle);
  const engine::Folding folding = folding_of(what);
  const std::uint64_t bytes = door_bytes(folding.count, folding.element_bytes);
  engine::Movement extents = movement(self, dest, source, bytes);
  extents.source.size_bytes = door_bytes(bytes, std::max<std::size_t>(size_of(team), 1));
  (void)self.offset(source, extents.source.size_bytes);
  return answer(engine::reduce_scatter(team, extents, folding));
}

std::uint16_t door_half_sum(std::uint16_t a, std::uint16_t b) { return (Half{a} + Half{b}).bits; }

int door_scan(shmem_team_t team, void* dest, const void* source, door_reduction what,
              int is_inclusive) {
  Process& self = process();
  const engine::Folding folding = folding_of(what);
  const std::uint64_t bytes = door_bytes(folding.count, folding.element_bytes);
  const auto kind = is_inclusive != 0 ? engine::ScanKind::inclusive : engine::ScanKind::exclusive;
  return answer(engine::scan(self.team(team), movement(self, dest, source, bytes), folding, kind));
}

}  // extern "C"
