// The n-th allocation fails, for every n, while bytes go to a file and back: each operation ends,
// once; what is done has its bytes in place, and what follows it goes well.
#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backend/request_progress.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>

#include "failing_allocation.h"

namespace towpath::backends::posix {
namespace {

using backend::Segment;
using testing::survives;

constexpr std::uint64_t kBytes = 64 * 1024;

/// Keeps the last completion, and allocates nothing.
struct LastEvent final : backend::Events {
  void on_complete(backend::Operation&, const backend::Completion& completion) override {
    ++count;
    status = completion.status;
    bytes = completion.bytes;
  }
  bool on_notification(const AgentIdentity&, ConstByteSpan) override { return true; }
  void on_peer_lost(backend::Connection&, const Status&) override {}

  int count = 0;
  Status status;
  std::uint64_t bytes = 0;
};

struct Stand {
  explicit Stand(const char* engine)
      : backend(posix_type()
                    .open({.self = self,
                           .clock = &clock,
                           .events = &events,
                           .params = {{"engine", engine}, {"depth", "2"}}})
                    .value()) {
    connection = backend->connect(self, backend->connection_info()).value();
    const RegionDescriptor region{.kind = MemoryKind::disk, .length = 8 * kBytes, .fd = file.get()};
    registered = backend->register_memory(region).value();
    imported = backend->import_memory(*connection, region, registered->key()).value();
    local =
        backend->register_memory({.address = address_of(memory.data()), .length = memory.size()})
            .value();
    operation = backend->make_operation();
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7 + 1);
  }
  Segment segment(std::uint64_t at, std::uint64_t offset, std::uint64_t length) const {
    return {local.get(), imported.get(), address_of(memory.data()) + at, offset, length};
  }
  void post(TransferOp op, const std::vector<Segment>& segments) {
    (void)survives([&] { operation->post({op, connection.get(), segments}); });
  }
  /// Whether it completes, a `times`-th time. Nobody else wakes it.
  bool completes(int times) {
    while (events.count < times) {
      bool is_idle = false;
      if (!survives([&] { is_idle = !backend->progress(); }) || !is_idle) continue;
      pollfd ready{backend->wait_fd(), POLLIN, 0};
      if (events.count < times && ::poll(&ready, 1, 20'000) == 0) return false;
    }
    return events.count == times;
  }

  const AgentIdentity self{"a", 1};
  sys::SystemClock clock;
  LastEvent events;
  std::vector<std::byte> memory = std::vector<std::byte>(2 * kBytes);
  const sys::Fd file{::memfd_create("faults", MFD_CLOEXEC)};
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<backend::Connection> connection;
  std::unique_ptr<backend::Memory> registered, imported, local;
  std::unique_ptr<backend::Operation> operation;
};

class FileFaultsTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engines, FileFaultsTest, ::testing::Values("auto", "threads"),
                         [](const auto& engine) { return std::string(engine.param); });

/// Bytes that are written, then read back from the file and from behind its end.
void move_with_fault_at(std::int64_t n, const char* engine, bool cancels, bool& is_reached) {
  Stand one(engine);
  const std::vector<Segment> there{one.segment(0, 0, kBytes)};
  one.post(TransferOp::write, there);
  ASSERT_TRUE(one.completes(1) && one.events.status.ok()) << one.events.status.to_string();
  const std::vector<Segment> back{
      one.segment(kBytes, 0, 1024), one.segment(kBytes + 1024, 4 * kBytes, 1024),
      one.segment(kBytes + 2048, 2048, 4096), one.segment(kBytes + 8192, 8192, kBytes - 8192)};
  testing::fail_allocation(n);
  one.post(TransferOp::read, back);
  if (cancels) (void)survives([&] { one.operation->cancel(); });
  const bool has_ended = one.completes(2);
  is_reached = testing::stop_failing();
  ASSERT_TRUE(has_ended) << "it ended " << one.events.count - 1 << " times";
  const Code code = one.events.status.code();
  EXPECT_TRUE(code == Code::out_of_range || (is_reached && code == Code::exhausted) ||
              (cancels && code == Code::cancelled))
      << one.events.status.to_string();
  if (code == Code::out_of_range) {
    EXPECT_EQ(one.events.bytes, kBytes - 3072);
  }
  const std::vector<Segment> again{one.segment(kBytes, 0, kBytes)};
  one.post(TransferOp::read, again);
  ASSERT_TRUE(one.completes(3) && one.events.status.ok()) << one.events.status.to_string();
  EXPECT_TRUE(
      std::equal(one.memory.begin(), one.memory.begin() + kBytes, one.memory.begin() + kBytes));
}

TEST_P(FileFaultsTest, every_operation_ends_once_and_the_next_one_goes_well) {
  for (const bool cancels : {false, true}) {
    bool is_reached = true;
    std::int64_t n = 0;
    for (; is_reached && n < 1000; ++n) {
      SCOPED_TRACE(n);
      move_with_fault_at(n, GetParam(), cancels, is_reached);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(n, cancels ? 1 : 3) << "nothing was tried";
    EXPECT_LT(n, 1000);
  }
}

TEST(RequestProgressFaultsTest, what_no_memory_is_left_to_name_is_not_done) {
  bool is_reached = true;
  for (std::int64_t n = 0; is_reached; ++n) {
    const std::vector<Segment> segments(1, Segment{.length = 100, .count = 4});
    const Status why = error(Code::io_error, "a bad block");
    backend::RequestProgress progress;
    progress.start(segments);
    progress.moved(300);
    testing::fail_allocation(n);
    progress.failed({0, 1, 0}, 100, why);
    const backend::Completion completion = progress.close(false);
    is_reached = testing::stop_failing();
    EXPECT_EQ(completion.status.code(), is_reached ? Code::exhausted : Code::io_error) << n;
    EXPECT_EQ(completion.bytes, 300U);
    EXPECT_EQ(completion.failures.size(), is_reached ? 0U : 1U);
    ASSERT_LT(n, 100);
  }
}

}  // namespace
}  // namespace towpath::backends::posix
