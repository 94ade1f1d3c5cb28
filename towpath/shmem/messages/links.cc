#include <algorithm>
#include <cstring>

#include <towpath/core/format.h>
#include <towpath/shmem/change.h>
#include <towpath/shmem/messages/links.h>
#include <towpath/sys/random.h>

namespace towpath::shmem {
namespace {

constexpr int kRoundsPerTurn = 16;
/// Arrivals of one PE that wait: in each team it can be a round ahead.
constexpr std::ptrdiff_t kMaxAhead = 2 * std::ptrdiff_t{kTeamSlots};
/// More answers wait until these have left.
constexpr std::size_t kMaxUnsentAnswers = 16;
/// How soon to look again for a round that a guest waits for: nobody rings for it.
constexpr Duration kUntilNextLook = std::chrono::milliseconds(1);

}  // namespace

Status Arrivals::take(std::uint32_t from, ArrivalFrame arrival) {
  waiting_.push_back({.from = from, .arrival = std::move(arrival)});
  settle();
  if (std::ranges::count(waiting_, from, &Guest::from) <= kMaxAhead) return {};
  return error(Code::exhausted, cat("PE ", from, " is too many rounds ahead"));
}

bool Arrivals::settle() {
  // In order: a guest that cannot be seated yet is before later ones of the same member.
  std::erase_if(waiting_, [this](const Guest& guest) { return seat(guest); });
  return !waiting_.empty();
}

bool Arrivals::seat(const Guest& guest) {
  const ArrivalNews& news = guest.arrival.news;
  Barrier& barrier = job_.team(news.slot).barrier;
  const std::uint32_t round = barrier.round();
  const auto [last, is_first] = last_round_.try_emplace({news.slot, news.member}, round);
  if (!is_first && last->second == round) return false;
  last->second = round;
  MemberLine& line = job_.line(news.slot, news.member, news.round % 2);
  line.call = news.call;
  line.note = news.note;
  if (guest.arrival.reports_released) {
    PeRecord& record = job_.pe(guest.from);
    auto& bits = record.released[news.round % 2];
    std::ranges::fill(bits, 0);
    for (const ReleasedWord& word : guest.arrival.released) bits[word.index] = word.bits;
    record.released_any[news.round % 2].store(guest.arrival.released.empty() ? 0 : 1,
                                              std::memory_order_relaxed);
  }
  thread_fence(std::memory_order_release);  // pairs with gather()
  barrier.arrive(digest_of(news.call), news.members);
  line.arrived.store(round + 1, std::memory_order_release);  // as in gather()
  return true;
}

// One that sees a byte of the put sees that it has begun. Release, here and below: pairs with
// looks_whole(); one that sees a way that is over, or the next, sees all bytes of the put.
void LongPuts::begin(Way& way, std::uint64_t offset, std::uint64_t bytes) noexcept {
  way.begin.store(offset, std::memory_order_release);
  way.end.store(offset + bytes, std::memory_order_release);
  count_.fetch_add((std::uint64_t{1} << 32U) + 1);
  thread_fence(std::memory_order_seq_cst);
}

void LongPuts::end(Way& way) noexcept {
  if (way.end.load(std::memory_order_relaxed) == 0) return;
  way.begin.store(0, std::memory_order_release);
  way.end.store(0, std::memory_order_release);
  count_.fetch_sub(1);
}

Status Links::open(const MessageNetwork& network) {
  has_connections_ = network.has_connections;
  instance_ = std::max<std::uint64_t>(1, sys::random_u64());
  TOWPATH_TRY(worker_, network.make_worker(*this, clock_));
  open_sessions();
  return {};
}

PeerPlace Links::place() const {
  const ConstByteSpan address = worker_->address();
  return {.instance = instance_, .address = {address.begin(), address.end()}};
}

Status Links::greet(const Remote::Here& here, PeerGroup group) {
  here_ = here;
  secret_ = std::move(group.secret);
  arrivals_.emplace(*here.job);
  for (std::uint32_t pe = 0; pe < group.places.size(); ++pe) {
    if (group.places[pe].address.empty()) continue;
    Link& link = links_.try_emplace(pe, pe, std::move(group.places[pe]), *this).first->second;
    // Until it is dialled, or has dialled, it is awaited: nobody is heard, and the time counts.
    const net::SessionPath path = path_to(link);
    link.adopt(std::make_unique<net::Session>(path.peer, path.numbers, clock_.now()));
    if (here.my_pe < pe) TOWPATH_TRY(dial(link));
  }
  return {};
}

Result<Link*> Links::find(std::uint32_t pe) {
  const auto found = links_.find(pe);
  if (found == links_.end()) return error(Code::not_found, cat("no way to PE ", pe));
  TOWPATH_TRY(found->second.over);
  return &found->second;
}

Status Links::send(Link& link, FrameHeader header, ConstByteSpan body, ConstByteSpan arrival) {
  TOWPATH_TRY(link.over);
  if (!link.is_open()) return error(Code::not_ready, cat("PE ", link.pe, " has not come yet"));
  std::unique_ptr<net::MessageBuffer> buffer;
  try {
    buffer = worker_->buffers().take();
  } catch (const std::bad_alloc&) {
    lose(link, sessions_->no_memory());
    return link.over;
  }
  header.from = here_.my_pe;
  header.sequence = ++link.last_out;
  const ByteSpan head = buffer->room().first(head_bytes(arrival.size()));
  encode_head(header, arrival, head);
  if (!body.empty()) std::memcpy(buffer->room().data() + head.size(), body.data(), body.size());
  buffer->size = head.size() + body.size();
  buffer->body_bytes = body.size();
  if (header.kind == FrameKind::put || (header.kind == FrameKind::change && header.ticket == 0))
    link.posted = header.sequence;
  // Release: whoever hears of this sees what took place here before, also where PEs of one host
  // hear of it by others. Pairs with on_message(), over whatever carries the message.
  thread_fence(std::memory_order_release);
  const Status sent = link.session->send(std::move(buffer), clock_.now());
  if (sent.ok()) return {};
  // What was numbered and sealed must leave: the other counts.
  lose(link,
       error(Code::peer_lost, cat("PE ", link.pe, ": ", sent.message()), std::string(sent.hint()))
           .because(sent));
  return link.over;
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
    tidy(link);
    if (link.is_open() && link.is_up()) answer(link);
    if (now >= link.report_at) report_end(link);
  }
  if (sessions_->turn(now))
    for (auto& [pe, link] : links_)
      if (link.is_up()) beat(link, now);
  if (arrivals_) arrivals_wait_ = arrivals_->settle();
  return some;
}

// What could not be done inside of the network's own calls.
void Links::tidy(Link& link) {
  if (const Status& broken = link.session->broken(); !broken.ok() && link.is_up())
    lose(link, broken);
  if (link.is_lost) link.session->close();
}

Instant Links::due() const noexcept {
  Instant due = sessions_->next_check();
  if (arrivals_wait_) due = std::min(due, sessions_->last_turn() + kUntilNextLook);
  for (const auto& [pe, link] : links_) due = std::min(due, link.report_at);
  return due;
}

std::optional<bool> Links::looks_whole(ConstByteSpan element, const Condition& condition) const {
  const auto ways = [&](const auto& look_at) {
    for (const auto& [pe, link] : links_) look_at(link.inbound.way);
  };
  return long_puts_.looks_whole(address_of(element.data()) - address_of(here_.heap.data()),
                                element.size(), ways, condition);
}

bool Links::is_whole(ConstByteSpan element, const Condition& condition) const {
  const std::uint64_t offset = address_of(element.data()) - address_of(here_.heap.data());
  for (const auto& [pe, link] : links_)
    if (link.inbound.ends_inside(offset, element.size())) return false;
  return condition();
}

void Links::answer(Link& link) {
  while (link.is_up() && !link.answers.empty() && link.unsent() < kMaxUnsentAnswers) {
    const FrameHeader header = link.answers.front();
    link.answers.pop_front();
    const bool is_data = header.kind == FrameKind::data;
    (void)send(link, header, is_data ? here_.heap.subspan(header.offset, header.aux) : ByteSpan());
  }
  if (!link.is_up() || link.owed == 0) return;
  (void)send(link, {.kind = FrameKind::applied, .operand = link.owed});
  link.owed = 0;
}

void Links::beat(Link& link, Instant now) {
  if (Status silent = sessions_->check_silence(*link.session, now); !silent.ok())
    return lose(link, std::move(silent));
  if (!sessions_->is_silent_side(*link.session, now)) return;
  (void)send(link, {.kind = FrameKind::beat,
                    .aux = mine().doing.load(std::memory_order_relaxed),
                    .operand = mine().in_team.load(std::memory_order_relaxed)});
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
    link.session->close();
  }
  sessions_.reset();
  worker_.reset();
}

bool Links::are_sent() const {
  return std::ranges::all_of(links_, [](const auto& row) { return row.second.unsent() == 0; });
}

bool Links::are_over() const {
  return std::ranges::none_of(links_, [](const auto& row) { return row.second.is_up(); });
}

}  // namespace towpath::shmem
