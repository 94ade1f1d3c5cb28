// What somebody that knows only its address gets out of a listener, and what it costs others.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/net/test_connections.h>
#include <towpath/rendezvous/peer_client.h>
#include <towpath/rendezvous/peer_listener.h>
#include <towpath/rendezvous/test_sockets.h>
#include <towpath/run/eventually.h>

namespace towpath::rendezvous {
namespace {

using run::Deadline;
using run::eventually;
using std::chrono::seconds;

class PeerListenerAttackTest : public testing::Test {
 protected:
  void listen(const net::Address& address, std::size_t max_clients = 64) {
    listener =
        PeerListener::open({.address = address, .tls = tls, .max_clients = max_clients}, clock)
            .value();
    ASSERT_TRUE(listener->publish("a", as_bytes("metadata of a")).ok());
  }
  void listen_at_tcp() { listen(net::TcpAddress{"127.0.0.1", 0}); }
  void fetch() {
    ASSERT_TRUE(client
                    ->fetch(listener->address(), "a", Deadline::after(clock, seconds(5)),
                            [&](Result<Bytes> metadata) { answer = std::move(metadata); })
                    .ok());
  }
  // Lets both sides work until the answer is there; time stands still.
  void expect_answer() {
    ASSERT_TRUE(eventually([&] {
      client->progress();
      listener->progress();
      return answer.has_value();
    }));
    ASSERT_TRUE(answer->ok()) << answer->status().to_string();
    EXPECT_EQ(**answer, to_bytes("metadata of a"));
  }
  // So many connections that say nothing; the listener works after each.
  void flood(const char* from, std::size_t count) {
    const auto port = std::get<net::TcpAddress>(listener->address()).port;
    const std::uint64_t accepted = listener->counts().accepted.value() + count;
    for (std::size_t i = 0; i < count; ++i) {
      silent.push_back(net::connect_from(from, net::ipv4("127.0.0.1", port)));
      listener->progress();
    }
    EXPECT_TRUE(eventually([&] {
      listener->progress();
      return listener->counts().accepted.value() == accepted;
    }));
  }
  void expect_silent(std::ptrdiff_t count) {
    const auto is_open = [](const sys::Fd& one) { return !net::is_closed(one.get()); };
    EXPECT_TRUE(eventually([&] { return std::ranges::count_if(silent, is_open) == count; }));
  }

  ManualClock clock;
  const std::shared_ptr<const net::TlsContext> tls = test_tls("0123456789abcdef");
  std::unique_ptr<PeerListener> listener;
  std::unique_ptr<PeerClient> client = PeerClient::open({.tls = provider_of(tls)}, clock).value();
  std::optional<Result<Bytes>> answer;
  std::vector<sys::Fd> silent;
};

TEST_F(PeerListenerAttackTest, connections_of_another_source_put_out_none_in_its_handshake) {
  listen_at_tcp();
  fetch();
  ASSERT_TRUE(eventually([&] {
    client->progress();
    listener->progress();
    return listener->client_count() == 1;
  }));
  client->progress();  // its first bytes are sent, if they were not before
  flood("127.0.0.9", 200);
  expect_silent(32);  // a source has half of the places at most
  expect_answer();
  EXPECT_EQ(listener->counts().accepted.value(), 201U) << "it did not have to connect again";
}

TEST_F(PeerListenerAttackTest, connections_of_others_put_out_none_in_the_midst_of_a_reply) {
  listen_at_tcp();
  const Bytes metadata(kMaxMetadataBytes);  // three of them are more than sockets hold
  ASSERT_TRUE(listener->publish("big", metadata).ok());
  const std::size_t replies = 3 * encode({FrameKind::metadata, "big", metadata}).size();
  RawClient reader(tls->client(reach(listener->address()).value(), "127.0.0.1"));
  Bytes words = net::make_hello(kMetadataService);
  const Bytes request = encode({FrameKind::fetch, "big"});
  for (int i = 0; i < 3; ++i) words.insert(words.end(), request.begin(), request.end());
  std::size_t sent = 0;
  ASSERT_TRUE(eventually([&] {
    if (sent < words.size()) sent += reader.write(ConstByteSpan(words).subspan(sent));
    listener->progress();
    return reader.is_closed() || (sent == words.size() && !reader.received().empty());
  }));
  for (const auto* from : {"127.0.0.9", "127.0.0.10", "127.0.0.11"}) flood(from, 70);
  EXPECT_LT(listener->counts().served.value(), 3U) << "a reply is under way";
  EXPECT_TRUE(eventually([&] {
    listener->progress();
    return reader.is_closed() || reader.received().size() == replies;
  }));
  EXPECT_EQ(reader.received().size(), replies);
}

TEST_F(PeerListenerAttackTest, sources_that_have_all_places_give_one_up_for_one_that_has_none) {
  listen_at_tcp();
  flood("127.0.0.9", 32);
  flood("127.0.0.10", 40);
  expect_silent(64);
  fetch();
  expect_answer();
  expect_silent(63);
}

TEST_F(PeerListenerAttackTest, silent_one_goes_for_another_of_its_source_after_a_while) {
  listen_at_tcp();
  flood("127.0.0.1", 32);
  fetch();
  ASSERT_TRUE(eventually([&] {
    client->progress();
    listener->progress();
    return listener->counts().crowded_out.value() == 1;
  }));
  expect_silent(32);
  clock.advance(PeerListener::kSilenceInTls);
  ASSERT_TRUE(eventually([&] {
    client->progress();
    listener->progress();
    clock.advance(std::chrono::milliseconds(1));  // in case it sees only now that it was closed
    return answer.has_value();
  }));
  EXPECT_TRUE(answer->ok());
  expect_silent(31);
}

TEST_F(PeerListenerAttackTest, client_that_has_proven_itself_goes_for_no_newcomer) {
  listen(test_address(), 1);
  auto inside = std::make_optional<RawClient>(listener->address());
  inside->greet();
  // Local sockets deliver at once: a few calls do all there is to do.
  const auto settle = [&] {
    for (int round = 0; round < 10; ++round) listener->progress();
  };
  settle();
  fetch();
  client->progress();
  settle();
  client->progress();
  EXPECT_FALSE(inside->is_closed());
  EXPECT_EQ(listener->counts().crowded_out.value(), 1U) << "the newcomer is refused";
  EXPECT_FALSE(answer.has_value()) << "and connects again";
  inside.reset();
  settle();
  clock.advance(seconds(1));
  expect_answer();
  EXPECT_EQ(listener->counts().accepted.value(), 3U);
}

}  // namespace
}  // namespace towpath::rendezvous
