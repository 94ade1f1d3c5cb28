#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/rendezvous/peer_client.h>
#include <towpath/rendezvous/test_sockets.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>
#include <towpath/sys/testing/few_descriptors.h>

namespace towpath::rendezvous {
namespace {

using run::Deadline;
using run::eventually;
using std::chrono::seconds;

const Bytes kHello = net::make_hello(kMetadataService);

// A client, and a listener that the test emulates by hand.
class PeerClientTest : public testing::Test {
 protected:
  FetchId fetch(Deadline deadline = Deadline::never()) {
    return client
        ->fetch(address, "a", deadline,
                [&](Result<Bytes> metadata) { answers.push_back(metadata); })
        .value();
  }
  RawClient accept() {
    sys::Fd socket;
    EXPECT_TRUE(eventually([&] {
      client->progress();
      socket = listener->accept().value();
      return static_cast<bool>(socket);
    }));
    auto stream = sys::make_socket_stream(std::move(socket));
    return RawClient(net::is_local(listener->address()) ? std::move(stream)
                                                        : tls->server(std::move(stream)));
  }
  Code answer() {
    EXPECT_TRUE(eventually([&] {
      client->progress();
      return !answers.empty();
    }));
    if (answers.empty()) return Code::internal;
    return answers.back().code();
  }

  // Also when a handshake has to come first.
  void answer_with(RawClient& peer, const Bytes& frame) {
    EXPECT_TRUE(eventually([&] {
      client->progress();
      (void)peer.is_closed();
      return peer.write(frame) == frame.size();
    }));
  }

  // In a child, where "two.test" has two addresses: the listener is at the second, and its port at
  // the first is free.
  void behind_two_addresses(const std::function<void(const net::TcpAddress& first)>& body) {
    const auto directory = sys::TemporaryDirectory::create();
    ASSERT_TRUE(directory.ok());
    std::ofstream(directory->file("hosts")) << "127.0.0.1 two.test\n127.0.0.2 two.test\n";
    EXPECT_TRUE(sys::testing::passes_in_child([&] {
      if (!sys::testing::use_hosts_file(directory->file("hosts")))
        GTEST_SKIP() << sys::testing::kNoMounts;
      const auto endpoints = net::resolve({"two.test", 0}).value();
      ASSERT_EQ(endpoints.size(), 2U);
      listener = net::Listener::listen(net::to_address(endpoints.back())).value();
      net::TcpAddress first = net::to_address(endpoints.front());
      first.port = std::get<net::TcpAddress>(listener->address()).port;
      client =
          PeerClient::open({.tls = provider_of(tls)}, clock).value();  // the parent's is not ours
      body(first);
    }));
  }
  void fetch_by_name(std::uint16_t port) {
    (void)client->fetch(net::TcpAddress{"two.test", port}, "a", Deadline::after(clock, seconds(5)),
                        [&](auto metadata) { answers.push_back(metadata); });
  }

  const std::shared_ptr<const net::TlsContext> tls = test_tls("0123456789abcdef");
  ManualClock clock;
  const net::Address address = test_address();
  std::optional<net::Listener> listener = net::Listener::listen(address).value();
  std::unique_ptr<PeerClient> client = PeerClient::open({.tls = provider_of(tls)}, clock).value();
  std::vector<Result<Bytes>> answers;
};

TEST_F(PeerClientTest, asks_and_hears_the_answer_once) {
  const Bytes expected = encode({FrameKind::fetch, "a"});
  fetch();
  auto peer = accept();
  EXPECT_TRUE(eventually([&] {
    client->progress();
    (void)peer.is_closed();
    return peer.received().size() == kHello.size() + expected.size();
  }));
  EXPECT_EQ(peer.received(), cat(as_text(kHello), as_text(expected)));
  EXPECT_TRUE(answers.empty());
  peer.write(encode({FrameKind::metadata, "a", to_bytes("card")}));
  EXPECT_EQ(answer(), Code::ok);
  EXPECT_EQ(*answers[0], to_bytes("card"));
  EXPECT_EQ(client->request_count(), 0U);
  client->progress();
  EXPECT_EQ(answers.size(), 1U);
}

TEST_F(PeerClientTest, listener_that_says_nothing_costs_no_more_than_the_deadline) {
  fetch(Deadline::after(clock, seconds(3)));
  auto peer = accept();
  clock.advance(seconds(3) - Duration(1));
  client->progress();
  EXPECT_TRUE(answers.empty());
  clock.advance(Duration(1));
  EXPECT_EQ(answer(), Code::timed_out);
  EXPECT_TRUE(peer.is_closed());
}

TEST_F(PeerClientTest, half_an_answer_is_none) {
  fetch();
  auto peer = std::make_optional(accept());
  peer->write(ConstByteSpan(encode({FrameKind::metadata, "a", Bytes(500)})).first(100));
  for (int i = 0; i < 5; ++i) client->progress();
  EXPECT_TRUE(answers.empty());
  peer.reset();
  EXPECT_EQ(answer(), Code::unavailable);
}

TEST_F(PeerClientTest, closed_without_a_word_it_connects_again) {
  fetch(Deadline::after(clock, seconds(3)));
  for (int times = 0; times < 4; ++times) {
    (void)accept();  // and closes
    client->progress();
    EXPECT_TRUE(answers.empty());
    client->progress();
    EXPECT_FALSE(static_cast<bool>(listener->accept().value())) << "not before a pause";
    clock.advance(std::chrono::milliseconds(160));
  }
  auto peer = accept();
  peer.write(encode({FrameKind::metadata, "a", to_bytes("metadata")}));
  EXPECT_EQ(answer(), Code::ok);
}

TEST_F(PeerClientTest, closed_without_a_word_until_the_deadline_is_reported_as_such) {
  fetch(Deadline::after(clock, seconds(1)));
  (void)accept();
  client->progress();
  EXPECT_TRUE(answers.empty());
  clock.advance(seconds(1));
  EXPECT_EQ(answer(), Code::unavailable);
  EXPECT_THAT(std::string(answers[0].status().message()),
              testing::HasSubstr("closed without an answer"));
}

TEST_F(PeerClientTest, listener_that_closes_and_goes_is_not_waited_for) {
  fetch();
  (void)accept();
  listener.reset();
  client->progress();
  clock.advance(seconds(1));
  EXPECT_EQ(answer(), Code::not_found);
}

TEST_F(PeerClientTest, answers_that_are_none_are_called_corrupt) {
  const std::vector<Bytes> bad = {
      to_bytes("HTTP/1.1 200 OK\r\n\r\n"),
      encode({FrameKind::metadata, "b", to_bytes("of another")}),
      encode({FrameKind::done, "a"}),
      encode({FrameKind::fetch, "a"}),
      encode({FrameKind::refused, "a"}),
  };
  for (const Bytes& bytes : bad) {
    answers.clear();
    fetch();
    auto peer = accept();
    peer.write(bytes);
    EXPECT_EQ(answer(), Code::corrupt) << printable(as_text(bytes));
  }
}

TEST_F(PeerClientTest, metadata_over_the_limit_is_refused_at_its_header) {
  client = PeerClient::open({.max_metadata_bytes = 100}, clock).value();
  fetch();
  auto peer = accept();
  peer.write(
      ConstByteSpan(encode({FrameKind::metadata, "a", Bytes(kMaxAgentName + 5000)})).first(32));
  EXPECT_EQ(answer(), Code::out_of_range);
}

TEST_F(PeerClientTest, nobody_listening_is_reported_by_progress_and_not_by_the_call) {
  listener.reset();
  fetch();
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(answer(), Code::not_found);
  EXPECT_THAT(std::string(answers[0].status().message()), testing::HasSubstr("nobody listens"));
}

TEST_F(PeerClientTest, full_queue_is_tried_again_until_the_deadline) {
  ASSERT_EQ(listen(listener->fd(), 0), 0);  // room for one that waits
  const RawClient waiting(address);
  fetch(Deadline::after(clock, seconds(1)));
  fetch();
  client->progress();
  EXPECT_TRUE(answers.empty());
  clock.advance(seconds(1));
  EXPECT_EQ(answer(), Code::timed_out);
  EXPECT_THAT(answers[0].status().to_string(), testing::HasSubstr("its backlog is full"));
  (void)accept();
  answers.clear();
  clock.advance(seconds(1));
  auto peer = accept();
  peer.write(encode({FrameKind::metadata, "a"}));
  EXPECT_EQ(answer(), Code::ok);
}

TEST_F(PeerClientTest, want_of_descriptors_is_waited_out_and_reported_as_what_it_is) {
  fetch(Deadline::after(clock, seconds(1)));
  {
    const sys::testing::FewDescriptors none(0);
    client->progress();
    EXPECT_TRUE(answers.empty());
    clock.advance(seconds(1));
    EXPECT_EQ(answer(), Code::timed_out);
  }
  EXPECT_EQ(answers[0].status().cause().code(), Code::exhausted);
  EXPECT_THAT(answers[0].status().to_string(), testing::HasSubstr("EMFILE"));
}

TEST_F(PeerClientTest, large_metadata_go_and_come_in_pieces) {
  Bytes metadata(3 << 20);
  for (std::size_t i = 0; i < metadata.size(); ++i) metadata[i] = static_cast<std::byte>(i * 7);
  std::optional<Status> done;
  (void)client->push(address, {"b", metadata}, Deadline::never(),
                     [&](Status status) { done = status; });
  auto peer = accept();
  const Bytes expected = encode({FrameKind::publish, "b", metadata});
  EXPECT_TRUE(eventually([&] {
    client->progress();
    (void)peer.is_closed();
    return peer.received().size() == kHello.size() + expected.size();
  }));
  EXPECT_TRUE(peer.received() == cat(as_text(kHello), as_text(expected)));
  EXPECT_FALSE(done.has_value());
  peer.write(encode({FrameKind::done, "b"}));
  EXPECT_TRUE(eventually([&] {
    client->progress();
    return done.has_value();
  }));
  EXPECT_TRUE(done->ok());
}

TEST_F(PeerClientTest, over_tcp_nobody_listening_is_reported_too) {
  const net::Address where =
      net::Listener::listen(net::TcpAddress{"127.0.0.1", 0})->address();  // and closes at once
  (void)client->fetch(where, "a", Deadline::never(),
                      [&](auto metadata) { answers.push_back(metadata); });
  EXPECT_EQ(answer(), Code::unavailable);
  EXPECT_THAT(answers[0].status().to_string(), testing::HasSubstr("nobody listens at tcp://127"));
}

TEST_F(PeerClientTest, whoever_listens_without_the_token_learns_nothing) {
  listener = net::Listener::listen(net::TcpAddress{"127.0.0.1", 0}).value();
  (void)client->push(listener->address(), {"a", to_bytes("our metadata")}, Deadline::never(),
                     [&](const Status& status) { answers.emplace_back(status); });
  sys::Fd socket;
  EXPECT_TRUE(eventually([&] {
    client->progress();
    socket = listener->accept().value();
    return static_cast<bool>(socket);
  }));
  RawClient thief(test_tls("0123456789abcdeg")->server(sys::make_socket_stream(std::move(socket))));
  EXPECT_TRUE(eventually([&] {
    client->progress();
    return thief.is_closed();
  }));
  EXPECT_EQ(thief.received(), "");
  EXPECT_EQ(answer(), Code::denied);
}

TEST_F(PeerClientTest, waiting_for_a_handshake_does_not_spin) {
  listener = net::Listener::listen(net::TcpAddress{"127.0.0.1", 0}).value();
  (void)client->fetch(listener->address(), "a", Deadline::never(),
                      [&](auto metadata) { answers.push_back(metadata); });
  const auto peer = accept();
  auto poller = run::Poller::open().value();
  ASSERT_TRUE(poller.add(client->wait_fd(), 0).ok());
  EXPECT_TRUE(eventually([&] {
    client->progress();
    return poller.wait(Duration::zero()).empty();
  })) << "the socket can be written, and there is nothing to write";
}

TEST_F(PeerClientTest, each_address_of_a_name_is_tried) {
  behind_two_addresses([&](const net::TcpAddress& first) {
    fetch_by_name(first.port);
    auto peer = accept();
    answer_with(peer, encode({FrameKind::metadata, "a"}));
    EXPECT_EQ(answer(), Code::ok);
  });
}

// The first drops what comes: its queue is full.
TEST_F(PeerClientTest, address_that_never_connects_leaves_time_for_the_next) {
  behind_two_addresses([&](const net::TcpAddress& first) {
    const auto full = net::Listener::listen(first).value();
    ASSERT_EQ(::listen(full.fd(), 0), 0);
    const RawClient taken(first), waiting(first), more(first);
    fetch_by_name(first.port);
    client->progress();
    clock.advance(std::chrono::milliseconds(250));
    auto peer = accept();
    clock.advance(std::chrono::milliseconds(500));
    client->progress();  // this one is connected
    answer_with(peer, encode({FrameKind::metadata, "a"}));
    EXPECT_EQ(answer(), Code::ok);
  });
}

TEST_F(PeerClientTest, cancelled_request_is_never_answered) {
  const FetchId id = fetch();
  auto peer = accept();
  client->cancel(id);
  client->cancel(id);
  EXPECT_TRUE(peer.is_closed());
  client->progress();
  EXPECT_EQ(client->request_count(), 0U);
  EXPECT_TRUE(answers.empty());
}

TEST_F(PeerClientTest, after_the_last_request_was_cancelled_nothing_wakes) {
  auto poller = run::Poller::open().value();
  ASSERT_TRUE(poller.add(client->wait_fd(), 0).ok());
  client->cancel(fetch());
  client->progress();
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
}

TEST_F(PeerClientTest, child_that_was_forked_meanwhile_does_not_keep_a_cancelled_request_awake) {
  auto poller = run::Poller::open().value();
  ASSERT_TRUE(poller.add(client->wait_fd(), 0).ok());
  const FetchId id = fetch();
  auto peer = accept();
  const pid_t child = fork();
  if (child == 0) {
    pause();  // with a copy of the socket
    _exit(0);
  }
  client->cancel(id);
  EXPECT_GT(peer.write("x"), 0U) << "to the child's copy";
  client->progress();
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(PeerClientTest, callback_may_cancel_and_ask_again) {
  listener.reset();
  FetchId second = 0;
  int heard = 0;
  (void)client->fetch(address, "a", Deadline::never(), [&](Result<Bytes>) {
    ++heard;
    client->cancel(second);
    (void)client->fetch(address, "a", Deadline::never(), [&](Result<Bytes>) { ++heard; });
  });
  second = fetch();
  EXPECT_TRUE(eventually([&] {
    client->progress();
    return heard == 2;
  }));
  EXPECT_TRUE(answers.empty());
}

TEST_F(PeerClientTest, wrong_calls_are_reported_at_once) {
  const auto ignore = [](Result<Bytes>) {};
  EXPECT_EQ(client->fetch(address, "", Deadline::never(), ignore).code(), Code::invalid_argument);
  EXPECT_EQ(
      client->fetch(address, std::string(kMaxAgentName + 1, 'x'), Deadline::never(), ignore).code(),
      Code::invalid_argument);
  EXPECT_EQ(
      client->push(address, {"a", Bytes(kMaxMetadataBytes + 1)}, Deadline::never(), [](Status) {})
          .code(),
      Code::out_of_range);
  client = PeerClient::open({.max_requests = 1}, clock).value();
  fetch();
  EXPECT_EQ(client->fetch(address, "a", Deadline::never(), ignore).code(), Code::exhausted);
}

TEST_F(PeerClientTest, wait_fd_reports_when_progress_has_something_to_do) {
  auto poller = run::Poller::open().value();
  ASSERT_TRUE(poller.add(client->wait_fd(), 0).ok());
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
  fetch();
  EXPECT_EQ(poller.wait(Duration::max()).size(), 1U);
  auto peer = accept();
  for (int i = 0; i < 3; ++i) client->progress();
  EXPECT_TRUE(poller.wait(Duration::zero()).empty()) << "nothing to do until the peer answers";
  peer.write(encode({FrameKind::metadata, "a"}));
  EXPECT_EQ(poller.wait(Duration::max()).size(), 1U);
  EXPECT_EQ(answer(), Code::ok);
}

}  // namespace
}  // namespace towpath::rendezvous
