#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include <netinet/in.h>
#include <sys/ioctl.h>

#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/net/tcp/tcp_newcomers.h>

namespace towpath::net {
namespace {

/// Until then what has come of them will have been read.
constexpr Duration kOurTurn = std::chrono::milliseconds(100);

std::array<std::byte, 16> source_of(const Endpoint& peer) {
  std::array<std::byte, 16> source{};
  if (peer.storage.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &peer.storage, sizeof four);
    std::memcpy(source.data(), &four.sin_addr, sizeof four.sin_addr);
    return source;
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &peer.storage, sizeof six);
  const bool is_four = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
  std::memcpy(source.data(), six.sin6_addr.s6_addr + (is_four ? 12 : 0), is_four ? 4 : 7);
  return source;
}

}  // namespace

TcpNewcomers::TcpNewcomers(TcpLoop& loop, MessageListener& listener, Options options)
    : loop_(loop),
      listener_(listener),
      options_(std::move(options)),
      most_(sys::share_of_descriptors(4, kMost)) {}

TcpNewcomers::~TcpNewcomers() {
  while (!all_.empty()) (void)remove(all_.begin());
  loop_.wake(*this, Instant::never());
}

// ---- Coming and going

void TcpNewcomers::let_in(sys::Fd socket) {
  const Endpoint peer = peer_of(socket.get());
  const Source source = source_of(peer);
  const Instant now = loop_.now();
  const std::string where = to_string(to_address(peer));
  if (const Status room = make_room(source, now); !room.ok())
    return listener_.on_refused(where, room);
  const auto tag = loop_.add(socket.get(), *this);
  if (!tag.ok()) return listener_.on_refused(where, tag.status());
  auto stream = sys::make_socket_stream(std::move(socket));
  if (options_.tls) stream = options_.tls->server(std::move(stream));
  if (all_.empty()) loop_.wake(*this, now + kSaidNothing.at_most);
  all_.emplace(*tag, Newcomer{.stream = std::move(stream),
                              .source = source,
                              .where = where,
                              .silent_since = now,
                              .first = TcpFirstMessage(options_.first_bytes)});
  hear(*tag);  // who means it has spoken already
}

Status TcpNewcomers::make_room(const Source& source, Instant now) {
  const std::size_t same = count_of(source);
  if (same >= kMostPerSource) return displace_one_of(source, now);
  if (all_.size() < most_) return {};
  const auto [most, count] = busiest();
  return displace_one_of(most, now, same == 0 && count > 1);
}

std::size_t TcpNewcomers::count_of(const Source& source) const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      all_, [&](const auto& entry) { return entry.second.source == source; }));
}

std::pair<TcpNewcomers::Source, std::size_t> TcpNewcomers::busiest() const {
  std::map<Source, std::size_t> counts;
  for (const auto& [tag, one] : all_) ++counts[one.source];
  return *std::ranges::max_element(counts, {}, &std::pair<const Source, std::size_t>::second);
}

/// Whether something lies in the socket that we have not come to read.
bool TcpNewcomers::has_input(const Newcomer& newcomer) noexcept {
  int bytes = 0;
  return ::ioctl(newcomer.stream->fd(), FIONREAD, &bytes) == 0 && bytes > 0;
}

const TcpNewcomers::Silence& TcpNewcomers::allowed_silence(
    const Newcomer& newcomer) const noexcept {
  if (newcomer.pieces > 0) return kSpeaks;
  return options_.tls ? kSaidNothingInTls : kSaidNothing;
}

Status TcpNewcomers::displace_one_of(const Source& source, Instant now, bool is_at_once) {
  const auto rank = [&](const auto& entry) {
    const Newcomer& one = entry.second;
    return std::tuple(one.source != source, one.pieces > 0, one.silent_since);
  };
  const auto last = std::ranges::min_element(all_, {}, rank);
  const Duration silence = now - last->second.silent_since;
  const Status full = error(Code::exhausted, cat(all_.size(),
                                                 " connections wait that have proven "
                                                 "nothing; more are not taken"));
  const bool is_early = !is_at_once && silence < allowed_silence(last->second).at_least;
  if (is_early || has_input(last->second)) return full;
  drop(last, full);
  return {};
}

std::unique_ptr<sys::ByteStream> TcpNewcomers::remove(All::iterator newcomer) {
  auto stream = std::move(newcomer->second.stream);
  loop_.remove(stream->fd(), newcomer->first);
  all_.erase(newcomer);
  if (all_.empty()) loop_.wake(*this, Instant::never());
  return stream;
}

void TcpNewcomers::drop(All::iterator newcomer, const Status& why) {
  const std::string where = std::move(newcomer->second.where);
  (void)remove(newcomer);
  listener_.on_refused(where, why);
}

std::unique_ptr<sys::ByteStream> TcpNewcomers::take(std::uint64_t from) {
  const auto found = all_.find(from);
  if (from != delivering_ || found == all_.end()) return nullptr;
  return remove(found);
}

// The alarm may come early, for one that has spoken since: it is set anew.
void TcpNewcomers::on_wake(Instant now) {
  Instant next = Instant::never();
  for (auto one = all_.begin(); one != all_.end();) {
    const auto newcomer = one++;
    const Duration silence = now - newcomer->second.silent_since;
    const Duration left = allowed_silence(newcomer->second).at_most - silence;
    if (left > Duration::zero()) {
      next = std::min(next, now + left);
    } else if (has_input(newcomer->second)) {
      next = std::min(next, now + kOurTurn);
    } else {
      drop(newcomer, error(Code::timed_out, "it has proven nothing, and says no more"));
    }
  }
  loop_.wake(*this, next);
}

// ---- What they say

void TcpNewcomers::hear(std::uint64_t tag) {
  const auto found = all_.find(tag);
  const bool speaks = has_input(found->second);
  const auto whole = found->second.first.read(*found->second.stream);
  if (!whole.ok()) return drop(found, whole.status());
  // What we have done for it was our time, not its own.
  if (speaks && found->second.pieces++ < kMostPieces) found->second.silent_since = loop_.now();
  if (!*whole) return;
  const TcpFirstMessage first = std::move(found->second.first);  // the listener may take the rest
  delivering_ = tag;
  deliver({.head = first.head(), .body_bytes = first.body().size(), .from = tag}, first.body(),
          listener_);
  delivering_ = 0;
  const auto unanswered = all_.find(tag);
  if (unanswered != all_.end()) (void)remove(unanswered);
}

}  // namespace towpath::net
