#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/shmem/testing/pes.h>

namespace towpath::shmem::testing {

Bootstrap bootstrap_for(const JobFiles& files, int pe) {
  return {.my_pe = pe, .pes = static_cast<int>(files.heaps.size()), .files = *duplicate(files)};
}

void as_threads(const PesOptions& options, const std::function<void(Context&)>& body) {
  const JobFiles files = *create_job({.pes = options.pes, .heap_bytes = options.heap_bytes});
  std::vector<std::jthread> threads;
  for (int pe = 0; pe < options.pes; ++pe) {
    threads.emplace_back([&, pe] {
      auto context = Context::open(bootstrap_for(files, pe), options.context);
      ASSERT_TRUE(context.ok()) << context.status().to_string();
      body(*context);
    });
  }
}

std::vector<int> as_processes(const PesOptions& options, const std::function<int(Context&)>& body) {
  constexpr unsigned kWatchdogSeconds = 60;
  const JobFiles files = *create_job({.pes = options.pes, .heap_bytes = options.heap_bytes});
  std::vector<pid_t> children;
  for (int pe = 0; pe < options.pes; ++pe) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kWatchdogSeconds);
      auto context = Context::open(bootstrap_for(files, pe), options.context);
      ::_exit(context.ok() ? body(*context) : 99);
    }
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    statuses.push_back(status);
  }
  return statuses;
}

}  // namespace towpath::shmem::testing
