// Transfers between two drives without host memory in between: the first one's controller memory
// buffer, mapped into this process, is what the second one reads into and writes from.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/sys/text_file.h>
#include <towpath/sys/uring.h>

#include "guest_drives.h"

namespace towpath::guest {
namespace {

constexpr std::uint64_t kBytes = 256U << 10U;

/// Prints for run_guest.py where the drive's memory lies on the bus, which QEMU's trace is compared
/// with.
void report_where(const Drive& provider) {
  // A line for each range: start, end, flags. Nobody moves blocks to any but its memory.
  const auto ranges = sys::read_text_file(provider.pci + "/resource");
  ASSERT_TRUE(ranges.ok());
  for (std::string_view rest = *ranges; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    std::printf("PEER MEMORY %s\n", std::string(rest.substr(0, end)).c_str());
    rest.remove_prefix(end + 1);
  }
}

/// Memory of a drive, as pages that other drives can reach.
class PeerMemory {
 public:
  explicit PeerMemory(const Drive& provider)
      : allocate_(::open((provider.pci + "/p2pmem/allocate").c_str(), O_RDWR | O_CLOEXEC)) {
    void* at = allocate_
                   ? ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocate_.get(), 0)
                   : MAP_FAILED;
    if (at != MAP_FAILED) bytes_ = {static_cast<std::byte*>(at), kBytes};
  }
  ~PeerMemory() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ByteSpan bytes() const noexcept { return bytes_; }

 private:
  sys::Fd allocate_;
  ByteSpan bytes_;
};

class GuestPeerMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_drive("PROVIDER")) GTEST_SKIP() << "this machine has other drives";
    provider = drive_called("PROVIDER");
    initiator = drive_called("INITIATOR");
    memory = std::make_unique<PeerMemory>(provider);
    ASSERT_FALSE(memory->bytes().empty()) << "the kernel gives no peer memory: " << errno;
  }
  Drive provider, initiator;
  std::unique_ptr<PeerMemory> memory;
};

using GuestOutOfReach = GuestPeerMemory;

TEST_F(GuestPeerMemory, blocks_go_from_drive_to_drive_memory_and_back) {
  if (has_drive("APART")) GTEST_SKIP() << "here no way leads from one to the other";
  const Bytes written = random_bytes(31, kBytes);
  Mover mover;
  ASSERT_TRUE(mover.use(initiator.generic, "rw:", 0, 4 * kBytes).ok());
  std::ranges::copy(written, mover.memory.begin());
  ASSERT_TRUE(mover.move(TransferOp::write, {mover.segment(0, 0, kBytes)}).status.ok());
  std::memset(memory->bytes().data(), 0, kBytes);
  mover.use_memory(memory->bytes());
  const auto read = mover.move(TransferOp::read, {mover.segment(0, 0, kBytes)});
  ASSERT_TRUE(read.status.ok()) << read.status.to_string();
  EXPECT_EQ(mover.moved("direct", "read"), kBytes) << "nothing went over a window";
  EXPECT_EQ(std::memcmp(memory->bytes().data(), written.data(), kBytes), 0);
  const auto back = mover.move(TransferOp::write, {mover.segment(0, kBytes, kBytes)});
  ASSERT_TRUE(back.status.ok()) << back.status.to_string();
  EXPECT_EQ(mover.moved("direct", "write"), 2 * kBytes);
  EXPECT_EQ(read_block_device(initiator.block, kBytes, kBytes), written);
  report_where(provider);
}

TEST_F(GuestPeerMemory, parts_of_blocks_arrive_by_a_copy_that_is_counted) {
  if (has_drive("APART")) GTEST_SKIP() << "here no way leads from one to the other";
  Mover mover;
  ASSERT_TRUE(mover.use(initiator.generic, "rw:", 0, 4 * kBytes).ok());
  const Bytes written = random_bytes(32, 8192);
  std::ranges::copy(written, mover.memory.begin());
  ASSERT_TRUE(mover.move(TransferOp::write, {mover.segment(0, 0, 8192)}).status.ok());
  mover.use_memory(memory->bytes());
  ASSERT_TRUE(mover.move(TransferOp::read, {mover.segment(1, 3, 100)}).status.ok());
  EXPECT_EQ(mover.moved("bounce", "read"), 100U);
  EXPECT_EQ(std::memcmp(memory->bytes().data() + 1, written.data() + 3, 100), 0);
}

TEST_F(GuestPeerMemory, peer_memory_cannot_be_registered_with_a_ring) {
  auto ring = sys::Ring::open({.entries = 4});
  const ByteSpan buffers[] = {memory->bytes()};
  EXPECT_EQ(ring->register_buffers(buffers).code(), Code::invalid_argument)
      << "which is why the backend registers no buffers";
}

TEST_F(GuestOutOfReach, drives_without_a_way_between_them_say_so) {
  if (!has_drive("APART")) GTEST_SKIP() << "here a way leads from one to the other";
  Mover mover;
  ASSERT_TRUE(mover.use(initiator.generic, "rw:", 0, 4 * kBytes).ok());
  mover.use_memory(memory->bytes());
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    const auto outcome = mover.move(op, {mover.segment(0, 0, 65536)});
    EXPECT_EQ(outcome.status.code(), Code::unsupported) << outcome.status.to_string();
    EXPECT_NE(outcome.status.to_string().find("EREMOTEIO"), std::string::npos);
    EXPECT_EQ(outcome.bytes, 0U);
  }
}

}  // namespace
}  // namespace towpath::guest
