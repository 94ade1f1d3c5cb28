// The n-th allocation fails, for every n, while two agents live a whole life over shm: each life in
// a process of its own. It ends without an abort and without a hang; what fails is `exhausted`, or
// ends the call as operator new does (std::bad_alloc), and what was made goes as ever.
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>

#include <execinfo.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/agent/agent.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>

namespace {

// Constant-initialised, so that it is there before main(). Relaxed: a plain count.
std::atomic<std::int64_t> left{INT64_MAX};  // allocations until the one that fails

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (left.fetch_sub(1, std::memory_order_relaxed) == 0) return nullptr;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(size)
                                                : std::aligned_alloc(alignment, rounded);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The forms for arrays call these.
void* operator new(std::size_t size) { return or_throw(allocate(size, 1)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, static_cast<std::size_t>(alignment)));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace towpath {
namespace {

using agent::Agent;

enum Ending : int { kNotReached = 10, kWell, kExhausted, kThrown, kOther };

constexpr std::uint64_t kBytes = 256 * 1024;
constexpr std::uint64_t kBlock = 1024;

Result<std::unique_ptr<Agent>> open(const std::string& name, const backend::Registry& registry,
                                    const Clock& clock) {
  TOWPATH_TRY(auto agent, Agent::create({.name = name, .registry = &registry, .clock = &clock}));
  TOWPATH_TRY(agent->add_backend("shm"));
  return agent;
}

DescriptorList blocks(const memory::Region& region) {
  DescriptorList list(MemoryKind::system);
  const std::uint64_t begin = region.descriptor().address;
  for (std::uint64_t at = 0; at < kBytes; at += 2 * kBlock)
    (void)list.add(Descriptor{.address = begin + at, .length = kBlock});
  return list;
}

Status move(Agent& near, Agent& far, TransferOp op, const memory::Region& here,
            const memory::Region& there) {
  TOWPATH_TRY(auto transfer, near.create_transfer(op, blocks(here), far.name(), blocks(there),
                                                  {.notification = Bytes(100, std::byte{7})}));
  TOWPATH_TRY(transfer.post({.timeout = std::chrono::seconds(5)}));
  while (!transfer.ended()) {
    near.progress();
    far.progress();
  }
  return transfer.status();
}

/// Create, register, exchange metadata, transfer, be notified, release.
Status live(const backend::Registry& registry, const Clock& clock) {
  TOWPATH_TRY(const auto near, open("near", registry, clock));
  TOWPATH_TRY(const auto far, open("far", registry, clock));
  TOWPATH_TRY(const auto here, memory::SystemRegion::allocate({.size_bytes = kBytes}));
  TOWPATH_TRY(const auto there, memory::SystemRegion::allocate({.size_bytes = kBytes}));
  TOWPATH_TRY(auto mine, near->register_region(here));
  TOWPATH_TRY(auto theirs, far->register_region(there));
  TOWPATH_TRY(const Bytes metadata, far->metadata());
  TOWPATH_TRY(near->load_metadata(metadata).status());
  for (const TransferOp op : {TransferOp::write, TransferOp::read})
    TOWPATH_TRY(move(*near, *far, op, *here, *there));
  for (int i = 0; i < 10; ++i) far->progress();
  (void)far->take_notifications();
  TOWPATH_TRY(mine.release());
  return theirs.release();
}

/// Where it was when it had to end.
void print_stack(int signal) {
  void* frames[64];
  const int count = ::backtrace(frames, 64);
  ::backtrace_symbols_fd(frames, count, STDERR_FILENO);
  (void)::signal(signal, SIG_DFL);
  (void)::raise(signal);
}

int live_with_fault_at(std::int64_t n, const backend::Registry& registry) {
  const sys::SystemClock clock;
  (void)::signal(SIGALRM, print_stack);
  (void)::signal(SIGABRT, print_stack);
  ::alarm(8);  // what hangs must end
  Status status;
  bool thrown = false;
  left.store(n, std::memory_order_relaxed);
  try {
    status = live(registry, clock);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  const bool is_reached = left.exchange(INT64_MAX, std::memory_order_relaxed) < 0;
  if (thrown) return kThrown;
  if (status.ok()) return is_reached ? kWell : kNotReached;
  if (status.code() == Code::exhausted) return kExhausted;
  std::cerr << "allocation " << n << ": " << status.to_string() << "\n";
  return kOther;
}

TEST(AllocationFaultsTest, every_allocation_of_a_life_may_fail) {
  backend::Registry registry;
  ASSERT_TRUE(registry.add(backends::shm::shm_type()).ok());
  int endings[kOther + 1] = {};
  for (std::int64_t n = 0;; ++n) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(live_with_fault_at(n, registry));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_LT(n, 100'000);
    if (!WIFEXITED(status)) {
      ADD_FAILURE() << "allocation " << n << ": ended by signal " << WTERMSIG(status);
      continue;
    }
    const int ending = WEXITSTATUS(status);
    if (ending == kNotReached) break;
    EXPECT_TRUE(ending >= kWell && ending <= kThrown) << "allocation " << n << ": exit " << ending;
    if (ending <= kOther) ++endings[ending];
  }
  std::cout << endings[kWell] << " went well, " << endings[kExhausted] << " exhausted, "
            << endings[kThrown] << " thrown\n";
  EXPECT_GT(endings[kWell] + endings[kExhausted] + endings[kThrown], 100) << "nothing was tried";
}

}  // namespace
}  // namespace towpath
