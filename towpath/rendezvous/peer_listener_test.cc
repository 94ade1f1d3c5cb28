#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <towpath/rendezvous/peer_client.h>
#include <towpath/rendezvous/peer_listener.h>
#include <towpath/rendezvous/test_sockets.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::rendezvous {
namespace {

using run::Deadline;
using run::eventually;
using std::chrono::seconds;

class PeerListenerTest : public testing::Test {
 protected:
  PeerListenerTest() {
    options.address = test_address();
    options.log = telemetry::Log(sink, clock, "listener");
  }
  void listen() {
    listener = PeerListener::open(options, clock).value();
    ASSERT_TRUE(listener->publish("a", as_bytes("metadata of a")).ok());
  }
  // Lets the listener work until nothing is left to do.
  void settle() {
    // Local sockets deliver at once: a few calls do all there is to do.
    for (int round = 0; round < 40; ++round) listener->progress();
  }
  Result<Bytes> ask(const MetadataName& name = "a") {
    auto client = PeerClient::open({.tls = provider_of(options.tls)}, clock).value();
    std::optional<Result<Bytes>> answer;
    (void)client->fetch(options.address, name, Deadline::never(),
                        [&](Result<Bytes> metadata) { answer = std::move(metadata); });
    EXPECT_TRUE(eventually([&] {
      listener->progress();
      client->progress();
      return answer.has_value();
    }));
    return answer ? *answer : error(Code::internal, "no answer");
  }
  Status bring(const Change& change) {
    auto client = PeerClient::open({.tls = provider_of(options.tls)}, clock).value();
    std::optional<Status> answer;
    (void)client->push(options.address, change, Deadline::never(),
                       [&](Status status) { answer = status; });
    EXPECT_TRUE(eventually([&] {
      listener->progress();
      client->progress();
      return answer.has_value();
    }));
    return answer ? *answer : error(Code::internal, "no answer");
  }

  ManualClock clock;
  telemetry::CollectingSink sink;
  PeerListenerOptions options;
  std::unique_ptr<PeerListener> listener;
};

TEST_F(PeerListenerTest, serves_its_metadata_and_says_what_it_has_not) {
  listen();
  EXPECT_EQ(ask().value(), to_bytes("metadata of a"));
  ASSERT_TRUE(listener->publish("a", as_bytes("newer")).ok());
  EXPECT_EQ(ask().value(), to_bytes("newer"));
  EXPECT_EQ(ask("b").code(), Code::not_found);
  ASSERT_TRUE(listener->withdraw("a").ok());
  EXPECT_EQ(listener->withdraw("a").code(), Code::not_found);
  EXPECT_EQ(ask().code(), Code::not_found);
  EXPECT_EQ(listener->counts().served.value(), 4U);
}

TEST_F(PeerListenerTest, names_may_hold_any_bytes) {
  listen();
  const std::string name("\0/..\xff\n", 6);
  ASSERT_TRUE(listener->publish(name, as_bytes("odd")).ok());
  EXPECT_EQ(ask(name).value(), to_bytes("odd"));
  EXPECT_EQ(listener->publish("", {}).code(), Code::invalid_argument);
}

TEST_F(PeerListenerTest, hands_on_what_is_brought_and_reports_the_verdict) {
  listen();
  EXPECT_EQ(bring({"b", to_bytes("x")}).code(), Code::unsupported) << "nobody takes it";
  std::vector<std::pair<std::string, bool>> changes;
  listener->on_change([&](const Change& change) -> Status {
    changes.emplace_back(change.name.agent, change.metadata.has_value());
    if (change.metadata && change.metadata->empty())
      return error(Code::corrupt, "an empty metadata");
    return {};
  });
  EXPECT_TRUE(bring({"b", to_bytes("metadata of b")}).ok());
  EXPECT_TRUE(bring({"b", std::nullopt}).ok());
  const Status refused = bring({"c", Bytes()});
  EXPECT_EQ(refused.code(), Code::corrupt);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("an empty metadata"));
  EXPECT_THAT(changes, testing::ElementsAre(testing::Pair("b", true), testing::Pair("b", false),
                                            testing::Pair("c", true)));
}

TEST_F(PeerListenerTest, several_requests_may_share_a_connection) {
  listen();
  RawClient client(options.address);
  client.greet();
  const Bytes request = encode({FrameKind::fetch, "a"});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(client.write(request), request.size());
  EXPECT_TRUE(eventually([&] {
    listener->progress();
    return listener->counts().served.value() == 3;
  }));
  EXPECT_FALSE(client.is_closed());
  const Bytes reply = encode({FrameKind::metadata, "a", to_bytes("metadata of a")});
  EXPECT_EQ(client.received().size(), 3 * reply.size());
}

TEST_F(PeerListenerTest, garbage_costs_only_its_sender_its_connection) {
  listen();
  RawClient garbage(options.address);
  garbage.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  settle();
  EXPECT_TRUE(garbage.is_closed());
  EXPECT_EQ(listener->counts().malformed.value(), 1U);
  EXPECT_EQ(sink.count_of("client dropped"), 1U);
  RawClient reply(options.address);
  reply.greet();
  reply.write(encode({FrameKind::metadata, "a"}));
  RawClient unnamed(options.address);
  unnamed.greet();
  unnamed.write(encode({FrameKind::fetch, ""}));
  settle();
  EXPECT_TRUE(reply.is_closed());
  EXPECT_TRUE(unnamed.is_closed());
  EXPECT_TRUE(ask().ok());
}

TEST_F(PeerListenerTest, half_a_frame_then_silence_is_dropped_in_time) {
  listen();
  RawClient half(options.address);
  half.greet();
  half.write(ConstByteSpan(encode({FrameKind::publish, "b", Bytes(500)})).first(100));
  settle();
  EXPECT_EQ(listener->buffered_bytes(), 100U);
  clock.advance(options.exchange_timeout - Duration(1));
  settle();
  EXPECT_FALSE(half.is_closed());
  clock.advance(Duration(1));
  settle();
  EXPECT_TRUE(half.is_closed());
  EXPECT_EQ(listener->client_count(), 0U);
  EXPECT_EQ(listener->buffered_bytes(), 0U);
  EXPECT_EQ(listener->counts().overdue.value(), 1U);
}

TEST_F(PeerListenerTest, dripping_bytes_does_not_buy_time) {
  listen();
  RawClient slow(options.address);
  slow.greet();
  const Bytes frame = encode({FrameKind::publish, "b", Bytes(500)});
  for (std::size_t i = 0; i < 5; ++i) {
    slow.write(ConstByteSpan(frame).subspan(i, 1));
    settle();
    EXPECT_FALSE(slow.is_closed()) << i;
    clock.advance(seconds(1));
  }
  settle();
  EXPECT_TRUE(slow.is_closed());
}

TEST_F(PeerListenerTest, silent_client_is_dropped_after_the_idle_time) {
  listen();
  RawClient unauthenticated(options.address);
  RawClient silent(options.address);
  silent.greet();
  settle();
  clock.advance(options.exchange_timeout);
  settle();
  EXPECT_TRUE(unauthenticated.is_closed()) << "it has not even greeted";
  EXPECT_FALSE(silent.is_closed());
  clock.advance(options.idle_timeout - options.exchange_timeout);
  settle();
  EXPECT_TRUE(silent.is_closed());
  EXPECT_EQ(listener->counts().overdue.value(), 2U);
}

TEST_F(PeerListenerTest, thousand_silent_connections_do_not_keep_a_newcomer_out) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit raised{std::max<rlim_t>(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 2048)),
                      limit.rlim_max};
  if (raised.rlim_cur < 1200)
    GTEST_SKIP() << "only " << raised.rlim_cur << " descriptors: ulimit -n 2048";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &raised), 0);
  listen();
  std::vector<RawClient> silent;
  for (int i = 0; i < 1000; ++i) {
    silent.emplace_back(options.address);
    if (i % 32 == 0) listener->progress();
    EXPECT_LE(listener->client_count(), options.max_clients);
  }
  EXPECT_EQ(ask().value(), to_bytes("metadata of a"));
  EXPECT_LE(listener->client_count(), options.max_clients);
  EXPECT_GE(listener->counts().crowded_out.value(), 1000 - options.max_clients);
  EXPECT_LE(sink.events().size(), 10U) << "a flood does not flood the log";
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(PeerListenerTest, oversized_frame_is_refused_before_it_is_stored) {
  options.max_metadata_bytes = 1000;
  listen();
  RawClient big(options.address);
  big.greet();
  big.write(ConstByteSpan(encode({FrameKind::publish, "b", Bytes(kMaxAgentName + 5000)})));
  settle();
  EXPECT_TRUE(big.is_closed());
  EXPECT_EQ(listener->buffered_bytes(), 0U);
  EXPECT_EQ(listener->counts().malformed.value(), 1U);
}

TEST_F(PeerListenerTest, client_that_never_reads_gets_no_more_and_is_dropped) {
  listen();
  ASSERT_TRUE(listener->publish("big", Bytes(4 << 20)).ok());
  RawClient greedy(options.address);
  Bytes requests;
  greedy.greet();
  for (int i = 0; i < 50; ++i) {
    const Bytes request = encode({FrameKind::fetch, "big"});
    requests.insert(requests.end(), request.begin(), request.end());
  }
  ASSERT_EQ(greedy.write(requests), requests.size());
  settle();
  EXPECT_EQ(listener->counts().served.value(), 0U) << "the first reply does not fit the socket";
  EXPECT_TRUE(ask().ok()) << "others are served meanwhile";
  clock.advance(options.exchange_timeout);
  settle();
  EXPECT_EQ(listener->client_count(), 0U);
  EXPECT_TRUE(greedy.is_closed());
}

TEST_F(PeerListenerTest, half_read_frames_share_a_bounded_room) {
  options.max_buffered_bytes = 3000;
  listen();
  const Bytes frame = encode({FrameKind::publish, "b", Bytes(2000)});
  std::vector<RawClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(options.address);
    clients.back().greet();
    clients.back().write(ConstByteSpan(frame).first(1000));
    settle();
    EXPECT_LE(listener->buffered_bytes(), 3000U);
  }
  EXPECT_EQ(listener->counts().crowded_out.value(), 2U);
}

TEST_F(PeerListenerTest, client_may_not_send_without_end) {
  options.max_bytes_per_client = 500;
  listen();
  RawClient chatty(options.address);
  chatty.greet();
  EXPECT_TRUE(eventually([&] {
    chatty.write(encode({FrameKind::fetch, "a"}));
    listener->progress();
    return chatty.is_closed();
  }));
  EXPECT_LE(listener->counts().served.value(), 12U);
}

TEST_F(PeerListenerTest, process_of_another_user_is_refused_and_logged) {
  if (geteuid() != 0) {
    options.trusted_user = geteuid() + 1;
    listen();
    const RawClient client(options.address);
    settle();
  } else {
    options.trusted_user = 0;
    listen();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (setresuid(65534, 65534, 65534) != 0) _exit(2);
      _exit(reach(options.address).ok() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    settle();
  }
  EXPECT_EQ(listener->counts().denied.value(), 1U);
  EXPECT_EQ(listener->client_count(), 0U);
  EXPECT_EQ(sink.count_of("client refused"), 1U);
}

TEST_F(PeerListenerTest, survives_having_no_descriptor_left) {
  listen();
  const RawClient first(options.address);
  settle();
  const RawClient second(options.address);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const sys::Fd highest(dup(0));
  const rlimit none{static_cast<rlim_t>(highest.get()), limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  listener->progress();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(sink.count_of("cannot accept"), 1U);
  EXPECT_EQ(listener->client_count(), 0U) << "the oldest client makes room";
  settle();
  EXPECT_EQ(listener->client_count(), 0U) << "it does not try without pause";
  clock.advance(std::chrono::milliseconds(100));
  settle();
  EXPECT_EQ(listener->client_count(), 1U);
}

TEST_F(PeerListenerTest, wait_fd_reports_of_clients_and_requests) {
  listen();
  auto poller = run::Poller::open().value();
  ASSERT_TRUE(poller.add(listener->wait_fd(), 0).ok());
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
  RawClient client(options.address);
  EXPECT_EQ(poller.wait(Duration::max()).size(), 1U);
}

TEST_F(PeerListenerTest, address_can_be_taken_once_and_is_free_again_afterwards) {
  listen();
  EXPECT_EQ(PeerListener::open(options, clock).code(), Code::already_exists);
  listener.reset();
  listen();
  listener->stop_listening();
  EXPECT_EQ(reach(options.address).code(), Code::unavailable);
  settle();
}

TEST_F(PeerListenerTest, socket_file_is_removed_in_the_end) {
  const auto directory = sys::TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  options.address = sys::LocalAddress{directory->file("socket")};
  listen();
  EXPECT_TRUE(ask().ok());
  listener.reset();
  EXPECT_TRUE(std::filesystem::is_empty(directory->path())) << "nothing is left in it";
}

class TcpPeerListenerTest : public PeerListenerTest {
 protected:
  TcpPeerListenerTest() {
    options.address = net::TcpAddress{"127.0.0.1", 0};
    options.tls = test_tls("0123456789abcdef");
  }
  void listen_at_chosen_port() {
    listen();
    options.address = listener->address();  // for ask() and bring()
  }
  Status ask_with(const net::TlsProvider& tls) {
    auto client = PeerClient::open({.tls = tls}, clock).value();
    std::optional<Status> answer;
    TOWPATH_TRY(client->fetch(options.address, "a", Deadline::never(),
                              [&](const Result<Bytes>& metadata) { answer = metadata.status(); }));
    EXPECT_TRUE(eventually([&] {
      listener->progress();
      client->progress();
      return answer.has_value();
    }));
    return answer ? *answer : error(Code::internal, "no answer");
  }
  void expect_closed(RawClient& client) {
    EXPECT_TRUE(eventually([&] {
      listener->progress();
      return client.is_closed();
    }));
  }
};

TEST_F(TcpPeerListenerTest, serves_and_takes_metadata_as_on_a_unix_socket) {
  listen_at_chosen_port();
  EXPECT_NE(std::get<net::TcpAddress>(options.address).port, 0);
  EXPECT_EQ(ask().value(), to_bytes("metadata of a"));
  EXPECT_EQ(ask("b").code(), Code::not_found);
  ASSERT_TRUE(listener->publish({"a", "part"}, Bytes(1 << 20)).ok());
  EXPECT_EQ(ask({"a", "part"})->size(), std::size_t{1} << 20U);
  std::vector<MetadataName> changes;
  listener->on_change([&](const Change& change) {
    changes.push_back(change.name);
    return Status();
  });
  EXPECT_TRUE(bring({{"b", "layers"}, to_bytes("metadata of b")}).ok());
  EXPECT_TRUE(bring({"b", std::nullopt}).ok());
  EXPECT_THAT(changes, testing::ElementsAre(MetadataName("b", "layers"), MetadataName("b")));
}

TEST_F(TcpPeerListenerTest, only_the_token_opens_the_door) {
  listen_at_chosen_port();
  EXPECT_TRUE(ask_with(provider_of(options.tls)).ok());
  EXPECT_EQ(ask_with({}).code(), Code::denied) << "it is not even dialled";
  EXPECT_EQ(listener->counts().denied.value(), 0U);
  EXPECT_EQ(ask_with(provider_of(test_tls("0123456789abcdeg"))).code(), Code::denied);
  EXPECT_EQ(listener->counts().denied.value(), 1U);
  EXPECT_EQ(sink.count_of("client refused"), 1U);
  for (const auto& event : sink.events())
    EXPECT_EQ(telemetry::to_string(event).find("0123456789"), std::string::npos)
        << "no token is ever logged";
}

// What a process needed, of whatever user, to have the metadata of a listener on the loopback.
TEST_F(TcpPeerListenerTest, request_without_proof_gets_nothing) {
  listen_at_chosen_port();
  RawClient client(options.address);
  client.greet();
  client.write(encode({FrameKind::fetch, "a"}));
  expect_closed(client);
  EXPECT_EQ(client.received().find("metadata of a"), std::string::npos);
  EXPECT_EQ(listener->counts().served.value(), 0U);
  EXPECT_EQ(listener->counts().malformed.value(), 1U);
}

TEST_F(TcpPeerListenerTest, flood_of_wrong_tokens_is_counted_and_does_not_flood_the_log) {
  listen_at_chosen_port();
  const auto wrong = provider_of(test_tls("0123456789abcdeg"));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(ask_with(wrong).code(), Code::denied);
  EXPECT_EQ(listener->counts().denied.value(), 200U);
  EXPECT_EQ(sink.count_of("client refused"), telemetry::Log::kLimit.burst);
  EXPECT_TRUE(ask().ok());
}

TEST_F(TcpPeerListenerTest, unauthenticated_connection_can_neither_stay_nor_grow) {
  listen_at_chosen_port();
  RawClient silent(options.address);
  RawClient dripping(options.address);
  const Bytes beginning = to_bytes("\x16\x03\x01\x40\x00");  // of a record of 16 KiB
  dripping.write(beginning);
  settle();
  EXPECT_EQ(listener->buffered_bytes(), 0U);
  clock.advance(options.exchange_timeout);
  expect_closed(silent);
  expect_closed(dripping);
  EXPECT_EQ(listener->client_count(), 0U);
  EXPECT_EQ(listener->counts().overdue.value(), 2U);
}

TEST_F(TcpPeerListenerTest, unauthenticated_may_not_send_more_than_a_hello) {
  listen_at_chosen_port();
  RawClient client(options.address);
  client.write(encode({FrameKind::publish, "a", Bytes(100'000)}));
  expect_closed(client);
  EXPECT_EQ(listener->counts().malformed.value(), 1U);
}

TEST_F(TcpPeerListenerTest, no_address_goes_without_proof_and_none_of_this_host_alone_is_wide) {
  options.tls = nullptr;
  const Status refused = PeerListener::open(options, clock).status();
  EXPECT_EQ(refused.code(), Code::denied);
  EXPECT_THAT(refused.to_string(), testing::HasSubstr("needs a token"));
  options.tls = test_tls("0123456789abcdef");
  options.address = net::TcpAddress{"0.0.0.0", 0};
  EXPECT_TRUE(PeerListener::open(options, clock).ok());
  options.loopback_only = true;
  EXPECT_EQ(PeerListener::open(options, clock).code(), Code::denied);
}

TEST_F(PeerListenerTest, options_that_cannot_work_are_refused) {
  options.max_clients = 0;
  EXPECT_EQ(PeerListener::open(options, clock).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::rendezvous
