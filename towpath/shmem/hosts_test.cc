// PEs of one process that take each other for processes of other hosts: messages by sockets and
// over UCX.
#include <array>
#include <barrier>
#include <numeric>
#include <optional>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/tls/test_authorities.h>
#include <towpath/shmem/collectives.h>
#include <towpath/shmem/hosts.h>
#include <towpath/shmem/testing/pes.h>
#include <towpath/sys/mapping.h>

namespace towpath::shmem {
namespace {

struct Way {
  NetworkEngine engine = NetworkEngine::tcp;
  bool encrypted = false;
  bool by_certificates = false;
};

/// By sockets, by sockets in TLS of either kind, and over UCX.
class HostsTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (const auto why = testing::why_not(GetParam().engine); !why.empty()) GTEST_SKIP() << why;
    if (!GetParam().by_certificates) return;
    if (const auto why = net::TestAuthorities::why_not(); !why.empty()) GTEST_SKIP() << why;
    certificates_ = authorities_.emplace().issue("pe", "ca", "IP:127.0.0.1");
  }
  NetworkOptions network() const {
    NetworkOptions options = testing::network_with(GetParam().engine);
    options.encrypted = GetParam().encrypted;
    options.certificates = certificates_;
    return options;
  }

  std::optional<net::TestAuthorities> authorities_;
  net::TlsCertificates certificates_;
};

INSTANTIATE_TEST_SUITE_P(Over, HostsTest,
                         ::testing::Values(Way{NetworkEngine::tcp}, Way{NetworkEngine::tcp, true},
                                           Way{NetworkEngine::tcp, true, true},
                                           Way{NetworkEngine::ucx}),
                         [](const auto& way) {
                           return cat(to_string(way.param.engine),
                                      way.param.encrypted ? "_tls" : "",
                                      way.param.by_certificates ? "_certificates" : "");
                         });

TEST_P(HostsTest, puts_and_gets_of_every_size_arrive) {
  testing::as_threads({.pes = 2, .hosts = 2, .network = network()}, [](Context& context) {
    const int other = 1 - context.my_pe();
    auto bytes = context.allocate_zeroed<std::uint8_t>(1 << 20);
    ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
    EXPECT_EQ(bytes->ptr(other), nullptr);
    std::vector<std::uint8_t> sent(1 << 20), back(1 << 20);
    std::iota(sent.begin(), sent.end(), static_cast<std::uint8_t>(context.my_pe()));
    for (const std::size_t size :
         {0UL, 1UL, 8UL, 4096UL, 128UL << 10U, (128UL << 10U) + 1, 1UL << 20U}) {
      ASSERT_TRUE(bytes->put({.pe = other}, std::span(sent).first(size)).ok());
      context.quiet();
      ASSERT_TRUE(bytes->get(std::span(back).first(size), {.pe = other}).ok());
      EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + size, back.begin())) << size;
    }
    EXPECT_TRUE(context.finalize().ok());
  });
}

/// The connections are its parent's: what it said there would be taken for the parent's next words.
TEST_P(HostsTest, a_forked_child_does_not_speak_for_its_pe) {
  testing::as_threads({.pes = 2, .hosts = 2, .network = network()}, [](Context& context) {
    auto words = context.allocate_zeroed<std::uint64_t>(2);
    ASSERT_TRUE(words.ok()) << words.status().to_string();
    if (context.my_pe() == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        const auto is_refused = [](const Status& status) {
          return status.code() == Code::not_ready;
        };
        const bool are_refused =
            is_refused(words->p({.pe = 1}, 5)) && is_refused(words->g({.pe = 1}).status()) &&
            is_refused(words->inc({.pe = 1})) && is_refused(words->fetch_inc({.pe = 1}).status());
        context.quiet();
        ::_exit(are_refused ? 0 : 1);
      }
      int status = -1;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
      EXPECT_TRUE(words->p({.pe = 1, .index = 1}, 7).ok());
    }
    ASSERT_TRUE(context.barrier().ok());
    EXPECT_EQ(words->local()[0], 0u);
    EXPECT_EQ(words->local()[1], context.my_pe() == 1 ? 7u : 0u);
    EXPECT_TRUE(context.finalize().ok());
  });
}

TEST_P(HostsTest, get_into_memory_that_cannot_be_written_is_refused_by_name) {
  testing::as_threads({.pes = 2, .hosts = 2, .network = network()}, [](Context& context) {
    constexpr std::size_t kBytes = 1 << 20;
    const int other = 1 - context.my_pe();
    auto bytes = context.allocate_zeroed<std::uint8_t>(kBytes);
    ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
    auto memory = sys::Mapping::anonymous(kBytes);
    ASSERT_TRUE(memory.ok());
    ASSERT_EQ(::mprotect(memory->data(), kBytes, PROT_READ), 0);
    const std::span into(reinterpret_cast<std::uint8_t*>(memory->data()), kBytes);
    for (const std::size_t size : {std::size_t{8}, std::size_t{4096}, kBytes}) {
      const Status refused = bytes->get(into.first(size), {.pe = other});
      EXPECT_EQ(refused.code(), Code::out_of_range) << size;
      EXPECT_EQ(refused.message(),
                cat("what PE ", other, " answers to a get cannot be written there"));
    }
    std::vector<std::uint8_t> back(64, 7);
    EXPECT_TRUE(bytes->get(back, {.pe = other}).ok());
    EXPECT_EQ(back, std::vector<std::uint8_t>(64));
    EXPECT_TRUE(context.finalize().ok());
  });
}

TEST_P(HostsTest, pes_of_two_hosts_meet_by_an_identifier) {
  const UniqueId id = UniqueId::create();
  testing::add_up(3, [&](int pe) -> Result<Context> {
    TOWPATH_TRY(auto bootstrap, bootstrap_by_id(id, {.my_pe = pe,
                                                     .pes = 3,
                                                     .heap_bytes = 1 << 20,
                                                     .files = {},
                                                     .host = cat("host ", pe % 2),
                                                     .network = network()}));
    EXPECT_EQ(bootstrap.hosts, (std::vector<std::uint32_t>{0, 1, 0}));
    return Context::open(std::move(bootstrap));
  });
}

/// One round of three PEs; in a second one there is nobody. PE 2 goes away after the first.
class OneRound final : public Exchange {
 public:
  struct Table {
    std::array<Bytes, 3> reported;
    std::barrier<> all_here{3};
  };
  OneRound(Table& table, int pe) : table_(table), pe_(pe) {}
  Result<std::vector<Bytes>> all(ConstByteSpan mine) override {
    const Status gone = error(Code::unavailable, "nobody is there");
    if (std::exchange(is_over_, true)) return gone;
    table_.reported[static_cast<std::size_t>(pe_)].assign(mine.begin(), mine.end());
    table_.all_here.arrive_and_wait();
    if (pe_ == 2) return gone;
    return std::vector<Bytes>(table_.reported.begin(), table_.reported.end());
  }

 private:
  Table& table_;
  const int pe_;
  bool is_over_ = false;
};

TEST(HostsErrorTest, pes_of_a_host_that_do_not_come_are_named_by_their_own_numbers) {
  OneRound::Table table;
  std::vector<std::jthread> pes;
  for (int pe = 0; pe < 3; ++pe)
    pes.emplace_back([&, pe] {
      OneRound exchange(table, pe);
      const Status ended =
          bootstrap_over_hosts(exchange, {.my_pe = pe,
                                          .pes = 3,
                                          .heap_bytes = 1 << 20,
                                          .host = cat("host ", pe % 2),
                                          .timeout = std::chrono::milliseconds(100),
                                          .network = testing::network_with(NetworkEngine::tcp)})
              .status();
      EXPECT_FALSE(ended.ok());
      if (pe == 0) {
        EXPECT_EQ(ended.code(), Code::timed_out);
        EXPECT_NE(ended.message().find("PEs 0, 2 of one host"), std::string::npos)
            << ended.to_string();
      }
    });
}

TEST(NetworkTest, all_use_what_one_asks_for_and_ucx_only_where_all_have_rdma) {
  using Wishes = std::vector<NetworkWish>;
  constexpr auto tcp = NetworkEngine::tcp, ucx = NetworkEngine::ucx;
  const NetworkWish nothing, rdma{.has_rdma = true};
  EXPECT_EQ(agree_on_network(Wishes{nothing, nothing})->engine, tcp);
  EXPECT_EQ(agree_on_network(Wishes{rdma, rdma})->engine, ucx);
  EXPECT_EQ(agree_on_network(Wishes{rdma, nothing})->engine, tcp);
  EXPECT_EQ(agree_on_network(Wishes{nothing, {.engine = ucx}})->engine, ucx);
  EXPECT_EQ(agree_on_network(Wishes{rdma, {.engine = tcp, .has_rdma = true}})->engine, tcp);
  const auto encrypted = agree_on_network(Wishes{rdma, {.has_rdma = true, .encrypted = true}});
  EXPECT_EQ(encrypted->engine, tcp);
  EXPECT_TRUE(encrypted->encrypted);
  EXPECT_EQ(agree_on_network(Wishes{{.engine = tcp}, nothing, {.engine = ucx}}).status().message(),
            "PE 0 asks for tcp and PE 2 for ucx");
  EXPECT_EQ(agree_on_network(Wishes{{.engine = ucx}, {.encrypted = true}}).status().message(),
            "PE 1 asks for encryption, and PE 0 for ucx, which does not encrypt");
}

TEST(NetworkTest, a_pe_without_a_network_is_reported_to_all) {
  if (const auto why = testing::why_not(NetworkEngine::ucx); !why.empty()) GTEST_SKIP() << why;
  const UniqueId id = UniqueId::create();
  std::vector<std::jthread> pes;
  for (int pe = 0; pe < 2; ++pe)
    pes.emplace_back([&, pe] {
      const char* transports = pe == 0 ? "tcp" : "nothing of this name";
      const auto bootstrap = bootstrap_by_id(
          id, {.my_pe = pe,
               .pes = 2,
               .heap_bytes = 1 << 20,
               .files = {},
               .host = cat("host ", pe),
               .network = {.engine = NetworkEngine::ucx, .ucx = {.transports = transports}}});
      EXPECT_FALSE(bootstrap.ok());
      if (pe != 0) return;
      EXPECT_EQ(bootstrap.status().message(), "PE 1 has no way to other hosts");
    });
}

}  // namespace
}  // namespace towpath::shmem
