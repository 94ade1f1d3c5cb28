#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/kernel_rings.h>
#include <towpath/sys/uring.h>

namespace towpath::sys {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Duration kWatchdog = 30s;

struct Pipe {
  Fd reader;
  Fd writer;

  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
};

class UringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = testing::why_no_rings(); !why.empty()) GTEST_SKIP() << why;
    auto ring = Ring::open({.entries = 8});
    ASSERT_TRUE(ring.ok()) << ring.status().to_string();
    ring_ = std::make_unique<Ring>(std::move(*ring));
    auto directory = TemporaryDirectory::create();
    ASSERT_TRUE(directory.ok());
    directory_ = std::make_unique<TemporaryDirectory>(std::move(*directory));
  }

  Fd make_file(std::string_view content) {
    Fd fd(::open(directory_->file("f").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    EXPECT_EQ(::pwrite(fd.get(), content.data(), content.size(), 0),
              static_cast<ssize_t>(content.size()));
    return fd;
  }

  /// Polls until `count` completions came, by id. Fails the test when the watchdog barks.
  std::map<std::uint64_t, Completion> collect(Ring& ring, std::size_t count) {
    std::map<std::uint64_t, Completion> by_id;
    Completion batch[4];
    while (by_id.size() < count) {
      const Status status = ring.wait({.timeout = kWatchdog});
      if (!status.ok()) {
        ADD_FAILURE() << status.to_string();
        break;
      }
      const std::size_t got = ring.poll(batch);
      for (std::size_t i = 0; i < got; ++i)
        EXPECT_TRUE(by_id.emplace(batch[i].id, batch[i]).second)
            << "id " << batch[i].id << " twice";
    }
    return by_id;
  }
  std::map<std::uint64_t, Completion> run(std::size_t count) {
    EXPECT_TRUE(ring_->submit().ok());
    return collect(*ring_, count);
  }

  std::unique_ptr<Ring> ring_;
  std::unique_ptr<TemporaryDirectory> directory_;
};

TEST_F(UringTest, writes_and_reads_a_file_and_reports_exact_counts) {
  const Fd file = make_file("");
  Bytes back(16);
  ASSERT_TRUE(ring_->write(1, {.file = {file.get()}, .from = as_bytes("canal"), .offset = 3}).ok());
  EXPECT_EQ(run(1).at(1).result, 5);
  ASSERT_TRUE(ring_->sync(2, {file.get()}).ok());
  ASSERT_TRUE(ring_->read(3, {.file = {file.get()}, .into = back, .offset = 4}).ok());
  auto done = run(2);
  EXPECT_EQ(done.at(2).result, 0);
  EXPECT_EQ(done.at(3).result, 4) << "a short read is reported as one";
  EXPECT_EQ(as_text(back).substr(0, 4), "anal");
}

TEST_F(UringTest, vectors_scatter_and_gather) {
  const Fd file = make_file("");
  Bytes ab = to_bytes("ab"), cde = to_bytes("cde");
  const IoPart from[] = {IoPart::of(ab), IoPart::of(cde)};
  ASSERT_TRUE(ring_->write_vector(1, {.file = {file.get()}, .parts = from, .offset = 1}).ok());
  EXPECT_EQ(run(1).at(1).result, 5);
  Bytes first(1), rest(4);
  const IoPart into[] = {IoPart::of(first), IoPart::of(rest)};
  ASSERT_TRUE(ring_->read_vector(2, {.file = {file.get()}, .parts = into, .offset = 1}).ok());
  EXPECT_EQ(run(1).at(2).result, 5);
  EXPECT_EQ(as_text(first), "a");
  EXPECT_EQ(as_text(rest), "bcde");
}

TEST_F(UringTest, completions_out_of_order_carry_their_ids) {
  Pipe slow, fast;
  Bytes a(4), b(4);
  ASSERT_TRUE(ring_->read(10, {.file = {slow.reader.get()}, .into = a}).ok());
  ASSERT_TRUE(ring_->read(20, {.file = {fast.reader.get()}, .into = b}).ok());
  ASSERT_TRUE(ring_->submit().ok());
  ASSERT_EQ(::write(fast.writer.get(), "fast", 4), 4);
  auto first = collect(*ring_, 1);
  ASSERT_TRUE(first.contains(20));
  EXPECT_EQ(as_text(b), "fast");
  ASSERT_EQ(::write(slow.writer.get(), "slo", 3), 3);
  auto second = collect(*ring_, 1);
  ASSERT_TRUE(second.contains(10));
  EXPECT_EQ(second.at(10).result, 3);
}

TEST_F(UringTest, a_bad_operation_is_a_completion_and_stops_no_other) {
  const Fd file = make_file("x");
  Bytes a(1), b(1);
  ASSERT_TRUE(ring_->read(1, {.file = {9999}, .into = a}).ok());
  ASSERT_TRUE(ring_->read(2, {.file = {file.get()}, .into = b}).ok());
  ASSERT_TRUE(ring_->submit_and_wait({.completions = 2, .timeout = kWatchdog}).ok());
  auto done = collect(*ring_, 2);
  EXPECT_EQ(done.at(1).result, -EBADF);
  EXPECT_EQ(done.at(2).result, 1);
}

TEST_F(UringTest, a_slot_forgets_what_used_it_before) {
  const Fd file = make_file("abcd");
  const int fds[] = {file.get()};
  ASSERT_TRUE(ring_->register_files(fds).ok());
  Bytes byte(1);
  for (std::uint64_t id = 0; id < 8; ++id) {
    ASSERT_TRUE(ring_->read(id, {.file = {0, true}, .into = byte, .offset = 1}).ok());
    EXPECT_EQ(run(1).at(id).result, 1);
  }
  ASSERT_EQ(as_text(byte), "b");
  for (std::uint64_t id = 0; id < 8; ++id) {
    ASSERT_TRUE(ring_->read(id, {.file = {file.get()}, .into = byte, .offset = 2}).ok());
    EXPECT_EQ(run(1).at(id).result, 1) << "a stale FIXED_FILE flag would be -EBADF";
  }
  EXPECT_EQ(as_text(byte), "c");
}

TEST_F(UringTest, cancel_ends_a_blocked_read_and_only_that) {
  Pipe first, second;
  Bytes a(4), b(4);
  ASSERT_TRUE(ring_->read(1, {.file = {first.reader.get()}, .into = a}).ok());
  ASSERT_TRUE(ring_->read(2, {.file = {second.reader.get()}, .into = b}).ok());
  ASSERT_TRUE(ring_->submit().ok());
  ASSERT_TRUE(ring_->cancel(1).ok());
  auto done = collect(*ring_, 1);
  ASSERT_TRUE(done.contains(1));
  EXPECT_THAT(done.at(1).result, ::testing::AnyOf(-ECANCELED, -EINTR));
  EXPECT_EQ(ring_->in_flight(), 1u);
  ASSERT_EQ(::write(second.writer.get(), "left", 4), 4);
  EXPECT_EQ(collect(*ring_, 1).at(2).result, 4);
}

TEST_F(UringTest, cancelling_what_is_not_there_is_harmless) {
  ASSERT_TRUE(ring_->cancel(77).ok());
  ASSERT_TRUE(ring_->nop(1).ok());
  EXPECT_EQ(run(1).at(1).result, 0);
}

TEST_F(UringTest, drain_reports_every_operation_once_and_withdraws_the_unsubmitted) {
  Pipe pipe;
  Bytes a(4), b(4);
  ASSERT_TRUE(ring_->read(1, {.file = {pipe.reader.get()}, .into = a}).ok());
  ASSERT_TRUE(ring_->submit().ok());
  ASSERT_TRUE(ring_->read(2, {.file = {pipe.reader.get()}, .into = b}).ok());
  std::vector<Completion> ended;
  ASSERT_TRUE(ring_->drain(ended).ok());
  std::ranges::sort(ended, {}, &Completion::id);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].id, 1u);
  EXPECT_THAT(ended[0].result, ::testing::AnyOf(-ECANCELED, -EINTR));
  EXPECT_EQ(ended[1].id, 2u);
  EXPECT_EQ(ended[1].result, -ECANCELED);
  EXPECT_EQ(ring_->in_flight(), 0u);
  ASSERT_TRUE(ring_->nop(3).ok()) << "the ring is as good as new";
  EXPECT_EQ(run(1).at(3).result, 0);
}

TEST_F(UringTest, after_the_destructor_the_kernel_holds_nothing) {
  ::signal(SIGPIPE, SIG_IGN);
  for (int round = 0; round < 50; ++round) {
    Pipe pipe;
    Bytes into(4096);
    auto ring = Ring::open({.entries = 8});
    ASSERT_TRUE(ring.ok());
    for (std::uint64_t id = 0; id < 4; ++id)
      ASSERT_TRUE(ring->read(id, {.file = {pipe.reader.get()}, .into = into}).ok());
    ASSERT_TRUE(ring->submit().ok());
    { const Ring gone = std::move(*ring); }
    // A read in flight would keep the reading end open, and take these bytes.
    pipe.reader.reset();
    ASSERT_EQ(::write(pipe.writer.get(), "late", 4), -1);
    ASSERT_EQ(errno, EPIPE);
    ASSERT_EQ(into[0], std::byte{0});
  }
}

TEST_F(UringTest, a_full_submission_queue_rejects_and_recovers) {
  for (std::uint64_t id = 0; id < 8; ++id) ASSERT_TRUE(ring_->nop(id).ok());
  const Status full = ring_->nop(8);
  EXPECT_EQ(full.code(), Code::exhausted);
  EXPECT_THAT(full.to_string(), HasSubstr("submit, then try again"));
  EXPECT_EQ(ring_->in_flight(), 8u) << "a rejected operation is not counted";
  ASSERT_TRUE(ring_->submit().ok());
  EXPECT_TRUE(ring_->nop(8).ok());
  EXPECT_EQ(run(9).size(), 9u);
}

TEST_F(UringTest, the_depth_bounds_what_is_in_flight) {
  Pipe pipe;
  Bytes into(1);
  const unsigned depth = ring_->depth();
  EXPECT_GE(depth, 16u);
  for (unsigned id = 0; id < depth; ++id) {
    Status status = ring_->read(id, {.file = {pipe.reader.get()}, .into = into});
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(ring_->submit().ok());
  }
  const Status full = ring_->nop(1000);
  EXPECT_EQ(full.code(), Code::exhausted);
  EXPECT_THAT(full.to_string(), HasSubstr("poll completions"));
  ASSERT_EQ(::write(pipe.writer.get(), "x", 1), 1);
  EXPECT_EQ(collect(*ring_, 1).size(), 1u);
  EXPECT_TRUE(ring_->nop(1000).ok());
}

TEST_F(UringTest, waiting_for_what_does_not_come_times_out) {
  EXPECT_EQ(ring_->wait({.timeout = 1us}).code(), Code::timed_out);
  EXPECT_EQ(ring_->wait({.timeout = -1s}).code(), Code::timed_out);
}

TEST_F(UringTest, refuses_operations_that_cannot_be) {
  Bytes byte(1);
  EXPECT_EQ(ring_->nop(UINT64_MAX).code(), Code::invalid_argument);
  EXPECT_EQ(ring_->read(1, {.file = {0}, .into = {byte.data(), 1ull << 32}}).code(),
            Code::invalid_argument);
  EXPECT_EQ(ring_->read(1, {.file = {0}, .into = byte, .buffer = 65536}).code(),
            Code::invalid_argument);
  const std::vector<IoPart> parts(1025);
  EXPECT_EQ(ring_->read_vector(1, {.file = {0}, .parts = parts}).code(), Code::invalid_argument);
  EXPECT_EQ(ring_->command(1, {.file = {0}}).code(), Code::unsupported);
  EXPECT_EQ(ring_->in_flight(), 0u);
}

TEST_F(UringTest, refuses_options_that_cannot_be) {
  EXPECT_EQ(Ring::open({.entries = 0}).code(), Code::invalid_argument);
  EXPECT_EQ(Ring::open({.entries = 32769}).code(), Code::invalid_argument);
  EXPECT_EQ(Ring::open({.entries = 8, .completion_entries = 4}).code(), Code::invalid_argument);
  auto deep = Ring::open({.entries = 8, .completion_entries = 64});
  ASSERT_TRUE(deep.ok());
  EXPECT_EQ(deep->depth(), 64u);
}

TEST_F(UringTest, the_event_descriptor_reports_of_completions) {
  auto event = ring_->event_fd();
  ASSERT_TRUE(event.ok()) << event.status().to_string();
  EXPECT_EQ(*ring_->event_fd(), *event);
  pollfd poll{.fd = *event, .events = POLLIN};
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  ASSERT_TRUE(ring_->nop(1).ok());
  ASSERT_TRUE(ring_->submit().ok());
  EXPECT_EQ(::poll(&poll, 1, 30000), 1);
}

TEST_F(UringTest, two_rings_report_of_completions_by_one_descriptor) {
  const auto event = ring_->event_fd();
  ASSERT_TRUE(event.ok()) << event.status().to_string();
  auto other = Ring::open({.entries = 8, .event_fd = *event});
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  ASSERT_TRUE(other->event_fd().ok());
  EXPECT_EQ(*other->event_fd(), *event);
  for (Ring* ring : {ring_.get(), &*other}) {
    ASSERT_TRUE(ring->nop(1).ok());
    ASSERT_TRUE(ring->submit().ok());
    pollfd poll{.fd = *event, .events = POLLIN};
    EXPECT_EQ(::poll(&poll, 1, 30000), 1);
    std::uint64_t count = 0;
    EXPECT_EQ(::read(*event, &count, sizeof count), static_cast<ssize_t>(sizeof count));
  }
}

TEST_F(UringTest, registered_buffers_are_read_into_and_written_from) {
  const Fd file = make_file("0123456789");
  auto memory = Mapping::anonymous(8192);
  ASSERT_TRUE(memory.ok());
  const ByteSpan all[] = {memory->bytes()};
  ASSERT_TRUE(ring_->register_buffers(all).ok());
  EXPECT_EQ(ring_->register_buffers(all).code(), Code::already_exists);
  const ByteSpan into = memory->bytes().subspan(100, 4);
  ASSERT_TRUE(ring_->read(1, {.file = {file.get()}, .into = into, .offset = 2, .buffer = 0}).ok());
  EXPECT_EQ(run(1).at(1).result, 4);
  EXPECT_EQ(as_text(into), "2345");
  ASSERT_TRUE(ring_->write(2, {.file = {file.get()}, .from = into, .offset = 0, .buffer = 0}).ok());
  EXPECT_EQ(run(1).at(2).result, 4);
  Bytes outside(4);
  ASSERT_TRUE(ring_->read(3, {.file = {file.get()}, .into = outside, .buffer = 0}).ok());
  EXPECT_EQ(run(1).at(3).result, -EFAULT) << "bytes outside the buffer";
  EXPECT_TRUE(ring_->unregister_buffers().ok());
  EXPECT_EQ(ring_->unregister_buffers().code(), Code::not_ready);
}

TEST_F(UringTest, places_are_filled_and_cleared_one_by_one) {
  const Fd file = make_file("0123");
  auto memory = Mapping::anonymous(4096);
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE(ring_->reserve_buffers(4).ok());
  ASSERT_TRUE(ring_->reserve_files(4).ok());
  ASSERT_TRUE(ring_->set_buffer(2, memory->bytes()).ok());
  ASSERT_TRUE(ring_->set_file(3, file.get()).ok());
  const ByteSpan into = memory->bytes().first(4);
  ASSERT_TRUE(ring_->read(1, {.file = {3, true}, .into = into, .buffer = 2}).ok());
  EXPECT_EQ(run(1).at(1).result, 4);
  EXPECT_EQ(ring_->set_buffer(4, memory->bytes()).code(), Code::invalid_argument);
  EXPECT_EQ(ring_->set_file(4, file.get()).code(), Code::invalid_argument);
  ASSERT_TRUE(ring_->set_buffer(2, {}).ok());
  ASSERT_TRUE(ring_->set_file(3, -1).ok());
  ASSERT_TRUE(ring_->read(2, {.file = {3, true}, .into = into}).ok());
  EXPECT_EQ(run(1).at(2).result, -EBADF);
  EXPECT_TRUE(ring_->unregister_files().ok());
}

TEST_F(UringTest, memory_that_is_not_there_is_not_registered) {
  auto memory = Mapping::anonymous(4096);
  ASSERT_TRUE(memory.ok());
  const ByteSpan gone[] = {memory->bytes()};
  { const Mapping unmapped = std::move(*memory); }
  const Status status = ring_->register_buffers(gone);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_THAT(status.to_string(), HasSubstr("not mapped"));
  const int closed[] = {9999};
  EXPECT_EQ(ring_->register_files(closed).code(), Code::invalid_argument);
}

/// In a child without privileges and with a limit of 64 KiB: 0 when the limit is reported.
int register_above_the_limit() {
  const rlimit limit{65536, 65536};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 2;
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 3;
  auto ring = Ring::open({.entries = 8});
  auto memory = Mapping::anonymous(1 << 20);
  if (!ring.ok() || !memory.ok()) return 4;
  const ByteSpan all[] = {memory->bytes()};
  const std::string text = ring->register_buffers(all).to_string();
  return text.find("limited to 64 KiB") != std::string::npos &&
                 text.find("RLIMIT_MEMLOCK") != std::string::npos
             ? 0
             : 5;
}

TEST_F(UringTest, the_limit_of_locked_memory_is_named) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(register_above_the_limit());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the child's step that failed";
}

TEST_F(UringTest, a_big_ring_carries_plain_operations_and_commands) {
  auto big = Ring::open({.entries = 8, .sqe128 = true, .cqe32 = true});
  ASSERT_TRUE(big.ok()) << big.status().to_string();
  const Fd file = make_file("not a device");
  for (std::uint64_t round = 0; round < 10; ++round) {
    RingCommand command{.file = {file.get()}, .operation = 0xC0484E80};
    std::ranges::fill(command.area, std::byte{0xff});
    ASSERT_TRUE(big->nop(2 * round).ok());
    ASSERT_TRUE(big->command(2 * round + 1, command).ok());
    ASSERT_TRUE(big->submit().ok());
    auto done = collect(*big, 2);
    EXPECT_EQ(done.at(2 * round).result, 0);
    EXPECT_EQ(done.at(2 * round + 1).result, -EOPNOTSUPP) << "a plain file takes no commands";
  }
}

TEST_F(UringTest, rings_of_every_setup_move_bytes) {
  for (unsigned setup = 0; setup < 32; ++setup) {
    SCOPED_TRACE(setup);
    auto ring = Ring::open({.entries = 8,
                            .completion_entries = (setup & 1U) != 0 ? 64U : 0U,
                            .sqe128 = (setup & 2U) != 0,
                            .cqe32 = (setup & 4U) != 0,
                            .kernel_polls = (setup & 8U) != 0,
                            .interrupts = (setup & 16U) == 0});
    ASSERT_TRUE(ring.ok()) << ring.status().to_string();
    EXPECT_EQ(ring->depth(), (setup & 1U) != 0 ? 64U : 16U);
    const Fd file = make_file("lock by lock");
    std::array<Bytes, 20> into;  // so many that the queue comes round
    for (std::uint64_t id = 0; id < into.size(); ++id) {
      into[id].resize(4);
      ASSERT_TRUE(ring->read(id, {.file = {file.get()}, .into = into[id], .offset = id % 8}).ok());
      ASSERT_TRUE(ring->submit().ok());
      EXPECT_EQ(collect(*ring, 1).at(id).result, 4);
      EXPECT_EQ(as_text(into[id]), std::string_view("lock by lock").substr(id % 8, 4));
    }
  }
}

TEST_F(UringTest, a_ring_can_be_moved_with_operations_in_flight) {
  Pipe pipe;
  Bytes into(4);
  ASSERT_TRUE(ring_->read(1, {.file = {pipe.reader.get()}, .into = into}).ok());
  ASSERT_TRUE(ring_->submit().ok());
  Ring moved = std::move(*ring_);
  ASSERT_EQ(::write(pipe.writer.get(), "move", 4), 4);
  EXPECT_EQ(collect(moved, 1).at(1).result, 4);
}

TEST_F(UringTest, the_probe_really_sets_rings_up) {
  const auto findings = probe_ring();
  ASSERT_EQ(findings.size(), 3u);
  for (const Finding& finding : findings)
    EXPECT_EQ(finding.verdict, Verdict::yes) << finding.question << " " << finding.reason;
}

}  // namespace
}  // namespace towpath::sys
