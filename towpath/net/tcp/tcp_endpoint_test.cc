// What a TcpEndpoint does with a stream that holds back what its socket no longer has.
#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_endpoint.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>

namespace towpath::net {
namespace {

constexpr std::uint64_t kMessageBytes = 50'000;

/// As a stream that decrypts: what is to come is here already, and the socket is silent.
class Holding final : public sys::ByteStream {
 public:
  explicit Holding(sys::Fd socket) : socket_(std::move(socket)) {}
  Result<Read> read_some(ByteSpan into) override {
    const std::size_t some = std::min(into.size(), held.size());
    std::ranges::copy(as_bytes(held).first(some), into.begin());
    held.erase(0, some);
    return Read{.size_bytes = some};
  }
  Result<std::size_t> write_some(ConstByteSpan from) override {
    if (is_cut) return error(Code::peer_lost, "cut");
    return is_full ? 0 : from.size();
  }
  std::size_t buffered_bytes() const noexcept override { return counts ? held.size() : 0; }
  int fd() const noexcept override { return socket_.get(); }

  std::string held;
  bool is_full = false;
  bool is_cut = false;  ///< for what is written
  bool counts = true;

 private:
  const sys::Fd socket_;
};

/// There is no memory to copy it to.
struct Uncopied final : BodySource {
  std::size_t parts(std::span<ConstByteSpan> into) override {
    into.front() = as_bytes(text);
    return 1;
  }
  void left(std::uint64_t) override {}
  void copy_out(ByteSpan) override { throw std::bad_alloc(); }
  void done() override { ++done_calls; }

  const std::string text = std::string(100, 'b');
  int done_calls = 0;
};

struct Counter final : MessageListener {
  BodySink* on_message(const Message&) override { return ++heard, nullptr; }
  void on_broken(void*, const Status& why) override { broken = why; }
  int heard = 0;
  Status broken;
};

class TcpEndpointTest : public ::testing::Test {
 protected:
  TcpEndpointTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    far_ = sys::Fd(ends[1]);
    auto stream = std::make_unique<Holding>(sys::Fd(ends[0]));
    stream_ = stream.get();
    endpoint_.emplace(context_, nullptr);
    EXPECT_TRUE(endpoint_->accept(std::move(stream), 1).ok());
    endpoint_->admit();
  }
  void hold(int messages) {
    MessageBuffer buffer(kMessageBytes);
    buffer.size = kMessageBytes;
    buffer.body_bytes = kMessageBytes - 10;
    std::ranges::fill(buffer.room(), std::byte{'x'});
    for (int i = 0; i < messages; ++i) stream_->held += as_text(buffer.with_prefix());
  }
  Status send() {
    auto buffer = buffers_.take();
    buffer->size = 10;
    std::ranges::fill(buffer->room().first(buffer->size), std::byte{'x'});
    return endpoint_->send(std::move(buffer), nullptr, 0, {});
  }
  void socket_speaks() { ASSERT_EQ(::send(far_.get(), "x", 1, 0), 1); }
  void socket_is_silent() {
    char byte = 0;
    ASSERT_EQ(::recv(stream_->fd(), &byte, 1, 0), 1);
  }

  const sys::SystemClock clock_;
  TcpLoop loop_ = TcpLoop::open(clock_).value();
  MessageBuffers buffers_{kMessageBytes};
  Counter listener_;
  const TcpContext context_{.loop = loop_,
                            .buffers = buffers_,
                            .listener = listener_,
                            .limits = {.head_bytes = 1000, .body_bytes = kMessageBytes},
                            .first_bytes = 100};
  sys::Fd far_;
  Holding* stream_ = nullptr;
  std::optional<TcpEndpoint> endpoint_;
};

TEST_F(TcpEndpointTest, what_a_stream_holds_back_is_taken_though_its_socket_is_silent) {
  hold(100);
  socket_speaks();
  EXPECT_TRUE(loop_.turn());
  socket_is_silent();
  EXPECT_GT(listener_.heard, 10);
  EXPECT_LT(listener_.heard, 50) << "one turn is bounded, so that others have theirs";
  EXPECT_TRUE(loop_.has_rests()) << "nobody may sleep now";
  for (int i = 0; i < 10 && loop_.turn(); ++i) {
  }
  EXPECT_EQ(listener_.heard, 100);
  EXPECT_FALSE(loop_.has_rests());
  EXPECT_FALSE(loop_.turn());
  EXPECT_TRUE(listener_.broken.ok()) << listener_.broken.to_string();
}

TEST_F(TcpEndpointTest, a_turn_is_bounded_over_all_connections_and_each_has_its_own) {
  constexpr std::size_t kMany = 7;
  std::vector<std::unique_ptr<TcpEndpoint>> endpoints;
  std::vector<Holding*> streams;
  for (std::size_t i = 0; i < kMany; ++i) {
    auto stream = std::make_unique<Holding>(sys::Fd(::dup(stream_->fd())));
    streams.push_back(stream_ = stream.get());
    hold(100);
    endpoints.push_back(std::make_unique<TcpEndpoint>(context_, nullptr));
    ASSERT_TRUE(endpoints.back()->accept(std::move(stream), i + 2).ok());
    endpoints.back()->admit();
  }
  const std::size_t whole = stream_->held.size();
  EXPECT_TRUE(loop_.turn());
  EXPECT_LT(listener_.heard, 50) << "not as much for each";
  for (std::size_t i = 1; i < kMany; ++i) EXPECT_TRUE(loop_.turn());
  for (const Holding* const stream : streams) EXPECT_LT(stream->held.size(), whole);
  for (int i = 0; i < 100 && loop_.turn(); ++i) {
  }
  EXPECT_EQ(listener_.heard, 700);
}

TEST_F(TcpEndpointTest, what_came_before_the_stream_was_taken_over_is_heard) {
  auto stream = std::make_unique<Holding>(sys::Fd(::dup(stream_->fd())));
  stream_ = stream.get();
  hold(1);
  TcpEndpoint other(context_, nullptr);
  ASSERT_TRUE(other.accept(std::move(stream), 2).ok());
  other.admit();
  EXPECT_TRUE(loop_.turn());
  EXPECT_EQ(listener_.heard, 1);
}

TEST_F(TcpEndpointTest, what_has_come_is_heard_though_nothing_can_be_sent) {
  hold(100);
  EXPECT_TRUE(send().ok());
  stream_->is_cut = true;
  EXPECT_TRUE(send().ok());
  EXPECT_TRUE(send().ok()) << "nobody is to end it before it is heard";
  EXPECT_TRUE(listener_.broken.ok());
  for (int i = 0; i < 20 && loop_.turn(); ++i) {
  }
  EXPECT_EQ(listener_.heard, 100);
  EXPECT_EQ(listener_.broken.message(), "cut");
  EXPECT_EQ(send().code(), Code::peer_lost);
}

/// As where the kernel decrypts.
TEST_F(TcpEndpointTest, what_has_come_is_heard_though_nobody_counts_it) {
  hold(100);
  stream_->counts = false;
  stream_->is_cut = true;
  EXPECT_TRUE(send().ok());
  for (int i = 0; i < 20 && loop_.turn(); ++i) {
  }
  EXPECT_EQ(listener_.heard, 100);
  EXPECT_EQ(listener_.broken.message(), "cut");
}

TEST_F(TcpEndpointTest, what_has_come_is_heard_though_what_waits_cannot_leave) {
  stream_->is_full = true;
  EXPECT_TRUE(send().ok());
  EXPECT_EQ(endpoint_->unsent(), 1U);
  hold(1);
  stream_->is_cut = true;
  EXPECT_TRUE(loop_.turn());
  EXPECT_EQ(listener_.heard, 1);
  EXPECT_EQ(listener_.broken.message(), "cut");
}

TEST_F(TcpEndpointTest, rest_of_an_endpoint_that_is_gone_is_nobodys) {
  hold(100);
  socket_speaks();
  EXPECT_TRUE(loop_.turn());
  const int heard = listener_.heard;
  endpoint_.reset();
  (void)loop_.turn();
  EXPECT_FALSE(loop_.turn());
  EXPECT_EQ(listener_.heard, heard);
}

// Else the owner of memory that is taken back would have to keep it, or end the process.
TEST_F(TcpEndpointTest, body_for_whose_copy_there_is_no_memory_is_dropped_with_the_connection) {
  stream_->is_full = true;
  ASSERT_TRUE(send().ok());
  Uncopied body;
  auto buffer = buffers_.take();
  buffer->size = 10;
  ASSERT_TRUE(endpoint_->send(std::move(buffer), &body, body.text.size(), {}).ok());
  EXPECT_EQ(body.done_calls, 0);
  endpoint_->copy(body);
  EXPECT_EQ(body.done_calls, 1);
  EXPECT_EQ(endpoint_->unsent(), 0U);
  EXPECT_TRUE(listener_.broken.ok()) << "not from inside";
  EXPECT_TRUE(loop_.turn());
  EXPECT_EQ(listener_.broken.code(), Code::peer_lost);
}

}  // namespace
}  // namespace towpath::net
