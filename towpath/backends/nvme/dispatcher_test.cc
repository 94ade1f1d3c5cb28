// What goes wrong on the way: every error that a drive or the kernel can answer with, cancels,
// commands that end late or out of order.
#include <cerrno>

#include <towpath/backends/nvme/testing/nvme_fixture.h>

namespace towpath::backends::nvme {
namespace {

using NvmeDispatcherTest = NvmeFixture;

std::vector<std::uint64_t> failed_extents(const backend::testing::RecordedCompletion& outcome) {
  std::vector<std::uint64_t> extents;
  for (const auto& failure : outcome.failures) extents.push_back(failure.extent);
  return extents;
}

TEST_F(NvmeDispatcherTest, every_answer_of_drive_and_kernel_has_its_code) {
  open();
  const std::pair<std::int32_t, Code> answers[] = {
      {-EIO, Code::io_error},
      {-EINVAL, Code::invalid_argument},
      {-EFAULT, Code::invalid_argument},
      {-ENODEV, Code::not_found},
      {-EREMOTEIO, Code::unsupported},
      {-ENOTTY, Code::unsupported},
      {-EOPNOTSUPP, Code::unsupported},
      {-EACCES, Code::denied},
      {0x4080, Code::out_of_range},  // LBA out of range
      {0x0281, Code::io_error},      // unrecovered read error
      {0x4282, Code::corrupt},       // guard check
      {0x0020, Code::denied},        // write-protected
      {0x400B, Code::not_found},     // no such namespace
      {0x4002, Code::unsupported},   // invalid field
      {0x0081, Code::exhausted},     // capacity exceeded
      {0x07C0, Code::io_error},      // vendor specific
  };
  for (const auto& [result, code] : answers) {
    for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
      target->faults = {{.result = result}};
      const auto outcome = move(op, {segment(0, 0, 4096)});
      EXPECT_EQ(outcome.status.code(), code) << result << ": " << outcome.status.to_string();
      EXPECT_EQ(outcome.bytes, 0U);
      EXPECT_FALSE(outcome.status.hint().empty()) << outcome.status.to_string();
      EXPECT_EQ(outcome.failures.size(), 1U);
    }
  }
}

TEST_F(NvmeDispatcherTest, merged_command_that_fails_is_reported_by_extent) {
  open();
  put_on_device(0, random_bytes(3, 16 * 4096));
  target->faults = {{.from = 5 * 8, .to = 5 * 8 + 1, .result = 0x0281}};
  const auto outcome = read({row(4096, 16)});
  EXPECT_EQ(outcome.status.code(), Code::io_error) << outcome.status.to_string();
  EXPECT_EQ(failed_extents(outcome), (std::vector<std::uint64_t>{5}));
  EXPECT_EQ(outcome.bytes, 15U * 4096);
  const Bytes expected = random_bytes(3, 16 * 4096);
  EXPECT_TRUE(std::ranges::equal(memory().subspan(6 * 4096, 4096),
                                 ConstByteSpan(expected).subspan(6 * 4096, 4096)));
}

TEST_F(NvmeDispatcherTest, block_that_fails_is_missing_from_the_extents_in_it) {
  open();
  target->faults = {{.from = 3, .to = 4, .result = 0x0281}};  // bytes 1536 to 2048
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    const auto outcome = move(op, {row(100, 40)});
    EXPECT_EQ(outcome.status.code(), Code::io_error);
    EXPECT_EQ(failed_extents(outcome), (std::vector<std::uint64_t>{15, 16, 17, 18, 19, 20}));
    EXPECT_EQ(outcome.bytes, 4000U - 512U);
    EXPECT_EQ(outcome.failures.front().bytes, 36U);
    EXPECT_EQ(outcome.failures.back().bytes, 0U) << "what is in place lies behind what is not";
  }
}

TEST_F(NvmeDispatcherTest, window_that_fails_is_read_again_extent_by_extent) {
  open();
  target->faults = {{.from = 3, .to = 4, .result = 0x0281}};
  backend::Segment odd = row(100, 40);
  odd.local_address += 1;
  const auto outcome = read({odd});
  EXPECT_EQ(failed_extents(outcome), (std::vector<std::uint64_t>{15, 16, 17, 18, 19, 20}));
  EXPECT_EQ(outcome.bytes, 34U * 100);
  EXPECT_EQ(counted("towpath_nvme_isolations_total"), 1U);
}

TEST_F(NvmeDispatcherTest, what_passes_is_tried_again) {
  open();
  const std::int32_t passing[] = {-EINTR, -EAGAIN, 0x0007, 0x0082, 0x0371};
  for (const std::int32_t result : passing) {
    target->faults = {{.result = result, .times = 3}};
    EXPECT_TRUE(read({segment(0, 0, 4096)}).status.ok()) << result;
  }
  EXPECT_EQ(counted("towpath_nvme_retries_total"), 15U);
}

TEST_F(NvmeDispatcherTest, what_does_not_pass_ends) {
  open();
  target->faults = {{.result = 0x0082}};  // not ready, and never will be
  EXPECT_EQ(read({segment(0, 0, 4096)}).status.code(), Code::unavailable);
  target->faults = {{.result = 0x4082}};  // the drive forbids another try
  const std::uint64_t before = counted("towpath_nvme_retries_total");
  EXPECT_EQ(read({segment(0, 0, 4096)}).status.code(), Code::unavailable);
  EXPECT_EQ(counted("towpath_nvme_retries_total"), before);
}

TEST_F(NvmeDispatcherTest, namespace_that_shrank_fails_what_it_has_no_more) {
  open({}, {}, 16 * 4096);
  ASSERT_EQ(::ftruncate(device.get(), 10 * 4096), 0);
  target->faults = {{.from = 80, .result = 0x4080}};
  const auto outcome = read({row(4096, 16)});
  EXPECT_EQ(outcome.status.code(), Code::out_of_range);
  EXPECT_EQ(failed_extents(outcome), (std::vector<std::uint64_t>{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(outcome.bytes, 10U * 4096);
}

TEST_F(NvmeDispatcherTest, removed_drive_fails_everything_and_hangs_nothing) {
  open();
  target->removed = true;
  const auto outcome = write({row(512, 100)});
  EXPECT_EQ(outcome.status.code(), Code::not_found);
  EXPECT_EQ(outcome.bytes, 0U);
  EXPECT_EQ(outcome.failures.size(), backend::kMaxFailures);
}

TEST_F(NvmeDispatcherTest, change_of_a_part_whose_block_cannot_be_read_writes_nothing) {
  open();
  put_on_device(0, random_bytes(4, 512));
  target->faults = {{.result = 0x0281, .times = 1}};
  EXPECT_EQ(write({segment(0, 10, 20)}).status.code(), Code::io_error);
  EXPECT_EQ(on_device(0, 512), random_bytes(4, 512));
}

// ---- by hand

class ByHand : public NvmeFixture {
 protected:
  void start(backend::Operation& operation, TransferOp op,
             const std::vector<backend::Segment>& segments) {
    operation.post({op, connection.get(), segments});
  }
  testing::FakeEngine& engine() const { return *driver->engine; }
  void open_by_hand(const backend::Params& params = {}) {
    open({.max_transfer_bytes = 4096}, params);
    engine().manual = true;
  }
};

TEST_F(ByHand, no_more_commands_than_the_depth_are_with_the_drive) {
  open_by_hand({{"depth", "3"}});
  auto operation = backend->make_operation();
  const std::vector segments{segment(0, 0, 10 * 4096)};
  start(*operation, TransferOp::read, segments);
  while (events.count(*operation) == 0) {
    ASSERT_LE(engine().waiting.size(), 3U);
    ASSERT_FALSE(engine().waiting.empty()) << "it stands still";
    engine().end(0);
    backend->progress();
  }
  EXPECT_TRUE(events.last(*operation).status.ok());
  EXPECT_EQ(engine().most_waiting, 3U);
}

TEST_F(ByHand, commands_end_in_any_order) {
  open_by_hand();
  put_on_device(0, random_bytes(9, 8 * 4096));
  auto operation = backend->make_operation();
  const std::vector segments{segment(0, 0, 8 * 4096)};
  start(*operation, TransferOp::read, segments);
  while (!engine().waiting.empty()) engine().end(engine().waiting.size() - 1);
  backend->progress();
  EXPECT_TRUE(events.last(*operation).status.ok());
  EXPECT_TRUE(std::ranges::equal(memory().first(8 * 4096), random_bytes(9, 8 * 4096)));
}

TEST_F(ByHand, cancelled_operation_ends_when_the_drive_has_let_go) {
  open_by_hand({{"depth", "2"}});
  auto operation = backend->make_operation();
  const std::vector segments{segment(0, 0, 8 * 4096)};
  start(*operation, TransferOp::read, segments);
  operation->cancel();
  EXPECT_EQ(events.count(*operation), 0U) << "two commands may still write to the memory";
  EXPECT_EQ(engine().cancelled.size(), 2U);
  engine().end(0);
  backend->progress();
  EXPECT_EQ(events.count(*operation), 0U);
  engine().answer(0, -ECANCELED);
  backend->progress();
  ASSERT_EQ(events.count(*operation), 1U);
  EXPECT_EQ(events.last(*operation).status.code(), Code::cancelled);
  EXPECT_EQ(events.last(*operation).bytes, 4096U) << "one had moved";
  EXPECT_TRUE(engine().waiting.empty()) << "nothing more was started";
}

TEST_F(ByHand, cancelled_change_of_a_part_is_not_written_back) {
  open_by_hand();
  put_on_device(0, random_bytes(4, 512));
  auto operation = backend->make_operation();
  const std::vector segments{segment(0, 10, 20)};
  start(*operation, TransferOp::write, segments);
  ASSERT_EQ(engine().waiting.size(), 1U);
  operation->cancel();
  engine().end(0);  // the read of its block
  backend->progress();
  EXPECT_EQ(events.last(*operation).status.code(), Code::cancelled);
  EXPECT_TRUE(engine().waiting.empty());
  EXPECT_EQ(on_device(0, 512), random_bytes(4, 512));
}

TEST_F(ByHand, changes_of_one_block_wait_for_each_other) {
  open_by_hand();
  put_on_device(0, random_bytes(4, 512));
  std::ranges::copy(random_bytes(5, 512), memory().begin());
  auto first = backend->make_operation();
  auto second = backend->make_operation();
  const std::vector head{segment(0, 0, 100)};
  const std::vector tail{segment(300, 300, 100)};
  start(*first, TransferOp::write, head);
  start(*second, TransferOp::write, tail);
  EXPECT_EQ(engine().waiting.size(), 1U) << "else one would undo the other";
  for (int i = 0; i < 20; ++i) {
    if (!engine().waiting.empty()) engine().end(0);
    backend->progress();
  }
  EXPECT_TRUE(events.last(*first).status.ok());
  EXPECT_TRUE(events.last(*second).status.ok());
  Bytes expected = random_bytes(4, 512);
  const Bytes written = random_bytes(5, 512);
  std::copy_n(written.begin(), 100, expected.begin());
  std::copy_n(written.begin() + 300, 100, expected.begin() + 300);
  EXPECT_EQ(on_device(0, 512), expected);
}

TEST_F(ByHand, write_of_a_block_waits_for_the_change_of_a_part_of_it) {
  open_by_hand();
  auto part = backend->make_operation();
  auto whole = backend->make_operation();
  const std::vector of_part{segment(0, 10, 20)};
  const std::vector of_whole{segment(512, 0, 512)};
  start(*part, TransferOp::write, of_part);
  start(*whole, TransferOp::write, of_whole);
  EXPECT_EQ(engine().waiting.size(), 1U);
  whole->cancel();
  EXPECT_EQ(events.last(*whole).status.code(), Code::cancelled);
  while (events.count(*part) == 0) {
    ASSERT_FALSE(engine().waiting.empty());
    engine().end(0);
    backend->progress();
  }
}

TEST_F(ByHand, completion_that_belongs_to_nothing_is_counted_and_harms_nobody) {
  open_by_hand();
  engine().done.push_back({.id = 12345, .result = 0});
  backend->progress();
  EXPECT_EQ(counted("towpath_nvme_strays_total"), 1U);
}

}  // namespace
}  // namespace towpath::backends::nvme
