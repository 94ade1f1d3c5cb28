#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/memory/system_region.h>
#include <towpath/rendezvous/etcd_rendezvous.h>
#include <towpath/rendezvous/in_process.h>
#include <towpath/run/eventually.h>
#include <towpath/run/waker.h>
#include <towpath/standard/metadata_exchange.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/text_file.h>

namespace towpath::standard {
namespace {

using run::eventually;
using What = ExchangeOutcome::What;

// An agent with memory, and its exchange.
struct Side {
  std::unique_ptr<Node> node;
  std::shared_ptr<memory::Region> region;
  memory::Registration registration;
  std::unique_ptr<MetadataExchange> metadata;
};

// A store that reports its death, and what is published.
class DyingStore final : public rendezvous::Rendezvous {
 public:
  using Heard = std::function<void(ConstByteSpan)>;
  explicit DyingStore(std::function<void()> dies, Heard hears = {})
      : dies_(std::move(dies)), hears_(std::move(hears)) {}
  ~DyingStore() override { dies_(); }
  Status publish(const rendezvous::MetadataName&, ConstByteSpan metadata) override {
    if (hears_) hears_(metadata);
    return {};
  }
  Status withdraw(const rendezvous::MetadataName&) override { return {}; }
  Result<rendezvous::FetchId> fetch(const rendezvous::MetadataName&, run::Deadline,
                                    rendezvous::FetchDone) override {
    return 1;
  }
  void cancel(rendezvous::FetchId) override {}
  void watch(rendezvous::ChangeSeen) override {}
  std::size_t progress() override { return 0; }
  int wait_fd() const noexcept override { return waker_->fd(); }

 private:
  std::function<void()> dies_;
  Heard hears_;
  std::unique_ptr<run::Waker> waker_ = run::Waker::open().value();
};

class MetadataExchangeTest : public testing::Test {
 protected:
  Side make(const std::string& name, MetadataExchangeOptions options = {}) {
    Side side;
    side.node = Node::open({.name = name, .backends = {"shm"}, .progress_thread = false}).value();
    options.agent = &side.node->agent();
    options.clock = &clock;
    options.security.token = token;
    options.security.shared_token_file = shared_token;
    side.metadata = MetadataExchange::open(std::move(options)).value();
    return side;
  }
  MetadataExchangeOptions listening() {
    MetadataExchangeOptions options;
    options.listen = net::TcpAddress{"127.0.0.1", 0};
    return options;
  }
  MetadataExchangeOptions with_store() {
    MetadataExchangeOptions options;
    options.store = rendezvous::InProcess::open(directory).value();
    return options;
  }
  // The next outcome of `side`, while both work.
  ExchangeOutcome next(Side& side, Side& other) {
    std::vector<ExchangeOutcome> outcomes;
    EXPECT_TRUE(eventually([&] {
      side.metadata->progress();
      other.metadata->progress();
      outcomes = side.metadata->take_outcomes();
      return !outcomes.empty();
    }));
    EXPECT_EQ(outcomes.size(), 1U);
    return outcomes.empty() ? ExchangeOutcome() : outcomes[0];
  }

  // The code with which user 65534 is refused the metadata of who listens at `where`.
  int steal(const net::Address& where) {
    if (setresuid(65534, 65534, 65534) != 0) return -1;
    const net::TlsProvider tls = tls_provider({.shared_token_file = shared_token});
    auto client = rendezvous::PeerClient::open({.tls = tls}, clock).value();
    std::optional<Status> answer;
    const auto asked = client->fetch(where, "there", run::Deadline::never(),
                                     [&](const auto& metadata) { answer = metadata.status(); });
    while (asked.ok() && !answer) client->progress();
    return static_cast<int>(asked.ok() ? answer->code() : asked.code());
  }

  // The metrics of `here`: the name, then the values of what and status.
  std::map<std::string, std::int64_t> reported() const {
    std::map<std::string, std::int64_t> all;
    for (const telemetry::Metric& metric : metrics.snapshot()) {
      std::string key = metric.name;
      for (const auto* name : {"what", "status"})
        for (const auto& label : metric.labels)
          if (label.name == name) key += " " + label.value;
      const auto* const count = std::get_if<std::uint64_t>(&metric.value);
      all[key] = count != nullptr ? static_cast<std::int64_t>(*count)
                                  : std::get<std::int64_t>(metric.value);
    }
    return all;
  }

  telemetry::Metrics metrics;
  sys::SystemClock clock;
  std::optional<net::Token> token;
  const sys::TemporaryDirectory runtime = sys::TemporaryDirectory::create().value();
  const std::string shared_token = runtime.file("towpath/token");
  std::shared_ptr<rendezvous::Directory> directory = std::make_shared<rendezvous::Directory>();
};

TEST_F(MetadataExchangeTest, metadata_go_to_and_come_from_an_address) {
  token = net::Token::make("a secret of both").value();
  Side here = make("here");
  Side there = make("there", listening());
  const auto door = there.metadata->listening_at();
  EXPECT_FALSE(here.metadata->listening_at().has_value());
  ASSERT_TRUE(here.metadata->fetch("there", door).ok());
  EXPECT_TRUE(next(here, there).status.ok());
  EXPECT_TRUE(here.node->agent().check_peer("there").ok());
  ASSERT_TRUE(here.metadata->send({}, door).ok());
  EXPECT_TRUE(next(here, there).status.ok());
  EXPECT_TRUE(there.node->agent().check_peer("here").ok());
  EXPECT_EQ(there.metadata->take_outcomes()[0].what, What::brought);
  ASSERT_TRUE(here.metadata->invalidate(door).ok());
  EXPECT_EQ(next(here, there).what, What::invalidated);
  EXPECT_EQ(there.node->agent().check_peer("here").code(), Code::not_found);
}

TEST_F(MetadataExchangeTest, agents_of_one_user_find_their_token_by_themselves) {
  Side here = make("here");
  Side there = make("there", listening());
  ASSERT_TRUE(here.metadata->fetch("there", there.metadata->listening_at()).ok());
  EXPECT_TRUE(next(here, there).status.ok());
  MetadataExchangeOptions wide;
  wide.agent = &here.node->agent();
  wide.clock = &clock;
  wide.listen = net::TcpAddress{"0.0.0.0", 0};
  wide.security.shared_token_file = shared_token;
  EXPECT_EQ(MetadataExchange::open(std::move(wide)).code(), Code::denied)
      << "other machines cannot know this token";
}

// As any process of the host could, before the listener asked for a proof.
TEST_F(MetadataExchangeTest, process_of_another_user_cannot_have_the_metadata) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  ASSERT_EQ(::chmod(runtime.path().c_str(), 0755), 0);
  Side there = make("there", listening());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(steal(*there.metadata->listening_at()));
  std::optional<int> ended;
  EXPECT_TRUE(eventually([&] {
    there.metadata->progress();
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) ended = WEXITSTATUS(status);
    return ended.has_value();
  }));
  EXPECT_EQ(ended.value_or(-1), static_cast<int>(Code::denied));
}

TEST_F(MetadataExchangeTest, call_is_accepted_and_its_failure_is_an_outcome) {
  Side here = make("here");
  Side there = make("there", listening());
  const auto door = there.metadata->listening_at();
  there.metadata.reset();
  there = make("there", listening());
  ASSERT_TRUE(here.metadata->send({}, door).ok()) << "nobody listens, which is heard later";
  const ExchangeOutcome sent = next(here, there);
  EXPECT_EQ(sent.status.code(), Code::unavailable);
  EXPECT_EQ(sent.place, net::to_string(*door));
  MetadataExchangeOptions hasty;
  hasty.timeout = std::chrono::milliseconds(20);
  Side third = make("third", std::move(hasty));
  ASSERT_TRUE(third.metadata->fetch("another", there.metadata->listening_at()).ok());
  EXPECT_FALSE(next(third, there).status.ok());
  EXPECT_EQ(here.metadata->send().code(), Code::invalid_argument) << "no store";
  EXPECT_EQ(here.metadata->fetch("there").code(), Code::invalid_argument);
  EXPECT_EQ(here.metadata->invalidate().code(), Code::invalid_argument);
  EXPECT_EQ(MetadataExchange::open({}).code(), Code::invalid_argument);
}

// The lookup of its name fails before a request begins, so that no request's deadline ends it.
TEST_F(MetadataExchangeTest, fetch_by_a_name_that_does_not_resolve_ends) {
  MetadataExchangeOptions hasty;
  hasty.timeout = std::chrono::milliseconds(20);
  Side here = make("here", std::move(hasty));
  Side there = make("there");
  ASSERT_TRUE(here.metadata->fetch("there", net::TcpAddress{"nothing.invalid", 1}).ok());
  const ExchangeOutcome outcome = next(here, there);
  EXPECT_EQ(outcome.what, What::fetched);
  EXPECT_TRUE(outcome.status.code() == Code::not_found ||
              outcome.status.code() == Code::unavailable)  // without a name service
      << outcome.status.to_string();
  here.metadata->progress();
  EXPECT_TRUE(here.metadata->take_outcomes().empty());
}

TEST_F(MetadataExchangeTest, store_is_followed_until_the_peer_withdraws) {
  Side here = make("here", with_store());
  Side there = make("there", with_store());
  ASSERT_TRUE(here.metadata->fetch("there").ok()) << "before it is published";
  here.metadata->progress();
  ASSERT_TRUE(there.metadata->send().ok());
  EXPECT_TRUE(next(here, there).status.ok());
  EXPECT_TRUE(here.node->agent().check_peer("there").ok());
  ASSERT_TRUE(there.metadata->send().ok());
  EXPECT_EQ(next(here, there).what, What::brought);
  ASSERT_TRUE(there.metadata->invalidate().ok());
  EXPECT_EQ(next(here, there).what, What::withdrawn);
  EXPECT_EQ(here.node->agent().check_peer("there").code(), Code::not_found);
}

TEST_F(MetadataExchangeTest, store_dies_before_what_it_may_call) {
  int wait_fd = -1;
  bool is_open = false;  // the poller, which stands for all that the exchange has
  MetadataExchangeOptions options;
  options.store = std::make_unique<DyingStore>([&] { is_open = fcntl(wait_fd, F_GETFD) != -1; });
  Side here = make("here", std::move(options));
  wait_fd = here.metadata->wait_fd();
  here.metadata.reset();
  EXPECT_TRUE(is_open);
}

// Else who was overtaken would leave there what was before another's newer one.
TEST_F(MetadataExchangeTest, what_is_sent_is_what_stands_when_its_turn_comes) {
  std::atomic<int> published{0};
  std::atomic<pid_t> sender{0};
  std::atomic<bool> may_go_on{false};
  const auto waits_for_its_turn = [&] {
    const auto stat = sys::read_text_file(cat("/proc/self/task/", sender.load(), "/stat"));
    return stat.ok() && stat->find(") S ") != std::string::npos;
  };
  Bytes last;
  MetadataExchangeOptions options;
  options.store =
      std::make_unique<DyingStore>([] {},
                                   [&](ConstByteSpan metadata) {
                                     if (++published == 1) {
                                       EXPECT_TRUE(eventually([&] { return may_go_on.load(); }));
                                     }
                                     last.assign(metadata.begin(), metadata.end());
                                   });
  Side here = make("here", std::move(options));
  std::thread first([&] { EXPECT_TRUE(here.metadata->send().ok()); });
  EXPECT_TRUE(eventually([&] { return published == 1; }));
  std::thread second([&] {
    sender = gettid();
    EXPECT_TRUE(here.metadata->send().ok());
  });
  EXPECT_TRUE(eventually(waits_for_its_turn));
  here.region = *memory::SystemRegion::allocate(4096);
  here.registration = *here.node->agent().register_region(here.region);
  may_go_on = true;
  first.join();
  second.join();
  EXPECT_EQ(published, 2);
  EXPECT_EQ(last, *here.node->agent().metadata());
}

TEST_F(MetadataExchangeTest, outcomes_and_the_store_are_counted) {
  MetadataExchangeOptions counted = with_store();
  counted.metrics = &metrics;
  counted.timeout = std::chrono::milliseconds(20);
  Side here = make("here", std::move(counted));
  Side there = make("there", with_store());
  EXPECT_EQ(reported(), (std::map<std::string, std::int64_t>{{"towpath_metadata_store_pending", 0},
                                                             {"towpath_metadata_store_up", 1}}));
  ASSERT_TRUE(there.metadata->send().ok());
  ASSERT_TRUE(here.metadata->fetch("there").ok());
  EXPECT_TRUE(next(here, there).status.ok());
  ASSERT_TRUE(here.metadata->fetch({"there", "no such part"}).ok());
  EXPECT_EQ(next(here, there).status.code(), Code::not_found);
  EXPECT_EQ(reported()["towpath_metadata_total fetched ok"], 1);
  EXPECT_EQ(reported()["towpath_metadata_total fetched not_found"], 1);
  EXPECT_TRUE(here.metadata->standing().trouble.ok());
}

TEST_F(MetadataExchangeTest, store_in_trouble_is_reported) {
  rendezvous::EtcdOptions nobody;
  nobody.client.endpoints = {"http://127.0.0.1:1"};
  MetadataExchangeOptions counted;
  counted.store = rendezvous::EtcdRendezvous::open(std::move(nobody), clock).value();
  counted.metrics = &metrics;
  Side here = make("here", std::move(counted));
  ASSERT_TRUE(here.metadata->send().ok()) << "accepted; it is brought when the store is there";
  EXPECT_EQ(here.metadata->standing().pending, 1U);
  EXPECT_EQ(reported()["towpath_metadata_store_pending"], 1);
  ASSERT_TRUE(eventually([&] {
    here.metadata->progress();
    return !here.metadata->standing().trouble.ok();
  }));
  EXPECT_EQ(here.metadata->standing().trouble.code(), Code::unavailable);
  EXPECT_EQ(reported()["towpath_metadata_store_up"], 0);
  Side alone = make("alone");
  EXPECT_TRUE(alone.metadata->standing().trouble.ok()) << "no store, no trouble";
}

TEST_F(MetadataExchangeTest, parts_stand_under_labels) {
  Side here = make("here", with_store());
  Side there = make("there", with_store());
  const DescriptorList none(MemoryKind::system);
  EXPECT_EQ(there.metadata->send({.only = &none}).code(), Code::invalid_argument);
  ASSERT_TRUE(there.metadata->send({.only = &none, .label = "how to connect"}).ok());
  ASSERT_TRUE(here.metadata->fetch({"there", "how to connect"}).ok());
  EXPECT_TRUE(next(here, there).status.ok());
  EXPECT_TRUE(here.node->agent().check_peer("there").ok());
}

TEST_F(MetadataExchangeTest, thread_does_the_work) {
  Side here = make("here");
  Side there = make("there", listening());
  ASSERT_TRUE(here.metadata->start_thread().ok());
  ASSERT_TRUE(there.metadata->start_thread().ok());
  ASSERT_TRUE(here.metadata->fetch("there", there.metadata->listening_at()).ok());
  EXPECT_TRUE(eventually([&] { return here.node->agent().check_peer("there").ok(); }));
}

}  // namespace
}  // namespace towpath::standard
