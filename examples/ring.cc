// A token goes around a ring of processes, and grows: symmetric memory in one page.
//
//   towpath run -n 4 -- example_ring [rounds]
//
// Alone (without `towpath run`) it is a ring of one.
#include <cstdio>
#include <cstdlib>

#include <towpath/shmem/collectives.h>
#include <towpath/standard/shmem.h>

using namespace towpath;

Status go_around(std::uint64_t rounds) {
  TOWPATH_TRY(auto context, standard::open_shmem());
  const int self = context.my_pe();
  const int next = (self + 1) % context.n_pes();

  // On every PE, at the same place of its heap. Zeroed before anybody can write.
  TOWPATH_TRY(auto token, context.allocate_zeroed<std::uint64_t>(4));
  TOWPATH_TRY(auto arrived, context.allocate_zeroed<std::uint64_t>(1));

  for (std::uint64_t round = 1; round <= rounds; ++round) {
    // PE 0 starts each round; the others wait for the token.
    if (self != 0) TOWPATH_TRY(arrived.wait_until(0, {shmem::Compare::equal, round}));
    token.local()[0] += 1;
    // The bytes, and then the signal: who sees the signal sees the bytes.
    TOWPATH_TRY(token.put_signal({.pe = next}, token.local(), {.word = arrived, .value = round}));
    if (self == 0) TOWPATH_TRY(arrived.wait_until(0, {shmem::Compare::equal, round}));
  }
  TOWPATH_TRY(context.barrier());
  if (self == 0)
    std::printf("%d PEs, %llu rounds: the token is %llu\n", context.n_pes(),
                static_cast<unsigned long long>(rounds),
                static_cast<unsigned long long>(token.local()[0]));

  // What every PE has, added up on every PE.
  token.local()[1] = static_cast<std::uint64_t>(self) + 1;
  TOWPATH_TRY(shmem::reduce(context.world(), token, token, {.count = 2}));
  const auto all = static_cast<std::uint64_t>(context.n_pes());
  if (token.local()[1] != all * (all + 1) / 2)
    return error(Code::internal, cat("the sum is ", token.local()[1]));
  return context.finalize();
}

int main(int argc, char** argv) {
  const Status status = go_around(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
