// PEs as processes: the same address everywhere, deaths at random, nothing left behind.
#include <csignal>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/run/eventually.h>
#include <towpath/shmem/collectives.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/testing/pes.h>
#include <towpath/shmem/world_parts.h>
#include <towpath/sys/process.h>
#include <towpath/sys/testing/child.h>
#include <towpath/sys/text_file.h>

namespace towpath::shmem {
namespace {

using testing::as_processes;
using testing::bootstrap_for;
using testing::PesOptions;

constexpr int kFine = 0;
constexpr int kWrong = 1;
constexpr int kReportedOfLoss = 2;

bool ended_with(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

TEST(ShmemProcessTest, addresses_are_the_same_on_all_pes) {
  for (const int status : as_processes({.pes = 3}, [](Context& context) {
         auto address = context.allocate<std::uint64_t>(1);
         address->local()[0] = address_of(address->local().data());
         if (!context.barrier().ok() || !context.has_same_addresses()) return kWrong;
         for (int pe = 0; pe < 3; ++pe)
           if (*address->g({.pe = pe}) != address->local()[0]) return kWrong;
         return context.finalize().ok() ? kFine : kWrong;
       }))
    EXPECT_TRUE(ended_with(status, kFine)) << status;
}

/// One of five things that need the others, in all PEs alike.
Status one_round(Context& context, const SymmetricBuffer<std::uint64_t>& buffer, Lock& lock,
                 std::uint64_t round) {
  const int next = (context.my_pe() + 1) % context.n_pes();
  switch (round % 5) {
    case 0: return context.barrier();
    case 1: return reduce(context.world(), buffer, buffer, {.op = ReduceOp::max, .count = 32});
    case 2: return context.allocate<char>(100).status();
    case 3: {
      Status status = lock.acquire();
      return status.ok() ? lock.release() : status;
    }
    default:
      (void)buffer.put_signal({.pe = next}, {}, {.word = buffer, .index = 63, .value = round});
      return buffer.wait_until(63, {Compare::greater_equal, round}).status();
  }
}

/// Works until it cannot any more; ok never comes.
Status work(Context& context) {
  TOWPATH_TRY(auto buffer, context.allocate_zeroed<std::uint64_t>(64));
  TOWPATH_TRY(auto lock, context.allocate_lock());
  for (std::uint64_t round = 1;; ++round) TOWPATH_TRY(one_round(context, buffer, lock, round));
}

int work_until_reported(Context& context) {
  if (work(context).code() != Code::peer_lost) return kWrong;
  return context.losses().empty() ? kWrong : kReportedOfLoss;
}

TEST(ShmemProcessTest, survivors_are_reported_whenever_a_pe_is_killed) {
  const auto seed = static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 8; ++trial) {
    const int victim = static_cast<int>(random() % 3);
    const auto after_us = static_cast<useconds_t>(1 + random() % 5000);
    const auto statuses = as_processes({.pes = 3}, [&](Context& context) {
      (void)context.barrier();  // all have begun: a death before is another error
      if (context.my_pe() == victim) ::ualarm(after_us, 0);  // SIGALRM ends it, anywhere
      return work_until_reported(context);
    });
    for (int pe = 0; pe < 3; ++pe) {
      if (pe == victim)
        EXPECT_TRUE(WIFSIGNALED(statuses[pe])) << statuses[pe];
      else
        EXPECT_TRUE(ended_with(statuses[pe], kReportedOfLoss))
            << "trial " << trial << " PE " << pe << ": " << statuses[pe];
    }
  }
}

/// PE 1 stops itself; PE 0 lets it go on after `until`.
template <typename Until>
void stop_for_a_while(Context& context, const SymmetricBuffer<int>& pid, const Until& until) {
  if (context.my_pe() == 1) ::raise(SIGSTOP);
  if (context.my_pe() != 0) return;
  const int stopped = *pid.g({.pe = 1});
  EXPECT_TRUE(run::eventually([&] { return *sys::process_is_stopped(stopped); }));
  until();
  ::kill(stopped, SIGCONT);
}

SymmetricBuffer<int> pid_of(Context& context) {
  auto pid = context.allocate<int>(1);
  pid->local()[0] = ::getpid();
  (void)context.barrier();
  return *std::move(pid);
}

TEST(ShmemProcessTest, a_forked_child_is_no_pe) {
  for (const int status : as_processes({.pes = 2}, [](Context& context) {
         auto lock = context.allocate_lock();
         const pid_t child = ::fork();
         if (child == 0) {
           const bool refused = context.barrier().code() == Code::not_ready &&
                                lock->acquire().code() == Code::not_ready &&
                                lock->try_acquire().code() == Code::not_ready &&
                                lock->release().code() == Code::not_ready;
           const bool ended = context.finalize().ok();
           context.underneath()->leave();
           { const Context copy = std::move(context); }
           ::_exit(refused && ended ? kFine : kWrong);
         }
         int child_status = -1;
         ::waitpid(child, &child_status, 0);
         if (!ended_with(child_status, kFine) || !context.barrier().ok()) return kWrong;
         return context.losses().empty() && context.finalize().ok() ? kFine : kWrong;
       }))
    EXPECT_TRUE(ended_with(status, kFine)) << status;
}

TEST(ShmemProcessTest, a_forked_child_lets_go_of_nothing_of_its_pe) {
  auto context = Context::open();
  auto buffer = context->allocate<char>(1);
  ASSERT_TRUE(buffer.ok()) << buffer.status().to_string();
  EXPECT_TRUE(sys::testing::passes_in_child([&] {
    *buffer = {};
    EXPECT_EQ(context->allocate<char>(1).code(), Code::not_ready);
  }));
  const PeRecord& record = context->underneath()->job().pe(0);
  for (const auto& any : record.released_any) EXPECT_EQ(any.load(), 0u) << "others would reuse it";
}

TEST(ShmemProcessTest, a_stopped_pe_is_named_and_hears_that_it_was_given_up) {
  PesOptions pes{.pes = 3};
  pes.context.timeouts.with_stopped = std::chrono::milliseconds(100);
  const auto says = [](const Status& status, const char* why) {
    return status.code() == Code::peer_lost && status.to_string().find(why) != std::string::npos;
  };
  const auto statuses = as_processes(pes, [&](Context& context) {
    const auto pid = pid_of(context);
    bool good = true;
    stop_for_a_while(context, pid, [&] { good = says(context.barrier(), "PE 1 (process"); });
    if (context.my_pe() == 0) return good ? kReportedOfLoss : kWrong;
    const char* const why = context.my_pe() == 1 ? "PE 1, this one, was stopped" : "PE 1 (process";
    return says(context.barrier(), why) ? kReportedOfLoss : kWrong;
  });
  for (const int status : statuses) EXPECT_TRUE(ended_with(status, kReportedOfLoss)) << status;
}

TEST(ShmemProcessTest, a_pe_that_goes_on_in_time_is_waited_for) {
  for (const int status : as_processes({.pes = 3}, [](Context& context) {
         stop_for_a_while(context, pid_of(context), [] {});
         return context.barrier().ok() ? kFine : kWrong;
       }))
    EXPECT_TRUE(ended_with(status, kFine)) << status;
}

/// As a program that a PE starts, and that takes itself for the same PE.
TEST(ShmemProcessTest, a_pe_that_has_begun_is_watched_though_another_process_wants_to_be_it) {
  const JobFiles files = *create_job({.pes = 1, .heap_bytes = testing::kTestHeap});
  const JobView job = *JobView::map(files.control.get());
  auto context = Context::open(bootstrap_for(files, 0));
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const std::uint64_t started = job.pe(0).start_time;
  EXPECT_TRUE(sys::testing::passes_in_child(
      [&] { EXPECT_EQ(Context::open(bootstrap_for(files, 0)).code(), Code::already_exists); }));
  EXPECT_EQ(job.pe(0).pid.load(), static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(job.pe(0).start_time, started);
  EXPECT_TRUE(context->finalize().ok());
}

TEST(ShmemProcessTest, a_pe_that_was_given_up_does_not_pass_for_one_that_has_finalized) {
  const JobFiles files = *create_job({.pes = 1, .heap_bytes = testing::kTestHeap});
  const JobView job = *JobView::map(files.control.get());
  auto context = Context::open(bootstrap_for(files, 0));
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  job.mark(0, PeState::stopped);
  (void)context->finalize();
  EXPECT_EQ(job.pe(0).state.load(), static_cast<std::uint32_t>(PeState::stopped));
}

TEST(ShmemProcessTest, dead_pe_is_named_and_its_memory_can_still_be_read) {
  const auto statuses = as_processes({.pes = 2}, [](Context& context) {
    auto value = context.allocate_zeroed<int>(1);
    value->local()[0] = 7 + context.my_pe();
    if (!context.barrier().ok()) return kWrong;
    if (context.my_pe() == 1) ::raise(SIGKILL);
    const Status status = context.barrier();
    const bool named = status.code() == Code::peer_lost &&
                       status.to_string().find("PE 1 (process") != std::string::npos &&
                       status.to_string().find("died") != std::string::npos;
    return named && *value->g({.pe = 1}) == 8 && context.losses() == std::vector<int>{1} ? kFine
                                                                                         : kWrong;
  });
  EXPECT_TRUE(ended_with(statuses[0], kFine)) << statuses[0];
}

/// As PE 0 of two, to which the kernel answers so when it wants to watch PE 1: how its beginning
/// ends, or its first barrier; PE 1 has `other_code` from these.
void begin_without_watching(int errno_value, Code code, Code other_code) {
  const JobFiles files = *create_job({.pes = 2, .heap_bytes = testing::kTestHeap});
  const auto begin = [&](int pe) {
    auto context = Context::open(bootstrap_for(files, pe));
    const Code ended = context.ok() ? context->barrier().code() : context.code();
    EXPECT_TRUE(!context.ok() || ended != Code::ok || context->losses().empty());
    // Nobody leaves before the other one has counted the losses.
    return ended == Code::ok ? context->finalize().code() : ended;
  };
  const pid_t other = ::fork();
  if (other == 0)
    ::_exit(begin(1) == other_code && !::testing::Test::HasFailure() ? kFine : kWrong);
  const bool is_refused = sys::testing::refuse_calls({SYS_pidfd_open}, errno_value);
  if (is_refused) {
    EXPECT_EQ(begin(0), code);
  } else {
    ::kill(other, SIGKILL);
  }
  int status = -1;
  ::waitpid(other, &status, 0);
  if (!is_refused) GTEST_SKIP() << sys::testing::kNoFilter;
  EXPECT_TRUE(ended_with(status, kFine)) << status;
}

TEST(ShmemProcessTest, a_pe_that_cannot_be_watched_is_not_lost) {
  EXPECT_TRUE(
      sys::testing::passes_in_child([] { begin_without_watching(EPERM, Code::ok, Code::ok); }));
  // What ran out is reported where it did; the others are notified that this one left.
  EXPECT_TRUE(sys::testing::passes_in_child(
      [] { begin_without_watching(EMFILE, Code::exhausted, Code::peer_lost); }));
}

TEST(ShmemProcessTest, a_context_keeps_the_descriptor_of_its_own_heap_alone) {
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  for (const int status : as_processes({.pes = 3}, [&](Context& context) {
         const auto with_it = open_descriptors();
         if (!context.barrier().ok() || !context.finalize().ok()) return kWrong;
         { const Context ended = std::move(context); }
         return with_it - open_descriptors() == 3 ? kFine : kWrong;  // and of two processes
       }))
    EXPECT_TRUE(ended_with(status, kFine)) << status;
}

// Memory without a name goes with the last process that holds it, however that one ends.
TEST(ShmemProcessTest, nothing_is_left_behind) {
  const auto mapped = [](std::string_view what) {
    const std::string maps = *sys::read_text_file("/proc/self/maps", 16U << 20U);
    std::size_t count = 0;
    for (std::size_t at = 0; (at = maps.find(what, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const std::size_t before = mapped("towpath-shmem-");
  const auto statuses = as_processes({.pes = 2}, [&](Context& context) {
    if (!context.barrier().ok()) return kWrong;
    const std::size_t nameless = mapped("/memfd:towpath-shmem-");
    if (nameless < 2 || mapped("towpath-shmem-") != nameless) return kWrong;
    return ::raise(SIGKILL);
  });
  for (const int status : statuses)
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_EQ(mapped("towpath-shmem-"), before);
}

}  // namespace
}  // namespace towpath::shmem
