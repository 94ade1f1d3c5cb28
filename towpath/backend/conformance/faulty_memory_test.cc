// Conformance: memory that was registered and cannot be touched any more. A transfer fails by name,
// and nothing else does: not the process, not the connection, not the bytes beside it.
#include <algorithm>
#include <set>

#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/world.h>
#include <towpath/memory/borrowed.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>

namespace towpath::backend::conformance {
namespace {

constexpr std::uint64_t kBytes = kMiB;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kBadBegin = 164 * kPage;  // a page that blocks of every length meet

/// Memory of a program, which does with it what it likes.
class ProgramMemory {
 public:
  enum class Damage : std::uint8_t { read_only, no_access, unmapped, cut };

  explicit ProgramMemory(Damage damage) : damage_(damage) {
    file_ = sys::Fd(::memfd_create("program", MFD_CLOEXEC));
    if (::ftruncate(file_.get(), kBytes) != 0) return;
    data_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                   damage == Damage::cut ? MAP_SHARED : MAP_PRIVATE, file_.get(), 0);
  }
  ~ProgramMemory() { ::munmap(data_, kBytes); }
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  ByteSpan bytes() const { return {static_cast<std::byte*>(data_), kBytes}; }
  memory::SharedRegion region() const {
    return *memory::BorrowedRegion::create({.address = address_of(data_), .size_bytes = kBytes});
  }
  void damage() const {
    std::byte* const bad = bytes().data() + kBadBegin;
    switch (damage_) {
      case Damage::read_only: EXPECT_EQ(::mprotect(bad, kPage, PROT_READ), 0); return;
      case Damage::no_access: EXPECT_EQ(::mprotect(bad, kPage, PROT_NONE), 0); return;
      case Damage::unmapped: EXPECT_EQ(::munmap(bad, kPage), 0); return;
      case Damage::cut: EXPECT_EQ(::ftruncate(file_.get(), kBadBegin), 0); return;
    }
  }
  std::uint64_t bad_end() const { return damage_ == Damage::cut ? kBytes : kBadBegin + kPage; }

 private:
  const Damage damage_;
  sys::Fd file_;
  void* data_ = nullptr;
};

constexpr ProgramMemory::Damage kDamages[] = {
    ProgramMemory::Damage::read_only, ProgramMemory::Damage::no_access,
    ProgramMemory::Damage::unmapped, ProgramMemory::Damage::cut};

class FaultyMemoryConformance : public PairingTest {
 protected:
  void SetUp() override {
    PairingTest::SetUp();
    if (IsSkipped()) return;
    if (!candidate().no_processes.empty()) GTEST_SKIP() << candidate().no_processes;
    if (pairing().near != Store::system || pairing().far != Store::system || pairing().to_self)
      GTEST_SKIP() << "only of memory that is the program's own";
  }

  /// A transfer between the program's memory, at `side`, and the other's pool.
  struct Case {
    TransferOp op = TransferOp::read;
    std::uint64_t length = 0;  ///< of a block
    bool is_far = true;        ///< whose memory the program's is
  };
  void run(const Case& one, ProgramMemory::Damage damage);
  void move(World& world, const Case& one, const ProgramMemory& program, bool all);
};

/// Every second block, of all of the memory or of what can be touched.
std::vector<StridedDescriptor> blocks(std::uint64_t length, const ProgramMemory& program,
                                      bool all) {
  std::vector<StridedDescriptor> list;
  for (std::uint64_t at = 0; at + length <= kBytes; at += 2 * length) {
    const bool is_bad = at + length > kBadBegin && at < program.bad_end();
    if (all || !is_bad) list.push_back({.address = at, .length = length});
  }
  return list;
}

void FaultyMemoryConformance::move(World& world, const Case& one, const ProgramMemory& program,
                                   bool all) {
  const std::vector<StridedDescriptor> list = blocks(one.length, program, all);
  if (list.empty()) return;
  const TestMemory& pool = one.is_far ? world.near_memory : world.far_memory;
  const DescriptorList at_program = list_of(list, program.region()->descriptor());
  const DescriptorList at_pool = list_of(list, pool);
  auto made = world.near().create_transfer(one.op, one.is_far ? at_pool : at_program,
                                           world.far_name(), one.is_far ? at_program : at_pool);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  ASSERT_TRUE(made->post().ok());
  ASSERT_TRUE(world.run_to_end(*made));
  ASSERT_EQ(made->outcome(), all ? Outcome::failed : Outcome::done) << made->status().to_string();
  std::set<std::uint64_t> failed;
  for (const agent::DescriptorError& error : made->errors()) failed.insert(error.descriptor);
  if (all && failed.empty()) return;  // nothing is proven of any
  const Bytes pool_bytes = pool.read();
  for (std::uint64_t i = 0; i < list.size(); ++i) {
    const StridedDescriptor& block = list[i];
    const bool is_bad =
        block.address + block.length > kBadBegin && block.address < program.bad_end();
    if (is_bad && failed.size() < kMaxFailures) {
      EXPECT_TRUE(failed.contains(i)) << block.address;
    }
    if (is_bad || failed.contains(i)) continue;
    EXPECT_TRUE(std::ranges::equal(program.bytes().subspan(block.address, block.length),
                                   ConstByteSpan(pool_bytes).subspan(block.address, block.length)))
        << "block at " << block.address;
  }
}

void FaultyMemoryConformance::run(const Case& one, ProgramMemory::Damage damage) {
  const bool writes_to_it = (one.op == TransferOp::write) == one.is_far;
  if (!writes_to_it && damage == ProgramMemory::Damage::read_only) return;
  SCOPED_TRACE(testing::Message() << name_of(one.op) << " of " << one.length << ", "
                                  << (one.is_far ? "far" : "near") << ", damage "
                                  << static_cast<int>(damage));
  const ProgramMemory program(damage);
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  world.fill(3);
  std::ranges::copy(random_bytes(4, kBytes), program.bytes().begin());
  auto registered = (one.is_far ? world.far() : world.near()).register_region(program.region());
  ASSERT_TRUE(registered.ok()) << registered.status().to_string();
  ASSERT_TRUE(world.introduce().ok());
  ASSERT_NO_FATAL_FAILURE(move(world, one, program, false)) << "nothing is wrong with it so far";
  program.damage();
  ASSERT_NO_FATAL_FAILURE(move(world, one, program, true));
  Case shorter = one;
  shorter.length = 48;
  ASSERT_NO_FATAL_FAILURE(move(world, shorter, program, false)) << "what failed is over";
  world.fill(5);
  ASSERT_NO_FATAL_FAILURE(move(world, one, program, false)) << "the connection goes on";
}

constexpr std::uint64_t kLengths[] = {48, 1024, 4096, 64 * 1024, 256 * 1024};

TEST_P(FaultyMemoryConformance, owner_outlives_requests_to_memory_that_it_took_away) {
  for (const TransferOp op : kBothWays) {
    for (const std::uint64_t length : kLengths)
      for (const ProgramMemory::Damage damage : kDamages)
        ASSERT_NO_FATAL_FAILURE(run({.op = op, .length = length}, damage));
  }
}

TEST_P(FaultyMemoryConformance, initiator_outlives_transfers_of_memory_that_it_took_away) {
  for (const TransferOp op : kBothWays) {
    for (const std::uint64_t length : kLengths)
      for (const ProgramMemory::Damage damage : kDamages)
        ASSERT_NO_FATAL_FAILURE(run({.op = op, .length = length, .is_far = false}, damage));
  }
}

TEST_P(FaultyMemoryConformance, memory_that_is_read_only_is_refused_as_a_target_and_can_be_read) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const ProgramMemory program(ProgramMemory::Damage::read_only);
  std::ranges::copy(random_bytes(4, kBytes), program.bytes().begin());
  ASSERT_EQ(::mprotect(program.bytes().data(), kBytes, PROT_READ), 0);
  const auto far = world.far().register_region(program.region());
  const auto near = world.near().register_region(program.region());
  ASSERT_TRUE(far.ok() && near.ok());
  ASSERT_TRUE(world.introduce().ok());
  const std::vector<StridedDescriptor> list = {{.address = 0, .length = 4096},
                                               {.address = 8192, .length = 100}};
  for (const bool is_far : {true, false}) {
    SCOPED_TRACE(is_far);
    const DescriptorList at_program = list_of(list, program.region()->descriptor());
    const DescriptorList at_pool = list_of(list, is_far ? world.near_memory : world.far_memory);
    const DescriptorList& local = is_far ? at_pool : at_program;
    const DescriptorList& remote = is_far ? at_program : at_pool;
    const auto refused = world.near().create_transfer(is_far ? TransferOp::write : TransferOp::read,
                                                      local, world.far_name(), remote);
    ASSERT_EQ(refused.code(), Code::denied) << "nothing is tried that cannot be";
    EXPECT_NE(refused.status().to_string().find("read-only"), std::string::npos)
        << refused.status().to_string();
    auto made = world.near().create_transfer(is_far ? TransferOp::read : TransferOp::write, local,
                                             world.far_name(), remote);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    world.finish(*made);
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, FaultyMemoryConformance, testing::ValuesIn(peer_pairings()),
                         Labels());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FaultyMemoryConformance);

}  // namespace
}  // namespace towpath::backend::conformance
