#include <barrier>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/ucx/testing/real_ucx.h>
#include <towpath/shmem/hosts.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/testing/pes.h>

namespace towpath::shmem::testing {

namespace {

/// Where the threads of one job exchange what they say.
class Table {
 public:
  explicit Table(int pes) : reported_(static_cast<std::size_t>(pes)), all_here_(pes) {}
  std::vector<Bytes> all(int pe, ConstByteSpan mine) {
    reported_[static_cast<std::size_t>(pe)].assign(mine.begin(), mine.end());
    all_here_.arrive_and_wait();
    std::vector<Bytes> heard = reported_;
    all_here_.arrive_and_wait();  // before anybody says something new
    return heard;
  }

 private:
  std::vector<Bytes> reported_;
  std::barrier<> all_here_;
};

class AtTable final : public Exchange {
 public:
  AtTable(Table& table, int pe) : table_(table), pe_(pe) {}
  Result<std::vector<Bytes>> all(ConstByteSpan mine) override { return table_.all(pe_, mine); }

 private:
  Table& table_;
  const int pe_;
};

Result<Bootstrap> bootstrap_at(Table& table, const PesOptions& options, int pe) {
  AtTable exchange(table, pe);
  return bootstrap_over_hosts(exchange, {.my_pe = pe,
                                         .pes = options.pes,
                                         .heap_bytes = options.heap_bytes,
                                         .host = cat("host ", pe % options.hosts),
                                         .network = options.network});
}

}  // namespace

Bootstrap bootstrap_for(const JobFiles& files, int pe) {
  return {.my_pe = pe, .pes = static_cast<int>(files.heaps.size()), .files = *duplicate(files)};
}

std::string name_of(const Engine& engine) {
  return engine ? std::string(to_string(*engine)) : "host";
}

std::string why_not(const Engine& engine) {
  return engine == NetworkEngine::ucx ? net::testing::why_no_ucx() : std::string();
}

NetworkOptions network_with(NetworkEngine engine) {
  return {.engine = engine, .ucx = {.transports = "tcp", .devices = "lo"}};
}

void EngineTest::SetUp() {
  if (const auto why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
}

void EngineTest::as_threads(PesOptions options, const std::function<void(Context&)>& body) {
  options.hosts = GetParam() ? 2 : 1;
  if (GetParam()) options.network = network_with(*GetParam());
  testing::as_threads(options, body);
}

void as_threads(const PesOptions& options, const std::function<void(Context&)>& body) {
  const JobFiles files = *create_job({.pes = options.pes, .heap_bytes = options.heap_bytes});
  Table table(options.pes);
  std::vector<std::jthread> threads;
  for (int pe = 0; pe < options.pes; ++pe) {
    threads.emplace_back([&, pe] {
      auto bootstrap = options.hosts == 1 ? Result<Bootstrap>(bootstrap_for(files, pe))
                                          : bootstrap_at(table, options, pe);
      ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().to_string();
      auto context = Context::open(*std::move(bootstrap), options.context);
      ASSERT_TRUE(context.ok()) << context.status().to_string();
      body(*context);
    });
  }
}

void add_up(int pes, const std::function<Result<Context>(int pe)>& open) {
  std::vector<std::jthread> threads;
  for (int pe = 0; pe < pes; ++pe)
    threads.emplace_back([&, pe] {
      auto context = open(pe);
      ASSERT_TRUE(context.ok()) << context.status().to_string();
      auto sum = context->allocate_zeroed<int>(1);
      ASSERT_TRUE(sum.ok()) << sum.status().to_string();
      EXPECT_TRUE(sum->add({.pe = 0}, pe + 1).ok());
      EXPECT_TRUE(context->barrier().ok());
      EXPECT_EQ(*sum->fetch({.pe = 0}), pes * (pes + 1) / 2);
      EXPECT_TRUE(context->finalize().ok());
    });
}

std::vector<int> as_processes(const PesOptions& options, const std::function<int(Context&)>& body) {
  constexpr unsigned kWatchdogSeconds = 60;
  constexpr int kNotOpened = 99, kFailed = 98;
  const JobFiles files = *create_job({.pes = options.pes, .heap_bytes = options.heap_bytes});
  std::vector<pid_t> children;
  for (int pe = 0; pe < options.pes; ++pe) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kWatchdogSeconds);
      auto context = Context::open(bootstrap_for(files, pe), options.context);
      const int status = context.ok() ? body(*context) : kNotOpened;
      ::_exit(::testing::Test::HasFailure() ? kFailed : status);
    }
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    // Its time was over: one that is stopped does not hear its own alarm.
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
      for (const pid_t other : children) ::kill(other, SIGCONT);
    statuses.push_back(status);
  }
  return statuses;
}

}  // namespace towpath::shmem::testing
