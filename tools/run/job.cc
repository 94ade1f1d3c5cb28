#include "tools/run/job.h"

#include <algorithm>
#include <csignal>
#include <numeric>

#include <fcntl.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/token.h>
#include <towpath/standard/shmem_environment.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/numa.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/text_file.h>

#include "tools/command.h"
#include "tools/run/signals.h"

namespace towpath::tools {
namespace {

constexpr Duration kBetweenLooks = std::chrono::milliseconds(200);

Result<Part> part_of(const JobOptions& options) {
  if (options.part.empty()) return Part{.pes = options.pes};
  const std::size_t slash = options.part.find('/');
  const auto first = sys::parse_number(options.part.substr(0, slash));
  const auto pes =
      slash == std::string::npos ? first : sys::parse_number(options.part.substr(slash + 1));
  if (!first || !pes || *pes > shmem::kMaxPes || *first + static_cast<unsigned>(options.pes) > *pes)
    return error(Code::invalid_argument, cat("--part ", printable(options.part)),
                 "it is for `towpath run --hosts` only");
  return Part{.first = static_cast<int>(*first), .pes = static_cast<int>(*pes)};
}

Status check_nodes(const std::vector<unsigned>& wanted) {
  if (wanted.empty()) return {};
  TOWPATH_TRY(const auto nodes, sys::numa_nodes());
  for (const unsigned node : wanted)
    if (std::ranges::count(nodes, node, &sys::NumaNode::id) == 0)
      return error(Code::not_found, cat("there is no NUMA node ", node),
                   cat("the last one is ", nodes.back().id));
  return {};
}

}  // namespace

Result<int> Job::run() {
  TOWPATH_TRY(const std::uint64_t heap_bytes, parse_bytes(options_.heap));
  TOWPATH_TRY(const sys::HugePages huge_pages, standard::parse_huge_pages(options_.huge_pages));
  TOWPATH_TRY(check_nodes(options_.nodes));
  TOWPATH_TRY(part_, part_of(options_));
  TOWPATH_TRY(files_, shmem::create_job({.pes = part_.pes,
                                         .heap_bytes = heap_bytes,
                                         .heaps = options_.pes,
                                         .huge_pages = huge_pages}));
  std::vector<std::uint32_t> here(static_cast<std::size_t>(options_.pes));
  std::iota(here.begin(), here.end(), static_cast<std::uint32_t>(part_.first));
  files_ = shmem::spread(std::move(files_), here, static_cast<std::uint32_t>(part_.pes));
  TOWPATH_TRY(view_, shmem::JobView::map(files_.control.get()));
  TOWPATH_TRY(poller_, run::Poller::open());
  TOWPATH_TRY(signals_, watch_ending_signals());
  TOWPATH_TRY(poller_->add(signals_.get(), kSignals));
  if (!options_.part.empty()) TOWPATH_TRY(join_launcher());
  for (int index = 0; index < options_.pes; ++index) TOWPATH_TRY(start(index));
  start_end_ = run::Deadline::after(clock_, std::chrono::seconds(options_.start_s));
  while (pes_.running() > 0 || !lines_.empty()) turn();
  return status_;
}

std::uint64_t Job::first_lines() const {
  return kFirstPe + static_cast<std::uint64_t>(options_.pes);
}

Status Job::join_launcher() {
  std::string token;
  for (char next = 0; next != '\n' && token.size() < net::Token::kMaxBytes;) {
    if (::read(STDIN_FILENO, &next, 1) != 1)
      return error(Code::invalid_argument, "the launcher gave no token",
                   "--part is for `towpath run --hosts` only");
    token += next;
  }
  TOWPATH_TRY(token_, sys::create_sealed_memfd("towpath-shmem-token", token.size()));
  if (::pwrite(token_.get(), token.data(), token.size(), 0) < 0)
    return sys::os_error(errno, "cannot keep the token");
  nothing_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return poller_->add(STDIN_FILENO, kLauncher);
}

void Job::on_launcher_gone() {
  (void)poller_->remove(STDIN_FILENO);
  fail(128 + SIGHUP, "the launcher has gone: ending all PEs");
  end_all();
}

Status Job::start(int index) {
  const int pe = part_.first + index;
  PeCommand command{.words = options_.words,
                    .name = cat("PE ", pe),
                    .variables = standard::shmem_variables(files_, pe),
                    .inherited = {files_.control.get()},
                    .in = nothing_.get()};
  for (const sys::Fd& heap : files_.heaps)
    if (heap) command.inherited.push_back(heap.get());
  if (!options_.nodes.empty())
    command.variables.merge(standard::shmem_variables_of_node(
        options_.nodes[static_cast<std::size_t>(index) % options_.nodes.size()]));
  command.variables.merge(
      standard::shmem_variables_of_network(options_.network, options_.security));
  if (token_) {
    command.inherited.push_back(token_.get());
    command.variables.merge(standard::shmem_variables(
        cat(options_.meet, "?token-file=/proc/self/fd/", token_.get()), part_.pes));
  } else {
    command.variables.merge(standard::shmem_variables_of_one_host());
  }
  sys::Fd out, err;
  if (options_.prefix) {
    TOWPATH_TRY(out, take_lines(pe, stdout));
    TOWPATH_TRY(err, take_lines(pe, stderr));
    command.out = out.get();
    command.err = err.get();
  }
  TOWPATH_TRY(pes_.start(command));
  return poller_->add(pes_.fd(index), kFirstPe + static_cast<std::uint64_t>(index));
}

Result<sys::Fd> Job::take_lines(int pe, std::FILE* to) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return sys::os_error(errno, "cannot make a pipe");
  sys::Fd reader(ends[0]), writer(ends[1]);
  (void)::fcntl(reader.get(), F_SETFL, O_NONBLOCK);  // the PE's side may block
  const std::uint64_t tag = first_lines() + next_lines_++;
  TOWPATH_TRY(poller_->add(reader.get(), tag));
  lines_.emplace(tag, Lines(std::move(reader), to, cat("[", pe, "] ")));
  return writer;
}

void Job::turn() {
  const run::Deadline next = run::Deadline::earlier(end_, start_end_);
  Duration timeout = next.remaining(clock_);
  // What PEs of other hosts want is reported by no descriptor.
  if (!options_.part.empty() && !killing_) timeout = std::min(timeout, kBetweenLooks);
  for (const run::PollEvent& event : poller_->wait(timeout)) {
    if (event.tag == kSignals)
      on_signal();
    else if (event.tag == kLauncher)
      on_launcher_gone();
    else if (event.tag < first_lines())
      on_end(static_cast<int>(event.tag - kFirstPe));
    else
      on_lines(event.tag);
  }
  heed_wanted_end();
  if (start_end_.expired(clock_)) look_who_has_begun();
  if (end_.expired(clock_)) {
    pes_.signal_all(killing_ ? SIGKILL : SIGTERM);
    killing_ = true;
    end_ = run::Deadline::after(clock_, std::chrono::seconds(1));
  }
  // What a PE's own children still hold open is not waited for.
  if (pes_.running() == 0)
    for (auto at = lines_.begin(); at != lines_.end(); at = lines_.erase(at)) {
      at->second.end();
      (void)poller_->remove(at->second.fd());
    }
}

void Job::on_signal() {
  const int number = take_signal(signals_);
  if (number == 0) return;
  fail(128 + number, cat("signal ", number, ": ending all PEs"));
  end_all();
}

void Job::end_all() {
  pes_.signal_all(SIGTERM);
  killing_ = true;
  end_ = run::Deadline::after(clock_, std::chrono::seconds(options_.grace_s));
}

void Job::on_end(int index) {
  const auto end = pes_.reap(index);
  if (!end) return;
  (void)poller_->remove(pes_.fd(index));
  const int pe = part_.first + index;
  view_->mark(static_cast<std::uint32_t>(pe), shmem::PeState::lost);
  heed_wanted_end();
  if (end->status != 0 && !view_->wanted_end())
    fail(end->status, cat("PE ", pe, " ", end->in_words));
}

void Job::heed_wanted_end() {
  const auto wanted = view_->wanted_end();
  if (!wanted || killing_) return;
  status_ = *wanted;
  end_all();
}

void Job::on_lines(std::uint64_t tag) {
  const auto at = lines_.find(tag);
  if (at == lines_.end() || at->second.pass_on()) return;
  (void)poller_->remove(at->second.fd());
  lines_.erase(at);
}

void Job::look_who_has_begun() {
  start_end_ = run::Deadline::never();
  std::string absent;
  for (std::uint32_t pe = 0; pe < view_->pes(); ++pe)
    if (view_->pe(pe).state.load() == static_cast<std::uint32_t>(shmem::PeState::absent))
      absent += cat(" ", pe);
  const bool some_have = view_->header().losses.load() > 0 || any_has_begun();
  if (!absent.empty() && some_have)
    fail(static_cast<int>(Exit::could_not_run),
         cat("after ", options_.start_s, " s these PEs have not begun:", absent));
}

bool Job::any_has_begun() const {
  for (std::uint32_t pe = 0; pe < view_->pes(); ++pe)
    if (view_->pe(pe).state.load() != 0) return true;
  return false;
}

void Job::fail(int status, const std::string& why) {
  // Those that are ended by us say nothing new.
  if (!killing_) std::fprintf(stderr, "towpath run: %s\n", why.c_str());
  if (status_ != 0) return;
  status_ = status;
  if (!options_.keep) end_ = run::Deadline::after(clock_, std::chrono::seconds(options_.grace_s));
}

}  // namespace towpath::tools
