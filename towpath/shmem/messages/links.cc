#include <algorithm>
#include <cstring>

#include <towpath/core/text.h>
#include <towpath/shmem/fence.h>
#include <towpath/shmem/messages/links.h>

namespace towpath::shmem {
namespace {

constexpr int kRoundsPerTurn = 16;
/// More answers wait until these have left.
constexpr std::size_t kMaxUnsentAnswers = 16;
/// How soon to look again for a round that a guest waits for: nobody rings for it.
constexpr Duration kUntilNextLook = std::chrono::milliseconds(1);

}  // namespace

Status Links::open(const net::UcxOptions& options, const WorkerMaker& make_worker) {
  TOWPATH_TRY(worker_, make_worker(options, *this));
  return {};
}

Status Links::greet(const Remote::Here& here, PeerGroup group) {
  here_ = here;
  key_ = group.key;
  arrivals_.emplace(*here.job);
  const Instant now = clock_.now();
  next_beat_ = now + heartbeat_.every;
  last_turn_ = now;
  for (std::uint32_t pe = 0; pe < group.addresses.size(); ++pe) {
    if (group.addresses[pe].empty()) continue;
    Link& link = links_[pe];
    link.pe = pe;
    link.heard_at = link.sent_at = now;
    TOWPATH_TRY(link.endpoint, worker_->connect(group.addresses[pe], nullptr, &link));
  }
  for (auto& [pe, link] : links_)
    TOWPATH_TRY(send(
        link, {.kind = FrameKind::hello, .operand = mine().pid.load(std::memory_order_relaxed)}));
  return {};
}

Result<Link*> Links::find(std::uint32_t pe) {
  const auto found = links_.find(pe);
  if (found == links_.end()) return error(Code::not_found, cat("no way to PE ", pe));
  TOWPATH_TRY(found->second.over);
  return &found->second;
}

Status Links::send(Link& link, FrameHeader header, ConstByteSpan payload) {
  header.key = key_;
  header.from = here_.my_pe;
  header.sequence = ++link.last_out;
  auto buffer = worker_->buffers().take();
  encode_header(header, buffer->room());
  if (!payload.empty())
    std::memcpy(buffer->room().data() + kFrameHeaderBytes, payload.data(), payload.size());
  buffer->size = kFrameHeaderBytes + payload.size();
  link.sent_at = clock_.now();
  if (header.kind == FrameKind::put || (header.kind == FrameKind::change && header.ticket == 0))
    link.posted = header.sequence;
  // Release: whoever hears of this sees what took place here before, also where PEs of one host
  // hear of it by others. Pairs with on_message(), over whatever carries the message.
  thread_fence(std::memory_order_release);
  const Status sent = link.endpoint->send(std::move(buffer));
  if (sent.ok()) return {};
  return error(sent.code(), cat("PE ", link.pe, ": ", sent.message()), std::string(sent.hint()))
      .because(sent);
}

std::uint64_t Links::ask(Question& question) {
  questions_[++last_ticket_] = &question;
  return last_ticket_;
}

bool Links::turn() {
  bool some = false;
  for (int round = 0; round < kRoundsPerTurn && worker_->progress(); ++round) some = true;
  const Instant now = clock_.now();
  for (auto& [pe, link] : links_) {
    if (link.has_broken && link.is_up())
      lose(link, error(Code::peer_lost, cat("PE ", pe, ": the connection broke")));
    if (link.is_lost) link.endpoint.reset();
    if (link.is_up()) answer(link);
    if (now >= link.report_at) report_end(link);
  }
  if (now >= next_beat_) beat(now);
  if (arrivals_) arrivals_wait_ = arrivals_->settle();
  last_turn_ = now;
  return some;
}

Instant Links::due() const noexcept {
  Instant due = arrivals_wait_ ? std::min(next_beat_, last_turn_ + kUntilNextLook) : next_beat_;
  for (const auto& [pe, link] : links_) due = std::min(due, link.report_at);
  return due;
}

void Links::answer(Link& link) {
  while (!link.answers.empty() && link.endpoint->unsent() < kMaxUnsentAnswers) {
    const FrameHeader header = link.answers.front();
    link.answers.pop_front();
    const bool is_data = header.kind == FrameKind::data;
    (void)send(link, header, is_data ? here_.heap.subspan(header.offset, header.aux) : ByteSpan());
  }
  if (link.owed == 0) return;
  (void)send(link, {.kind = FrameKind::applied, .operand = link.owed});
  link.owed = 0;
}

void Links::beat(Instant now) {
  next_beat_ = now + heartbeat_.every;
  // We were stopped ourselves: what the others said meanwhile is still on its way to us.
  const bool was_away = now - last_turn_ >= heartbeat_.timeout / 2;
  for (auto& [pe, link] : links_) {
    if (!link.is_up()) continue;
    if (was_away) link.heard_at = now;
    if (now - link.heard_at >= heartbeat_.timeout) {
      const auto silent =
          std::chrono::duration_cast<std::chrono::milliseconds>(now - link.heard_at);
      lose(link, error(Code::peer_lost, cat("PE ", pe, " was silent for ", silent.count(), " ms"),
                       "look whether it runs, and at the network between"));
    } else if (now - link.sent_at >= heartbeat_.every / 2 && link.endpoint->unsent() == 0) {
      (void)send(link, {.kind = FrameKind::beat,
                        .aux = mine().doing.load(std::memory_order_relaxed),
                        .operand = mine().in_team.load(std::memory_order_relaxed)});
    }
  }
}

void Links::lose(Link& link, Status why) {
  link.over = std::move(why);
  link.is_lost = true;
  here_.job->mark(link.pe, PeState::lost);
}

void Links::report_end(Link& link) {
  link.report_at = Instant::never();
  if (link.ended != PeState::finalized) return here_.job->mark(link.pe, link.ended);
  auto running = static_cast<std::uint32_t>(PeState::running);
  if (here_.job->pe(link.pe).state.compare_exchange_strong(
          running, static_cast<std::uint32_t>(PeState::finalized)))
    here_.job->ring_all();
}

void Links::close() {
  for (auto& [pe, link] : links_) {
    if (link.is_up()) link.over = error(Code::not_ready, cat("the way to PE ", pe, " is closed"));
    link.endpoint.reset();
  }
  worker_.reset();
}

bool Links::are_quiet() const {
  return std::ranges::all_of(links_, [](const auto& row) { return row.second.is_quiet(); });
}

bool Links::are_sent() const {
  return std::ranges::all_of(links_, [](const auto& row) {
    return row.second.endpoint == nullptr || row.second.endpoint->unsent() == 0;
  });
}

bool Links::are_over() const {
  return std::ranges::none_of(links_, [](const auto& row) { return row.second.is_up(); });
}

}  // namespace towpath::shmem
