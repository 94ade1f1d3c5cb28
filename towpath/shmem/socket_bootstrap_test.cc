// PEs that meet at sockets.
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/framed_connection.h>
#include <towpath/net/hello.h>
#include <towpath/net/listener.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/run/eventually.h>
#include <towpath/shmem/bootstrap_words.h>
#include <towpath/shmem/socket_bootstrap.h>
#include <towpath/sys/byte_stream.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/few_descriptors.h>

namespace towpath::shmem {
namespace {

class SocketBootstrapTest : public ::testing::Test {
 protected:
  using Heard = std::vector<Result<std::vector<Bytes>>>;

  SocketBootstrapOptions options_of(int pe, int pes) const {
    return {.places = {sys::LocalAddress{.name = cat(directory_.path(), "/socket")}},
            .token = token_,
            .my_pe = pe,
            .pes = pes,
            .timeout = timeout_};
  }

  /// What each PE heard that comes with its options, after as many rounds.
  static Heard meet(const std::vector<SocketBootstrapOptions>& pes, int rounds = 1) {
    Heard heard(pes.size(), error(Code::internal, "nothing", "none"));
    std::vector<std::jthread> threads;
    for (std::size_t pe = 0; pe < pes.size(); ++pe)
      threads.emplace_back([&, pe] {
        SocketBootstrap bootstrap(pes[pe]);
        for (int round = 0; round < rounds; ++round)
          heard[pe] = bootstrap.all(to_bytes(cat("I am ", pe, " in ", round)));
      });
    return threads.clear(), heard;
  }

  /// PE 0, and what it hears.
  std::jthread start_host(int pes, Result<std::vector<Bytes>>& heard) {
    host_has_ended_ = false;
    return std::jthread([this, pes, &heard] {
      heard = SocketBootstrap(options_of(0, pes)).all({});
      host_has_ended_ = true;
    });
  }

  /// Connections to it that say nothing: so many, or as many as it has time for.
  std::vector<std::unique_ptr<sys::ByteStream>> open_silent(std::size_t count) const {
    const auto place = std::get<sys::LocalAddress>(options_of(0, 1).places.front());
    std::vector<std::unique_ptr<sys::ByteStream>> all;
    EXPECT_TRUE(run::eventually([&] {
      auto stream = sys::connect_stream(place);
      if (stream.ok()) all.push_back(*std::move(stream));
      return all.size() == count || host_has_ended_;
    })) << "PE 0 does not listen";
    return all;
  }

  /// Until PE 0 has closed them, since they speak no TLS.
  static void hang_up_on(std::vector<std::unique_ptr<sys::ByteStream>> all) {
    Bytes into(100);
    for (const auto& each : all) {
      EXPECT_TRUE(each->write_some(as_bytes("no TLS")).ok());
      EXPECT_TRUE(run::eventually([&] {
        const auto read = each->read_some(into);
        return !read.ok() || read->ended;
      }));
    }
  }

  sys::TemporaryDirectory directory_ = sys::TemporaryDirectory::create().value();
  const net::Token token_ = net::Token::make("a secret of the job").value();
  Duration timeout_ = std::chrono::seconds(30);
  std::atomic<bool> host_has_ended_{false};
};

TEST_F(SocketBootstrapTest, all_hear_what_each_said_as_often_as_they_meet) {
  for (const auto& heard : meet({options_of(0, 3), options_of(1, 3), options_of(2, 3)}, 3)) {
    ASSERT_TRUE(heard.ok()) << heard.status().to_string();
    EXPECT_EQ(*heard, (std::vector{to_bytes("I am 0 in 2"), to_bytes("I am 1 in 2"),
                                   to_bytes("I am 2 in 2")}));
  }
}

TEST_F(SocketBootstrapTest, who_was_reported_another_number_is_refused) {
  Heard heard;
  EXPECT_TRUE(run::with_timeout(
      [&](Duration timeout) {
        timeout_ = timeout;
        heard = meet({options_of(0, 2), options_of(1, 3)});
        return heard[1].code() == Code::denied;
      },
      std::chrono::milliseconds(100)));
  EXPECT_EQ(heard[0].code(), Code::timed_out);
  EXPECT_NE(heard[0].status().to_string().find("PE 1 of 3 PEs, where PE 0 knows of 2"),
            std::string::npos);
  EXPECT_EQ(meet({options_of(2, 2)})[0].code(), Code::invalid_argument);
}

TEST_F(SocketBootstrapTest, who_has_another_token_is_refused_and_the_others_meet) {
  const std::vector members = {options_of(0, 2), options_of(1, 2)};
  timeout_ = std::chrono::milliseconds(300);  // for a PE 0 that the listener there is not
  SocketBootstrapOptions unauthenticated = options_of(1, 2);
  unauthenticated.token = net::Token::make("a secret of nobody").value();
  const auto heard = meet({members[0], members[1], unauthenticated});
  EXPECT_TRUE(heard[0].ok()) << heard[0].status().to_string();
  EXPECT_TRUE(heard[1].ok()) << heard[1].status().to_string();
  EXPECT_EQ(heard[2].code(), Code::timed_out);
}

TEST_F(SocketBootstrapTest, who_has_not_come_is_named) {
  timeout_ = std::chrono::milliseconds(50);
  const auto heard = meet({options_of(0, 3)});
  EXPECT_EQ(heard[0].code(), Code::timed_out);
  EXPECT_NE(heard[0].status().message().find("waited for PE 1 2 of 3"), std::string_view::npos);
  EXPECT_EQ(meet({options_of(1, 3)})[0].code(), Code::timed_out);
}

TEST_F(SocketBootstrapTest, silent_connections_do_not_keep_pes_from_meeting) {
  Result<std::vector<Bytes>> heard = error(Code::internal, "nothing", "none");
  std::jthread host = start_host(2, heard);
  const auto silent = open_silent(64);
  const auto visitor = SocketBootstrap(options_of(1, 2)).all({});
  EXPECT_TRUE(visitor.ok()) << visitor.status().to_string();
  host.join();
  EXPECT_TRUE(heard.ok()) << heard.status().to_string();
}

TEST_F(SocketBootstrapTest, too_many_silent_connections_are_named) {
  Result<std::vector<Bytes>> heard = error(Code::internal, "nothing", "none");
  EXPECT_TRUE(run::with_timeout(
      [&](Duration timeout) {
        timeout_ = timeout;
        std::jthread host = start_host(2, heard);
        const auto silent = open_silent(65);
        host.join();
        return heard.status().to_string().find("proven nothing") != std::string::npos;
      },
      std::chrono::milliseconds(200)))
      << heard.status().to_string();
  EXPECT_EQ(heard.code(), Code::timed_out);
}

TEST_F(SocketBootstrapTest, lack_of_descriptors_is_named) {
  Result<std::vector<Bytes>> heard = error(Code::internal, "nothing", "none");
  EXPECT_TRUE(run::with_timeout(
      [&](Duration timeout) {
        timeout_ = timeout;
        std::jthread host = start_host(2, heard);
        hang_up_on(open_silent(1));  // so it opens nothing any more but for newcomers
        const sys::testing::FewDescriptors few(1);
        const auto newcomer = open_silent(1);  // which takes the last
        host.join();
        return heard.status().to_string().find("cannot accept") != std::string::npos;
      },
      std::chrono::milliseconds(200)))
      << heard.status().to_string();
  EXPECT_EQ(heard.code(), Code::timed_out);
}

// As one does that has waited too long for its welcome.
TEST_F(SocketBootstrapTest, pe_that_goes_away_before_all_have_come_may_come_again) {
  Result<std::vector<Bytes>> heard = error(Code::internal, "nothing", "none");
  std::jthread host = start_host(3, heard);
  {
    net::FramedConnection first(
        net::TlsContext::from_token(token_)->client(std::move(open_silent(1).front()), "host"),
        bootstrap_limits(3));
    first.send(net::make_hello(kBootstrapService));
    first.send(encode_bootstrap_words({.pe = 1, .pes = 3, .said = {to_bytes("nobody")}}).value());
    std::size_t budget = 1 << 20;
    ASSERT_TRUE(run::eventually([&] {
      (void)first.flush();
      const auto frame = first.receive(budget);
      return frame.ok() && *frame;
    })) << "it is welcomed";
  }
  Heard visitors(2, error(Code::internal, "nothing", "none"));
  std::vector<std::jthread> threads;
  for (int pe = 1; pe < 3; ++pe)
    threads.emplace_back([&, pe] {
      visitors[static_cast<std::size_t>(pe) - 1] =
          SocketBootstrap(options_of(pe, 3)).all(to_bytes(cat("I am ", pe)));
    });
  threads.clear();
  host.join();
  for (const auto& each : {heard, visitors[0], visitors[1]}) {
    ASSERT_TRUE(each.ok()) << each.status().to_string();
    EXPECT_EQ(*each, (std::vector{Bytes(), to_bytes("I am 1"), to_bytes("I am 2")}));
  }
}

TEST_F(SocketBootstrapTest, who_goes_away_between_two_rounds_is_named) {
  Result<std::vector<Bytes>> second = error(Code::internal, "nothing", "none");
  std::jthread host([&] {
    SocketBootstrap bootstrap(options_of(0, 2));
    ASSERT_TRUE(bootstrap.all({}).ok());
    second = bootstrap.all({});
  });
  EXPECT_TRUE(SocketBootstrap(options_of(1, 2)).all({}).ok());
  host.join();
  EXPECT_EQ(second.code(), Code::peer_lost);
  EXPECT_NE(second.status().message().find("PE 1"), std::string_view::npos);
}

TEST_F(SocketBootstrapTest, a_place_that_is_taken_is_one_of_several) {
  // Somebody else listens at the first one, and never answers.
  const sys::LocalAddress taken{.name = cat(directory_.path(), "/other")};
  const auto other = net::Listener::listen(taken);
  ASSERT_TRUE(other.ok());
  SocketBootstrapOptions host = options_of(0, 2), visitor = options_of(1, 2);
  for (SocketBootstrapOptions* each : {&host, &visitor})
    each->places.emplace(each->places.begin(), taken);
  visitor.until_welcome = std::chrono::milliseconds(50);
  for (const auto& heard : meet({host, visitor}))
    EXPECT_TRUE(heard.ok()) << heard.status().to_string();
}

// Another process that listens where PE 0 will be hears from the others before it has proven
// anything.
TEST_F(SocketBootstrapTest,
       another_listener_learns_nothing_and_does_not_keep_the_others_from_meeting) {
  const sys::LocalAddress taken{.name = cat(directory_.path(), "/other")};
  auto other = net::Listener::listen(taken).value();
  SocketBootstrapOptions host = options_of(0, 2), visitor = options_of(1, 2);
  visitor.places.emplace(visitor.places.begin(), taken);
  visitor.until_welcome = std::chrono::milliseconds(50);
  for (const auto& heard : meet({host, visitor}))
    EXPECT_TRUE(heard.ok()) << heard.status().to_string();
  auto accepted = other.accept();
  ASSERT_TRUE(accepted.ok() && *accepted);
  const auto stream = sys::make_socket_stream(*std::move(accepted));
  Bytes heard(64 * 1024);
  const auto read = stream->read_some(heard);
  ASSERT_TRUE(read.ok());
  ASSERT_GT(read->size_bytes, 0U);
  const std::string_view text = as_text(ConstByteSpan(heard).first(read->size_bytes));
  EXPECT_EQ(text.find(token_.secret()), std::string_view::npos);
  EXPECT_EQ(text.find("I am 1"), std::string_view::npos);
}

}  // namespace
}  // namespace towpath::shmem
