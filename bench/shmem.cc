// Symmetric memory between two processes: what a put, a get, an atomic operation and a barrier
// cost, beside the same done by hand on memory that both map, or beside Open MPI's OSHMEM as
// recorded.
#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/shmem/collectives.h>
#include <towpath/shmem/context.h>
#include <towpath/shmem/job.h>
#include <towpath/sys/clock.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

using shmem::Compare;
using shmem::Context;
using shmem::SymmetricBuffer;

constexpr std::uint64_t kLargest = 64 * kMiB;
constexpr std::uint64_t kHeap = 2 * kLargest + 64 * kMiB;

/// What PE 0 asks PE 1 to take part in; between two barriers.
enum class Part : std::uint64_t { end, barriers, pings, reductions };

struct Request {
  Part part = Part::end;
  std::uint64_t times = 0;
};

/// One side of the pair.
class Side {
 public:
  explicit Side(Context context)
      : context_(std::move(context)),
        request_(must(context_.allocate_zeroed<Request>(1))),
        word_(must(context_.allocate_zeroed<std::uint64_t>(8))),
        value_(must(context_.allocate_zeroed<double>(1))),
        data_(must(context_.allocate<std::byte>(kLargest))) {}

  Context& context() { return context_; }
  SymmetricBuffer<std::uint64_t>& word() { return word_; }
  SymmetricBuffer<std::byte>& data() { return data_; }

  /// PE 0: both take part, so many times.
  void together(Part part, std::uint64_t times) {
    must(request_.p({.pe = 1}, {.part = part, .times = times}));
    must(context_.barrier());
    take_part({.part = part, .times = times});
  }
  /// PE 1: takes part until the end.
  void serve() {
    Request request;
    do {
      must(context_.barrier());
      request = request_.local()[0];  // PE 0 may write the next one as soon as it has its part
      take_part(request);
    } while (request.part != Part::end);
  }

 private:
  void take_part(const Request& request) {
    for (std::uint64_t time = 0; time < request.times; ++time) {
      switch (request.part) {
        case Part::barriers: must(context_.barrier()); break;
        case Part::pings: ping(); break;
        case Part::reductions:
          must(shmem::reduce(context_.world(), value_, value_, {.count = 1}));
          break;
        case Part::end: break;
      }
    }
  }
  /// There and back, once: PE 0 begins.
  void ping() {
    const int self = context_.my_pe();
    const std::uint64_t next = ++pings_;
    if (self == 1) must(word_.wait_until(0, {Compare::equal, next}));
    must(word_.p({.pe = 1 - self}, next));
    if (self == 0) must(word_.wait_until(0, {Compare::equal, next}));
  }

  Context context_;
  SymmetricBuffer<Request> request_;
  SymmetricBuffer<std::uint64_t> word_;
  SymmetricBuffer<double> value_;
  SymmetricBuffer<std::byte> data_;
  std::uint64_t pings_ = 0;
};

/// OSHMEM 4.1.4 (Debian 12), two PEs of one host, calm machine: nanoseconds.
struct Recorded {
  std::uint64_t bytes;
  double put_ns, get_ns;
};
constexpr Recorded kOshmem[] = {{8, 40, 29}, {64, 40, 29}, {512, 56, 36}, {4096, 106, 86}};

void measure_small(Bench& bench, const Clock& clock, Side& side) {
  std::vector<Case> puts, gets;
  const auto local = std::make_shared<std::vector<std::byte>>(4096);
  for (const Recorded& recorded : kOshmem) {
    const auto bytes = std::span(*local).first(recorded.bytes);
    const auto put = [&side, local, bytes](std::uint64_t times) {
      while (times-- > 0) {
        must(side.data().put({.pe = 1}, bytes));
        side.context().quiet();
      }
    };
    const auto get = [&side, local, bytes](std::uint64_t times) {
      while (times-- > 0) must(side.data().get(bytes, {.pe = 1}));
    };
    const Aim aim = recorded.bytes == 8 ? Aim{.value_at_most = 10} : Aim{};
    const std::string name = format_bytes(recorded.bytes);
    puts.push_back(
        {.name = name, .ours = timed(clock, {put}), .recorded = recorded.put_ns, .aim = aim});
    gets.push_back(
        {.name = name, .ours = timed(clock, {get}), .recorded = recorded.get_ns, .aim = aim});
  }
  bench.measure({"put and quiet", "SymmetricBuffer::put, then quiet", "OSHMEM, recorded"}, puts);
  bench.measure({"get", "SymmetricBuffer::get", "OSHMEM, recorded"}, gets);
}

void measure_large(Bench& bench, const Clock& clock, Side& side) {
  std::vector<Case> cases;
  const auto local = std::make_shared<std::vector<std::byte>>(kLargest, std::byte{1});
  for (std::uint64_t size = 64 * kKiB; size <= kLargest; size *= 4) {
    const auto put = [&side, local, size](std::uint64_t times) {
      while (times-- > 0) must(side.data().put({.pe = 1}, std::span(*local).first(size)));
    };
    const auto copy = [&side, local, size](std::uint64_t times) {
      while (times-- > 0) std::memcpy(side.data().ptr(1), local->data(), size);
    };
    const auto units = static_cast<double>(size);
    cases.push_back({.name = format_bytes(size),
                     .shown = Shown::gigabytes_per_second,
                     .ours = timed(clock, {put, units}),
                     .reference = timed(clock, {copy, units}),
                     .aim = {.ratio_at_least = 0.95}});
  }
  bench.measure({"put, large", "SymmetricBuffer::put", "memcpy to the same place"}, cases);
}

void measure_together(Bench& bench, const Clock& clock, Side& side) {
  const auto with = [&](Part part) {
    // So many at a time that PE 1's waking up for the first of them does not count.
    constexpr std::uint64_t kAtATime = 5000;
    const auto body = [&side, part](std::uint64_t times) {
      while (times-- > 0) side.together(part, kAtATime);
    };
    return timed(clock, {body, kAtATime});
  };
  const auto add = [&side](std::uint64_t times) {
    while (times-- > 0) must(side.word().fetch_add({.pe = 1, .index = 4}, 1));
  };
  std::vector<Case> cases;
  cases.push_back({.name = "fetch_add",
                   .ours = timed(clock, {add}),
                   .recorded = 26,
                   .aim = {.value_at_most = 15}});
  cases.push_back({.name = "barrier of 2",
                   .ours = with(Part::barriers),
                   .recorded = 460,
                   .aim = {.value_at_most = 200}});
  cases.push_back({.name = "8 bytes there and back",
                   .ours = with(Part::pings),
                   .recorded = 420,
                   .aim = {.value_at_most = 220}});
  cases.push_back({.name = "reduce of 1 double", .ours = with(Part::reductions), .recorded = 510});
  bench.measure({"together", "two processes", "OSHMEM, recorded"}, cases);
}

Context open(const shmem::JobFiles& files, int pe) {
  return must(Context::open({.my_pe = pe, .pes = 2, .files = must(duplicate(files))}));
}

int run(Options options) {
  const shmem::JobFiles files = must(shmem::create_job({.pes = 2, .heap_bytes = kHeap}));
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Side(open(files, 1)).serve();
    ::_exit(0);
  }
  int status = 0;
  {
    const sys::SystemClock clock;
    Bench bench(std::move(options));
    Side side(open(files, 0));
    measure_small(bench, clock, side);
    measure_large(bench, clock, side);
    measure_together(bench, clock, side);
    side.together(Part::end, 0);
    status = bench.finish();
  }
  ::waitpid(child, nullptr, 0);
  return status;
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options = towpath::bench::parse("What symmetric memory costs between two processes.",
                                       {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
