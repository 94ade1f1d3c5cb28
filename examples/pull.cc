// The smallest whole program: one agent has bytes, another pulls them and says so. The example of
// the README, built and run by the tests.
#include <algorithm>
#include <cstdio>

#include <towpath/memory/shared_region.h>
#include <towpath/standard/standard.h>

using namespace towpath;

Result<int> pull() {
  // In real life the two live in two processes, and their metadata travel by whatever way you have.
  TOWPATH_TRY(auto prefill, standard::Node::open({.name = "prefill", .backends = {"shm"}}));
  TOWPATH_TRY(auto decode, standard::Node::open({.name = "decode", .backends = {"shm"}}));
  TOWPATH_TRY(auto theirs, memory::SharedMemoryRegion::create({.size_bytes = 1 << 20}));
  TOWPATH_TRY(auto mine, memory::SharedMemoryRegion::create({.size_bytes = 1 << 20}));
  std::ranges::fill(theirs->bytes(), std::byte{42});

  TOWPATH_TRY(auto known_there, prefill->agent().register_region(theirs));
  TOWPATH_TRY(auto known_here, decode->agent().register_region(mine));
  TOWPATH_TRY(const Bytes metadata, prefill->agent().metadata());
  TOWPATH_TRY(decode->agent().load_metadata(metadata));

  // 64 blocks of 4 KiB, every other one: a single strided descriptor on either side.
  DescriptorList from(MemoryKind::system), to(MemoryKind::system);
  TOWPATH_TRY(from.add(StridedDescriptor{theirs->descriptor().address, 4096, 8192, 64}));
  TOWPATH_TRY(to.add(StridedDescriptor{mine->descriptor().address, 4096, 4096, 64}));
  TOWPATH_TRY(auto transfer,
              decode->agent().create_transfer(TransferOp::read, to, "prefill", from));
  TOWPATH_TRY(transfer.post({.timeout = std::chrono::seconds(5)}));
  if (transfer.wait() != Outcome::done) return transfer.status();
  std::fputs(transfer.explain().to_string().c_str(), stdout);
  return static_cast<int>(mine->bytes()[64 * 4096 - 1]);
}

int main() {
  const Result<int> last = pull();
  std::printf("%s\n", last.ok() ? "pulled" : last.status().to_string().c_str());
  return last.ok() && *last == 42 ? 0 : 1;
}
