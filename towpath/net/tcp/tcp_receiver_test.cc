// What TcpReceiver makes of a stream, whatever is written to it and however it comes.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_receiver.h>

namespace towpath::net {
namespace {

constexpr TcpReceiver::Limits kLimits{.head_bytes = 1000, .body_bytes = 300'000};

/// Takes bodies in two parts with a gap between, until it wants no more.
struct Halves final : MessageListener, BodySink {
  BodySink* on_message(const Message& message) override {
    heads.emplace_back(as_text(message.head));
    head = message.head;
    body.clear();
    left = message.body_bytes;
    if (answers) answers();
    return wants_bodies ? this : nullptr;
  }
  void on_broken(void*, const Status&) override {}
  std::size_t room(std::span<ByteSpan> into) override {
    if (body.size() >= most) return 0;
    next.assign(std::min<std::size_t>(left, 50'000), std::byte{0});
    const std::size_t half = next.size() / 2;
    into[0] = ByteSpan(next).first(half);
    into[1] = ByteSpan(next).subspan(half);
    return half == 0 ? (into[0] = into[1], 1) : 2;
  }
  void came(std::uint64_t bytes) override {
    body += as_text(next).substr(0, bytes);
    left -= bytes;
  }
  void done(bool whole) override {
    EXPECT_EQ(as_text(head), heads.back()) << "it must last as long as its body comes";
    if (whole) bodies.push_back(body);
    ++ended;
    wholes += whole ? 1 : 0;
  }

  std::function<void()> answers;
  bool wants_bodies = true;
  std::size_t most = SIZE_MAX;
  std::vector<std::string> heads, bodies;
  int ended = 0;
  int wholes = 0;
  ConstByteSpan head;
  std::string body;
  std::size_t left = 0;
  Bytes next;
};

/// Remembers when somebody wishes to be woken.
class Watched final : public sys::ByteStream {
 public:
  Watched(std::unique_ptr<sys::ByteStream> stream, std::vector<std::size_t>& wishes)
      : stream_(std::move(stream)), wishes_(wishes) {}
  Result<Read> read_some(ByteSpan into) override { return stream_->read_some(into); }
  Result<std::size_t> write_some(ConstByteSpan from) override { return stream_->write_some(from); }
  void wake_at(std::size_t bytes) noexcept override { wishes_.push_back(bytes); }
  int fd() const noexcept override { return -1; }

 private:
  const std::unique_ptr<sys::ByteStream> stream_;
  std::vector<std::size_t>& wishes_;
};

/// Of a peer that never pauses; and behind what was read there is always more.
class Endless final : public sys::ByteStream {
 public:
  explicit Endless(std::string message) : message_(std::move(message)) {}
  Result<Read> read_some(ByteSpan into) override {
    for (std::byte& byte : into) byte = as_bytes(message_)[read++ % message_.size()];
    if (read > kMost) return error(Code::timed_out, "it was read without end");
    return Read{.size_bytes = into.size()};
  }
  Result<std::size_t> write_some(ConstByteSpan from) override { return from.size(); }
  std::size_t buffered_bytes() const noexcept override { return 16'384; }
  int fd() const noexcept override { return -1; }

  static constexpr std::uint64_t kMost = 64'000'000;
  std::uint64_t read = 0;

 private:
  const std::string message_;
};

/// Memory that a sink gives cannot be written.
class Unwritable final : public sys::ByteStream {
 public:
  Unwritable(std::unique_ptr<sys::ByteStream> stream, const Bytes& memory)
      : stream_(std::move(stream)), memory_(memory) {}
  Result<Read> read_some(ByteSpan into) override {
    if (++reads_ > 1000) return error(Code::timed_out, "it was read without end");
    const std::uint64_t at = address_of(into.data()), begin = address_of(memory_.data());
    if (at >= begin && at < begin + memory_.size())
      return error(Code::out_of_range, "memory that is protected");
    return stream_->read_some(into);
  }
  Result<std::size_t> write_some(ConstByteSpan from) override { return stream_->write_some(from); }
  int fd() const noexcept override { return -1; }

 private:
  const std::unique_ptr<sys::ByteStream> stream_;
  const Bytes& memory_;
  int reads_ = 0;
};

class TcpReceiverTest : public ::testing::Test {
 protected:
  void open(const sys::MemoryStreamOptions& options = {.capacity_bytes = 4'000'000}) {
    auto [ours, theirs] = sys::make_memory_streams(options);
    theirs_ = std::move(theirs);
    receiver_.reset();
    ours_ = std::move(ours);
    receiver_.emplace(*ours_, 5, kLimits, heard_);
  }
  static std::string message(std::string_view head, std::string_view body) {
    MessageBuffer buffer(head.size() + body.size());
    std::ranges::copy(as_bytes(head), buffer.room().begin());
    std::ranges::copy(as_bytes(body), buffer.room().begin() + std::ptrdiff_t(head.size()));
    buffer.size = head.size() + body.size();
    buffer.body_bytes = body.size();
    return std::string(as_text(buffer.with_prefix()));
  }
  /// Says it, and lets it be heard; the first error.
  Status say(std::string_view what) {
    while (!what.empty()) {
      TOWPATH_TRY(const std::size_t put, theirs_->write_some(as_bytes(what)));
      what.remove_prefix(put);
      for (int i = 0; i < 4; ++i) TOWPATH_TRY(receiver_->take());
    }
    for (int i = 0; i < 50; ++i) TOWPATH_TRY(receiver_->take());
    return {};
  }

  Halves heard_;
  std::unique_ptr<sys::ByteStream> ours_, theirs_;
  std::optional<TcpReceiver> receiver_;
};

TEST_F(TcpReceiverTest, messages_arrive_whole_however_they_come) {
  std::vector<std::string> heads, bodies;
  std::string all;
  for (const std::size_t size : {0UL, 1UL, 7000UL, 9000UL, 16'384UL, 100'000UL, 300'000UL}) {
    heads.push_back(cat("head of ", size));
    all += message(heads.back(), std::string(size, static_cast<char>('a' + size % 26)));
    if (size > 0) bodies.emplace_back(size, static_cast<char>('a' + size % 26));
  }
  heads.emplace_back(1000, 'h');
  all += message(heads.back(), "");
  for (const sys::MemoryStreamOptions& how :
       {sys::MemoryStreamOptions{.capacity_bytes = 4'000'000},
        sys::MemoryStreamOptions{.capacity_bytes = 777},
        sys::MemoryStreamOptions{.capacity_bytes = 100'000, .most_per_read = 4099},
        sys::MemoryStreamOptions{.capacity_bytes = 5000, .every_other_call_stalls = true}}) {
    heard_ = {};
    open(how);
    const Status said = say(all);
    ASSERT_TRUE(said.ok()) << said.to_string();
    EXPECT_EQ(heard_.heads, heads);
    EXPECT_TRUE(heard_.bodies == bodies);
  }
}

TEST_F(TcpReceiverTest, sizes_that_were_not_agreed_on_end_it) {
  for (const auto& [head, body] : {std::pair(1001UL, 0UL), std::pair(10UL, 300'001UL)}) {
    open();
    const std::string reported = message(std::string(head, 'h'), std::string(body, 'b'));
    EXPECT_EQ(say(reported).code(), Code::corrupt);
    EXPECT_TRUE(heard_.heads.empty());
  }
}

TEST_F(TcpReceiverTest, bodies_that_nobody_wants_are_passed_over) {
  open();
  heard_.wants_bodies = false;
  ASSERT_TRUE(say(message("dropped", std::string(200'000, 'x'))).ok());
  heard_.wants_bodies = true;
  heard_.most = 60'000;
  ASSERT_TRUE(say(message("in part", std::string(200'000, 'y'))).ok());
  heard_.most = SIZE_MAX;
  ASSERT_TRUE(say(message("whole", std::string(200'000, 'z'))).ok());
  EXPECT_EQ(heard_.heads, (std::vector<std::string>{"dropped", "in part", "whole"}));
  ASSERT_EQ(heard_.bodies.size(), 2U) << "what was dropped counts as come";
  EXPECT_LT(heard_.bodies[0].size(), 200'000U);
  EXPECT_EQ(heard_.bodies[1], std::string(200'000, 'z'));
}

// Never for more than is to come: then nobody would be woken.
TEST_F(TcpReceiverTest, long_body_is_waited_for_in_portions_and_a_head_at_once) {
  auto [ours, theirs] = sys::make_memory_streams({.capacity_bytes = 1'000'000});
  std::vector<std::size_t> wishes;
  theirs_ = std::move(theirs);
  ours_ = std::make_unique<Watched>(std::move(ours), wishes);
  receiver_.emplace(*ours_, 5, kLimits, heard_);
  const std::string whole = message("head", std::string(300'000, 'x'));
  ASSERT_TRUE(say(whole.substr(0, 50'000)).ok());
  EXPECT_EQ(wishes, (std::vector<std::size_t>{128 * 1024}));
  ASSERT_TRUE(say(whole.substr(50'000, whole.size() - 50'010)).ok());
  EXPECT_EQ(wishes.back(), 10U);
  ASSERT_TRUE(say(whole.substr(whole.size() - 10)).ok());
  EXPECT_EQ(wishes.back(), 1U);
  EXPECT_EQ(heard_.bodies.size(), 1U);
}

TEST_F(TcpReceiverTest, a_turn_ends_though_there_is_always_more) {
  auto stream = std::make_unique<Endless>(message("head", std::string(70'000, 'x')));
  Endless& endless = *stream;
  ours_ = std::move(stream);
  receiver_.emplace(*ours_, 5, kLimits, heard_);
  for (std::uint64_t turn = 1; turn <= 3; ++turn) {
    const Status taken = receiver_->take();
    ASSERT_TRUE(taken.ok()) << taken.to_string();
    EXPECT_LT(endless.read, turn * 2'000'000);
  }
  EXPECT_GT(heard_.bodies.size(), 10U);
}

TEST_F(TcpReceiverTest, turn_ends_by_what_it_causes_and_what_is_left_is_heard_in_the_next) {
  open();
  std::string all;
  for (int i = 0; i < 1000; ++i) all += message(cat("request ", i), "");
  ASSERT_EQ(*theirs_->write_some(as_bytes(all)), all.size());
  std::size_t before = 0;
  std::size_t turns = 0;
  for (; before < 1000 && turns < 100; ++turns) {
    ASSERT_TRUE(receiver_->take().ok());
    EXPECT_LE(heard_.heads.size() - before, 256U);
    before = heard_.heads.size();
    EXPECT_TRUE(before == 1000 || receiver_->has_rest()) << "nobody is woken for " << before;
  }
  ASSERT_EQ(before, 1000U);
  EXPECT_LE(turns, 6U);
  EXPECT_EQ(heard_.heads.back(), "request 999");

  heard_.answers = [this] { receiver_->note_answered(512 * 1024); };
  ASSERT_EQ(*theirs_->write_some(as_bytes(all)), all.size());
  ASSERT_TRUE(receiver_->take().ok());
  EXPECT_LE(heard_.heads.size() - before, 2U) << "each is answered with half a mebibyte";
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(receiver_->take().ok());
  EXPECT_EQ(heard_.heads.size(), 2000U);
}

TEST_F(TcpReceiverTest, body_that_cannot_be_written_is_dropped) {
  auto [ours, theirs] = sys::make_memory_streams({.capacity_bytes = 1'000'000});
  theirs_ = std::move(theirs);
  ours_ = std::make_unique<Unwritable>(std::move(ours), heard_.next);
  receiver_.emplace(*ours_, 5, kLimits, heard_);
  const Status said = say(message("lost", std::string(200'000, 'x')) + message("next", ""));
  ASSERT_TRUE(said.ok()) << said.to_string();
  EXPECT_EQ(heard_.heads, (std::vector<std::string>{"lost", "next"}));
  EXPECT_EQ(heard_.ended, 1);
}

TEST_F(TcpReceiverTest, body_that_will_never_be_whole_is_reported) {
  open();
  const std::string half = message("half", std::string(200'000, 'x')).substr(0, 100'000);
  ASSERT_TRUE(say(half).ok());
  theirs_.reset();
  EXPECT_EQ(say("").code(), Code::peer_lost);
  EXPECT_EQ(heard_.ended, 0);
  receiver_.reset();
  EXPECT_EQ(heard_.ended, 1);
  EXPECT_EQ(heard_.wholes, 0);
}

}  // namespace
}  // namespace towpath::net
