#include <algorithm>

#include <sched.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/shmem/messages/message_transport.h>
#include <towpath/sys/process.h>

namespace towpath::shmem {
namespace {

/// Messages of one PE to another that have not left: more wait, and cost no memory.
constexpr std::size_t kMaxUnsent = 16;
/// Bytes of one get that are asked for and have not come.
constexpr std::uint64_t kGetWindow = 8 * kMaxFramePayload;
/// Turns without anything, with the core offered to others, before sleeping.
constexpr int kIdleTurns = 50;
/// How long somebody sleeps who is woken by messages too.
constexpr Duration kNap = std::chrono::milliseconds(1);
/// How long a PE that ends waits for its last words to leave, and for those of others.
constexpr Duration kFarewell = std::chrono::seconds(2);

}  // namespace

/// A caller that uses the links.
class TOWPATH_SCOPED_CAPABILITY MessageTransport::Driving {
 public:
  explicit Driving(MessageTransport& transport) TOWPATH_ACQUIRE(transport.mutex_)
      : transport_(transport) {
    transport_.mutex_.lock();
    ++transport_.drivers_;
  }
  ~Driving() TOWPATH_RELEASE() {
    --transport_.drivers_;
    transport_.mutex_.unlock();
  }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;

 private:
  MessageTransport& transport_;
};

Result<std::unique_ptr<MessageTransport>> MessageTransport::open(const NetworkOptions& options,
                                                                 const NetworkWish& agreed) {
  auto transport = std::make_unique<MessageTransport>(options);
  const run::MutexLock lock(transport->mutex_);
  TOWPATH_TRY(transport->links_.open(network_of(options, agreed)));
  return transport;
}

PeerPlace MessageTransport::place() {
  const run::MutexLock lock(mutex_);
  return links_.place();
}

Status MessageTransport::start(const Here& here) {
  here_ = here;
  if (auto mappings = sys::open_process_mappings(::getpid()); mappings.ok())
    mappings_ = *std::move(mappings);
  TOWPATH_TRY(poller_, run::Poller::open());
  TOWPATH_TRY(waker_, run::Waker::open());
  {
    const run::MutexLock lock(mutex_);
    const int fd = links_.worker().fd();
    if (fd >= 0) TOWPATH_TRY(poller_->add(fd, 0));
    TOWPATH_TRY(links_.greet(here, std::move(group_)));
  }
  TOWPATH_TRY(thread_, run::Worker::start("towpath-shmem",
                                          [this](const run::StopToken& stop) { serve(stop); }));
  return {};
}

void MessageTransport::serve(const run::StopToken& stop) {
  for (int idle = 0; !stop.stop_requested();) {
    Duration nap{0};
    mutex_.lock();
    const bool is_driven = drivers_ > 0;
    if (!is_driven) {
      idle = links_.turn() ? 0 : idle + 1;
      if (idle > kIdleTurns && links_.worker().arm())
        nap = std::max(Duration{1}, links_.due() - clock_.now());
    }
    mutex_.unlock();
    if (is_driven)
      stop.wait_until(run::Deadline::after(clock_, kNap));
    else if (nap.count() > 0)
      poller_->wait_beside(*waker_, nap);
    else
      sched_yield();
  }
}

void MessageTransport::stop() noexcept {
  if (!thread_) return;
  thread_->request_stop();
  waker_->wake();
  thread_.reset();
}

template <typename Done>
void MessageTransport::drive_until(const Done& done) {
  for (int idle = 0; !done();) {
    idle = links_.turn() ? 0 : idle + 1;
    if (idle == 0) continue;
    const bool sleeps = idle > kIdleTurns && links_.worker().arm();
    mutex_.unlock();
    if (sleeps)
      poller_->wait_beside(*waker_, kNap);
    else
      sched_yield();
    mutex_.lock();
  }
}

Status MessageTransport::make_room(Link& link) {
  drive_until([&] { return !link.is_up() || (link.is_open() && link.unsent() < kMaxUnsent); });
  return link.over;
}

Status MessageTransport::put(RemoteAddress to, ConstByteSpan bytes) {
  const Driving driving(*this);
  TOWPATH_TRY(Link* const link, links_.find(to.pe));
  for (std::uint64_t at = 0; at < bytes.size(); at += kMaxFramePayload) {
    TOWPATH_TRY(make_room(*link));
    const auto part = bytes.subspan(at, std::min(kMaxFramePayload, bytes.size() - at));
    TOWPATH_TRY(links_.send(*link, {.kind = FrameKind::put, .offset = to.offset + at}, part));
  }
  return {};
}

// Memory of the process's own that can be written does not fault: it is the caller's until the call
// that has it returns, and no file is behind it that could be cut.
bool MessageTransport::may_fault(ByteSpan memory) const {
  const std::uint64_t begin = address_of(memory.data()), end = begin + memory.size();
  const std::uint64_t heap = address_of(here_.heap.data());
  if (begin >= heap && end <= heap + here_.heap.size()) return false;
  if (!mappings_) return true;
  for (std::uint64_t at = begin; at < end;) {
    const auto mapping = sys::process_mapping_at(mappings_, at);
    if (!mapping.ok() || !mapping->is_plain || !mapping->is_writable) return true;
    at = mapping->end;
  }
  return false;
}

Status MessageTransport::get(RemoteAddress from, ByteSpan into) {
  if (into.empty()) return {};
  const Driving driving(*this);
  TOWPATH_TRY(Link* const link, links_.find(from.pe));
  TOWPATH_TRY(make_room(*link));
  Question question{.into = into, .left = into.size()};
  const std::uint64_t ticket = links_.ask(question);
  Status sent;
  for (std::uint64_t at = 0; at < into.size() && sent.ok(); at += kMaxFramePayload) {
    drive_until([&] { return !link->is_up() || at - (into.size() - question.left) < kGetWindow; });
    const auto part = static_cast<std::uint32_t>(std::min(kMaxFramePayload, into.size() - at));
    sent = link->is_up() ? links_.send(*link, {.kind = FrameKind::get,
                                               .aux = part,
                                               .ticket = ticket,
                                               .offset = from.offset + at,
                                               .operand = at})
                         : link->over;
    // While the answer is on its way: nobody waits for this, and nothing is taken before.
    if (at == 0) question.may_fault = may_fault(into);
  }
  if (sent.ok()) drive_until([&] { return question.left == 0 || !link->is_up(); });
  links_.forget(ticket);
  TOWPATH_TRY(sent);
  TOWPATH_TRY(question.failed);
  return question.left == 0 ? Status() : link->over;
}

bool MessageTransport::is_whole(ConstByteSpan element, const Condition& condition) noexcept {
  if (const auto known = links_of_any_thread_.looks_whole(element, condition)) return *known;
  const Driving driving(*this);
  if (links_.is_whole(element, condition)) return true;
  (void)links_.turn();  // the rest may be here, and a caller that asks in a loop has the lock
  return links_.is_whole(element, condition);
}

Result<std::uint64_t> MessageTransport::ask(std::uint32_t pe, FrameHeader header) {
  const Driving driving(*this);
  TOWPATH_TRY(Link* const link, links_.find(pe));
  TOWPATH_TRY(make_room(*link));
  Question question{.left = 1};
  header.ticket = links_.ask(question);
  Status sent = links_.send(*link, header);
  if (sent.ok()) drive_until([&] { return question.left == 0 || !link->is_up(); });
  links_.forget(header.ticket);
  TOWPATH_TRY(sent);
  if (question.left != 0) return link->over;
  return question.value;
}

Result<std::uint64_t> MessageTransport::change(RemoteAddress at, const Change& what) {
  return ask(at.pe, {.kind = FrameKind::change,
                     .op = what.op,
                     .word_bytes = what.word_bytes,
                     .offset = at.offset,
                     .operand = what.operand,
                     .expected = what.expected});
}

Status MessageTransport::post(RemoteAddress at, const Change& what) {
  const Driving driving(*this);
  TOWPATH_TRY(Link* const link, links_.find(at.pe));
  TOWPATH_TRY(make_room(*link));
  return links_.send(*link, {.kind = FrameKind::change,
                             .op = what.op,
                             .word_bytes = what.word_bytes,
                             .offset = at.offset,
                             .operand = what.operand,
                             .expected = what.expected});
}

// What was posted when each link's turn comes, and no more: other threads may never pause.
void MessageTransport::quiet() noexcept {
  const Driving driving(*this);
  for (const auto& row : links_.all())
    drive_until([&link = row.second, posted = row.second.posted] { return link.is_quiet(posted); });
}

ArrivalFrame MessageTransport::frame_of(const ArrivalNews& news) const {
  ArrivalFrame frame{.news = news};
  // Collective calls of all PEs that reclaim blocks; see block.cc.
  frame.reports_released =
      news.slot == 0 && (news.call.kind == CallKind::allocate || news.call.kind == CallKind::free);
  if (!frame.reports_released) return frame;
  const auto& bits = here_.job->pe(here_.my_pe).released[news.round % 2];
  for (std::uint32_t word = 0; word < kBlockSlots / 64; ++word)
    if (bits[word] != 0) frame.released.push_back({.index = word, .bits = bits[word]});
  return frame;
}

Status MessageTransport::arrive(const ArrivalNews& news, std::span<const std::uint32_t> doors) {
  const Bytes news_bytes = encode(frame_of(news));
  const Driving driving(*this);
  for (const std::uint32_t door : doors) {
    const auto link = links_.find(door);
    // A door that is lost is a member that is lost: a member that waits for it here is notified.
    if (link.ok() && make_room(**link).ok())
      (void)links_.send(**link, {.kind = FrameKind::arrival}, {}, news_bytes);
  }
  return {};
}

Result<std::uint64_t> MessageTransport::take_slot() {
  return ask(0, {.kind = FrameKind::take_slot});
}

void MessageTransport::leave_slot(std::uint32_t slot, std::uint32_t members) noexcept {
  const Driving driving(*this);
  if (const auto link = links_.find(0); link.ok())
    (void)links_.send(**link, {.kind = FrameKind::leave_slot, .aux = slot, .operand = members});
}

void MessageTransport::report_all(const FrameHeader& header) {
  for (std::uint32_t pe = 0; pe < here_.job->pes(); ++pe)
    if (const auto link = links_.find(pe); link.ok()) (void)links_.send(**link, header);
}

void MessageTransport::end_all(int status) noexcept {
  const Driving driving(*this);
  report_all({.kind = FrameKind::end_all, .operand = static_cast<std::uint64_t>(status)});
  const run::Deadline end = run::Deadline::after(clock_, kFarewell);
  drive_until([&]() TOWPATH_REQUIRES(mutex_) { return links_.are_sent() || end.expired(clock_); });
}

void MessageTransport::close(PeState ended) noexcept {
  if (!thread_) return;
  {
    const Driving driving(*this);
    report_all({.kind = FrameKind::bye, .operand = static_cast<std::uint64_t>(ended)});
    // Those that finalize do it together; who leaves waits for nobody.
    const run::Deadline end = run::Deadline::after(clock_, kFarewell);
    const bool together = ended == PeState::finalized;
    drive_until([&]() TOWPATH_REQUIRES(mutex_) {
      return (links_.are_sent() && (!together || links_.are_over())) || end.expired(clock_);
    });
  }
  stop();
  const run::MutexLock lock(mutex_);
  links_.close();
}

}  // namespace towpath::shmem
