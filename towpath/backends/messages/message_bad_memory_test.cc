// Memory of this side that was registered and cannot be touched any more.
#include <sys/mman.h>

#include <towpath/backends/messages/message_backend_fixture.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::messages {
namespace {

using namespace backend;

class BadMemoryTest : public MessageBackendTest {
 protected:
  void SetUp() override {
    MessageBackendTest::SetUp();
    ASSERT_EQ(::mprotect(pages_.data(), pages_.size(), PROT_NONE), 0);
    bad_ = near_.backend->register_memory(region_).value();
    settle();
  }
  void TearDown() override {
    bad_.reset();
    MessageBackendTest::TearDown();
  }
  /// A frame's worth, between the begin of the peer's pool and `local`.
  Segment frame(Memory& local, const RegionDescriptor& region, Memory& remote) const {
    return {.local = &local,
            .remote = &remote,
            .local_address = region.address,
            .remote_address = far_.region().address,
            .length = kPayloadBytes};
  }
  void post(TransferOp op, std::vector<Segment> segments) {
    segments_ = std::move(segments);
    near_.operation->post({.op = op, .connection = way_.get(), .segments = segments_});
  }

  const sys::Mapping pages_ = sys::Mapping::anonymous(kPayloadBytes).value();
  const RegionDescriptor region_{.address = address_of(pages_.data()), .length = kPayloadBytes};
  std::unique_ptr<Memory> bad_;
};

INSTANTIATE_TEST_SUITE_P(Bodies, BadMemoryTest, ::testing::Values(Bodies::whole, Bodies::streamed),
                         kBothWays);

// Breaks when the answer to a read that was stopped in its midst, and of which memory of this side
// had taken no bytes, keeps its place in the window: two of them would leave no room for others.
TEST_P(BadMemoryTest, reads_into_it_that_are_cancelled_hold_nobody_up) {
  network_.body_step = 20'000;
  for (std::size_t i = 0; i < 4; ++i) {
    post(TransferOp::read, {frame(*bad_, region_, *remote_)});
    far_.backend->progress();   // the answer is on its way
    near_.backend->progress();  // and some of it has come
    EXPECT_EQ(done(), i);
    near_.operation->cancel();
    ASSERT_EQ(done(), i + 1);
    settle();
  }
  MessageBackendTest::post(TransferOp::read);
  settle();
  ASSERT_EQ(done(), 5U);
  EXPECT_TRUE(outcome().ok()) << outcome().to_string();
  EXPECT_TRUE(near_.pool == far_.pool);
}

// Breaks when what the peer has refused is named beside it: all others would count as in place.
TEST_P(BadMemoryTest, transfer_that_fails_by_it_as_a_whole_names_no_extent) {
  auto second = far_.backend->register_memory(far_.region()).value();
  const auto gone = near_.backend->import_memory(*way_, far_.region(), second->key()).value();
  second.reset();
  for (const TransferOp op : {TransferOp::write, TransferOp::read}) {
    post(op, {frame(*near_.memory, near_.region(), *gone), frame(*bad_, region_, *remote_)});
    settle();
    EXPECT_EQ(outcome().code(), Code::io_error) << outcome().to_string();
    EXPECT_TRUE(near_.events.last(*near_.operation).failures.empty());
  }
}

}  // namespace
}  // namespace towpath::backends::messages
