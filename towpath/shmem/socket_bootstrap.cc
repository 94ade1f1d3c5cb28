#include <algorithm>
#include <list>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/net/framed_connection.h>
#include <towpath/net/hello.h>
#include <towpath/net/listener.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/net/unproven.h>
#include <towpath/run/deadline.h>
#include <towpath/shmem/bootstrap_words.h>
#include <towpath/shmem/socket_bootstrap.h>
#include <towpath/sys/clock.h>

namespace towpath::shmem {
namespace {

constexpr Duration kBetweenVisits = std::chrono::milliseconds(5);
/// Connections at a time that have not said which PE they are.
constexpr std::size_t kMaxUnauthenticated = 64;
/// Of one source, over a network.
constexpr std::size_t kMaxPerSource = kMaxUnauthenticated / 2;
/// How long one may take to say it, and how long one is silent before it goes for another: where
/// many PEs come at once, a handshake of TLS takes a while.
constexpr Duration kUntilKnown = std::chrono::seconds(5);
constexpr Duration kSilence = std::chrono::seconds(2);
/// How long nobody is let in where no descriptor is free.
constexpr Duration kClosedFor = std::chrono::milliseconds(100);
constexpr std::size_t kReadBudget = std::size_t{1} << 20U;

using Stream = std::unique_ptr<sys::ByteStream>;

/// Sleeps until the connection can go on. Errors: timed_out.
Status wait_for(const net::FramedConnection& connection, run::Deadline deadline) {
  const sys::SystemClock clock;
  TOWPATH_TRY(auto poller, run::Poller::open());
  TOWPATH_TRY(poller.add(connection.fd(), 0, connection.interest()));
  while (poller.wait(deadline.remaining(clock)).empty())
    if (deadline.expired(clock)) return error(Code::timed_out, "no answer came");
  return {};
}

Status send_all(net::FramedConnection& connection, run::Deadline deadline) {
  TOWPATH_TRY(connection.flush());
  while (connection.has_unsent()) {
    TOWPATH_TRY(wait_for(connection, deadline));
    TOWPATH_TRY(connection.flush());
  }
  return {};
}

std::string in_words(const std::vector<net::Address>& places) {
  std::string out;
  for (const net::Address& place : places) out += cat(out.empty() ? "" : ", ", to_string(place));
  return out;
}

}  // namespace

/// PE 0's side.
class SocketBootstrap::Host {
 public:
  explicit Host(const SocketBootstrapOptions& options)
      : options_(options), reported_(static_cast<std::size_t>(options.pes)) {}

  Status listen() {
    TOWPATH_TRY(poller_, run::Poller::open());
    Status failed = error(Code::invalid_argument, "a meeting without a place");
    for (const net::Address& place : options_.places) {
      auto listener = net::Listener::listen(place);
      if (!listener.ok()) {
        failed = listener.status();
        continue;
      }
      listeners_.push_back(*std::move(listener));
    }
    return listeners_.empty() ? failed : watch_listeners();
  }

  /// What all say, when they have, at the latest by `deadline`.
  Result<std::vector<Bytes>> hear(ConstByteSpan mine, run::Deadline deadline) {
    for (auto& said : reported_) said.reset();
    reported_.front() = Bytes(mine.begin(), mine.end());
    for (Guest& guest : guests_) serve(guest);  // what came before this round
    while (lost_.ok() && std::ranges::any_of(reported_, [](const auto& said) { return !said; })) {
      if (deadline.expired(clock_)) return missing();
      if (closed_until_ <= clock_.now()) open_again();
      const auto events = poller_->wait(next_turn(deadline).remaining(clock_));
      for (const run::PollEvent& event : events)
        if (event.tag < listeners_.size())
          let_in(listeners_[event.tag]);
        else
          serve(*reinterpret_cast<Guest*>(event.tag));
      drop_overdue();
      std::erase_if(guests_, [](const Guest& guest) { return guest.is_gone; });
    }
    TOWPATH_TRY(lost_);
    std::vector<Bytes> all;
    for (auto& said : reported_) all.push_back(*std::move(said));
    return all;
  }

  /// Notifies all of them. One that takes nothing has gone: a member that waits for it later is
  /// notified.
  Status report(const std::vector<Bytes>& all, run::Deadline deadline) {
    TOWPATH_TRY(Bytes sealed, encode_bootstrap_words({.said = all}));
    const auto frame = std::make_shared<const Bytes>(std::move(sealed));
    for (Guest& guest : guests_) {
      if (!guest.pe) continue;
      guest.connection.send(frame);
      (void)send_all(guest.connection, deadline);
    }
    listeners_.clear();  // everybody is here
    has_reported_ = true;
    return {};
  }

 private:
  struct Guest {
    net::FramedConnection connection;
    net::Source source;
    Instant ends_at;       // unless it has said by then which PE it is
    Instant silent_since;  // since our last answer to its handshake
    bool has_spoken = false;
    bool is_known = false;  // has proven itself, and speaks of this service
    bool is_refused = false;
    bool is_gone = false;
    std::optional<std::uint32_t> pe;
  };

  Status watch_listeners() {
    closed_until_ = Instant::never();
    for (std::size_t i = 0; i < listeners_.size(); ++i)
      TOWPATH_TRY(poller_->add(listeners_[i].fd(), i));
    return {};
  }

  void open_again() {
    if (const Status watched = watch_listeners(); !watched.ok()) close_for_now(watched);
  }

  /// They would be reported again and again.
  void close_for_now(const Status& why) {
    last_refusal_ = why;
    if (closed_until_ != Instant::never()) return;
    closed_until_ = clock_.now() + kClosedFor;
    for (const net::Listener& listener : listeners_) (void)poller_->remove(listener.fd());
  }

  void let_in(net::Listener& listener) {
    auto accepted = listener.accept();
    if (!accepted.ok()) return close_for_now(accepted.status());
    if (!*accepted) return;
    const int fd = accepted->get();
    const bool is_local = net::is_local(listener.address());
    const net::Source source = is_local ? net::Source{} : net::source_of(net::peer_of(fd));
    if (Status room = make_room(source, is_local ? kMaxUnauthenticated : kMaxPerSource);
        !room.ok()) {
      last_refusal_ = std::move(room);
      return;
    }
    const Instant now = clock_.now();
    Guest& guest = guests_.emplace_back(
        Guest{.connection = {tls_->server(sys::make_socket_stream(*std::move(accepted))),
                             net::kHelloLimits},
              .source = source,
              .ends_at = now + kUntilKnown,
              .silent_since = now});
    // The list keeps it where it is. Listeners have small tags.
    if (!poller_->add(fd, reinterpret_cast<std::uint64_t>(&guest)).ok()) guest.is_gone = true;
  }

  /// For a newcomer of that source.
  Status make_room(const net::Source& newcomer, std::size_t most_per_source) {
    std::size_t places = 0;
    std::vector<net::Unproven> unproven;
    for (Guest& guest : guests_) {
      if (guest.pe || guest.is_gone) continue;
      ++places;
      if (!guest.is_known)
        unproven.push_back({.id = reinterpret_cast<std::uint64_t>(&guest),
                            .socket = guest.connection.fd(),
                            .source = guest.source,
                            .has_spoken = guest.has_spoken,
                            .silent_since = guest.silent_since,
                            .silent_at_least = kSilence});
    }
    TOWPATH_TRY(const auto displaced,
                net::displaced_by(newcomer, {.unproven = unproven,
                                             .most_per_source = most_per_source,
                                             .is_full = places >= kMaxUnauthenticated,
                                             .now = clock_.now()}));
    if (displaced)
      drop(*reinterpret_cast<Guest*>(*displaced),
           error(Code::exhausted, "a connection has proven nothing, and another takes its place"));
    return {};
  }

  void drop(Guest& guest, Status why) {
    guest.is_gone = true;
    last_refusal_ = std::move(why);
  }

  void drop_overdue() {
    for (Guest& guest : guests_)
      if (!guest.pe && !guest.is_gone && guest.ends_at <= clock_.now())
        drop(guest, guest.is_refused ? last_refusal_
                                     : error(Code::timed_out, "a connection has proven nothing"));
  }

  /// When there is something to do though nobody says anything.
  run::Deadline next_turn(run::Deadline deadline) const {
    deadline = run::Deadline::earlier(deadline, run::Deadline(closed_until_));
    for (const Guest& guest : guests_)
      if (!guest.pe) deadline = run::Deadline::earlier(deadline, run::Deadline(guest.ends_at));
    return deadline;
  }

  void serve(Guest& guest) {
    const bool speaks = !guest.is_known && net::has_input(guest.connection.fd());
    read(guest);
    if (!speaks) return;
    guest.has_spoken = true;
    guest.silent_since = clock_.now();  // what we have done for it was our time, not its own
  }

  /// Takes what has come from it.
  void read(Guest& guest) {
    while (!guest.is_gone && !guest.is_refused) {
      std::size_t budget = kReadBudget;
      auto frame = guest.connection.receive(budget);
      if (frame.ok() && !*frame) return;
      const Status taken = frame.ok() ? take(guest, (*frame)->payload()) : frame.status();
      if (taken.ok()) continue;
      if (frame.ok()) return refuse(guest, taken);
      leave(guest, taken);
    }
    std::size_t budget = kReadBudget;
    if (guest.is_refused && !guest.connection.discard(budget).ok()) guest.is_gone = true;
  }

  Status take(Guest& guest, ConstByteSpan payload) {
    if (!guest.is_known) {
      TOWPATH_TRY(net::check_hello(payload, kBootstrapService));
      guest.is_known = true;
      guest.connection.expect(bootstrap_limits(1));
      return {};
    }
    TOWPATH_TRY(BootstrapWords words, decode_bootstrap_words(payload));
    if (!words.pe || words.said.size() != 1) return error(Code::corrupt, "who says what?");
    if (words.pes != reported_.size() || *words.pe == 0 || *words.pe >= reported_.size())
      return error(Code::invalid_argument, cat("PE ", *words.pe, " of ", words.pes,
                                               " PEs, where PE 0 knows of ", reported_.size()));
    auto& said = reported_[*words.pe];
    if (is_here(*words.pe, guest) || said || (guest.pe && *guest.pe != *words.pe))
      return error(Code::already_exists, cat("PE ", *words.pe, " was here before"));
    said = std::move(words.said.front());
    return guest.pe ? Status() : welcome(guest, *words.pe);
  }

  /// Whether a newcomer takes the number of another, which may have closed unheard.
  bool is_here(std::uint32_t pe, const Guest& newcomer) {
    if (newcomer.pe) return false;
    for (Guest& other : guests_)
      if (other.pe == pe) serve(other);
    return std::ranges::any_of(guests_, [&](const Guest& other) { return other.pe == pe; });
  }

  Status welcome(Guest& guest, std::uint32_t pe) {
    guest.pe = pe;
    TOWPATH_TRY(Bytes nothing, encode_bootstrap_words({}));
    guest.connection.send(std::move(nothing));
    if (const Status sent = guest.connection.flush(); !sent.ok()) leave(guest, sent);
    return {};
  }

  /// It has closed. Until something was reported, a PE that has waited too long for its welcome
  /// comes again; later nobody can.
  void leave(Guest& guest, const Status& why) {
    const auto pe = std::exchange(guest.pe, std::nullopt);
    guest.is_gone = true;
    last_refusal_ = why;
    if (!pe) return;
    last_refusal_ =
        error(Code::peer_lost, cat("PE ", *pe, " went away from the meeting")).because(why);
    if (!has_reported_)
      reported_[*pe].reset();
    else if (lost_.ok())
      lost_ = last_refusal_;
  }

  /// It stays until it closes: what it has not read would be lost with the connection.
  void refuse(Guest& guest, const Status& why) {
    last_refusal_ = why;
    guest.ends_at = clock_.now() + kUntilKnown;
    guest.is_refused = true;
    guest.pe.reset();
    if (auto sealed = encode_bootstrap_words({.refusal = std::string(why.message())}); sealed.ok())
      guest.connection.send(*std::move(sealed));
    if (!guest.connection.flush().ok()) guest.is_gone = true;
  }

  Status missing() const {
    std::string out = "waited for PE";
    for (std::size_t pe = 0; pe < reported_.size(); ++pe)
      if (!reported_[pe]) out += cat(" ", pe);
    out += cat(" of ", reported_.size(), " to come to ", in_words(options_.places));
    Status status = error(Code::timed_out, out, "start all PEs, and give them the same place");
    return last_refusal_.ok() ? status : std::move(status).because(last_refusal_);
  }

  const SocketBootstrapOptions& options_;
  const std::shared_ptr<const net::TlsContext> tls_ = net::TlsContext::from_token(options_.token);
  const sys::SystemClock clock_;
  std::optional<run::Poller> poller_;
  std::vector<net::Listener> listeners_;
  Instant closed_until_ = Instant::never();  // while they are not watched
  std::list<Guest> guests_;
  std::vector<std::optional<Bytes>> reported_;  // by PE, of this round
  bool has_reported_ = false;                   // a round
  Status last_refusal_, lost_;
};

/// The side of all others.
class SocketBootstrap::Visitor {
 public:
  explicit Visitor(const SocketBootstrapOptions& options) : options_(options) {}

  Status say(ConstByteSpan mine, run::Deadline deadline) {
    TOWPATH_TRY(Bytes sealed,
                encode_bootstrap_words({.pe = static_cast<std::uint32_t>(options_.my_pe),
                                        .pes = static_cast<std::uint32_t>(options_.pes),
                                        .said = {Bytes(mine.begin(), mine.end())}}));
    if (!connection_) return find_host(std::make_shared<const Bytes>(std::move(sealed)), deadline);
    connection_->send(std::move(sealed));
    return send_all(*connection_, deadline);
  }

  Result<std::vector<Bytes>> hear(run::Deadline deadline) {
    auto words = next_words(*connection_, deadline);
    if (words.code() == Code::timed_out)
      return error(Code::timed_out, "not all PEs came to the meeting", "PE 0 says which did not");
    TOWPATH_TRY(words);
    if (words->said.size() != static_cast<std::size_t>(options_.pes))
      return error(Code::corrupt, cat("PE 0 reports ", words->said.size(), " PEs"));
    return std::move(words->said);
  }

 private:
  static Result<BootstrapWords> next_words(net::FramedConnection& connection,
                                           run::Deadline deadline) {
    while (true) {
      std::size_t budget = kReadBudget;
      TOWPATH_TRY(auto frame, connection.receive(budget));
      if (!frame) {
        TOWPATH_TRY(wait_for(connection, deadline));
        continue;
      }
      TOWPATH_TRY(BootstrapWords words, decode_bootstrap_words(frame->payload()));
      if (words.refusal.empty()) return words;
      return error(Code::denied, cat("PE 0 refuses this PE: ", printable(words.refusal, 400)));
    }
  }

  /// PE 0 may not have begun; something else may listen where it will not.
  Status find_host(const std::shared_ptr<const Bytes>& saying, run::Deadline deadline) {
    TOWPATH_TRY(auto pause, run::Poller::open());  // watches nothing: a sleep
    while (true) {
      Status last;
      for (const net::Address& place : options_.places) {
        last = try_place(place, saying, deadline);
        if (last.ok() || last.code() == Code::denied) return last;
      }
      if (deadline.expired(clock_))
        return error(Code::timed_out, cat("no PE 0 answers at ", in_words(options_.places)),
                     "start it, with the same place and the same token")
            .because(last);
      (void)pause.wait(kBetweenVisits);
    }
  }

  Status try_place(const net::Address& place, const std::shared_ptr<const Bytes>& saying,
                   run::Deadline deadline) {
    if (const auto* local = std::get_if<sys::LocalAddress>(&place)) {
      TOWPATH_TRY(Stream stream, sys::connect_stream(*local));
      return visit(std::move(stream), local->name, saying, deadline);
    }
    const auto& tcp = std::get<net::TcpAddress>(place);
    TOWPATH_TRY(const auto endpoints, net::resolve(tcp));
    Status last;
    for (const net::Endpoint& endpoint : endpoints) {
      auto stream = net::connect(endpoint);
      last = stream.ok() ? visit(*std::move(stream), tcp.host, saying, deadline) : stream.status();
      if (last.ok() || last.code() == Code::denied) break;
    }
    return last;
  }

  Status visit(Stream stream, const std::string& host, const std::shared_ptr<const Bytes>& saying,
               run::Deadline deadline) {
    const auto end =
        run::Deadline::earlier(deadline, run::Deadline::after(clock_, options_.until_welcome));
    net::FramedConnection connection(tls_->client(std::move(stream), host),
                                     bootstrap_limits(options_.pes));
    connection.send(net::make_hello(kBootstrapService));
    connection.send(saying);
    if (const Status sent = send_all(connection, end); !sent.ok())
      return error(Code::unavailable, "the listener there has not proven to be PE 0").because(sent);
    TOWPATH_TRY(next_words(connection, end).status());  // the welcome
    connection_.emplace(std::move(connection));
    return {};
  }

  const SocketBootstrapOptions& options_;
  const std::shared_ptr<const net::TlsContext> tls_ = net::TlsContext::from_token(options_.token);
  const sys::SystemClock clock_;
  std::optional<net::FramedConnection> connection_;
};

SocketBootstrap::SocketBootstrap(SocketBootstrapOptions options) : options_(std::move(options)) {}
SocketBootstrap::~SocketBootstrap() = default;

Result<std::vector<Bytes>> SocketBootstrap::all(ConstByteSpan mine) {
  if (options_.my_pe < 0 || options_.my_pe >= options_.pes)
    return error(Code::invalid_argument, cat("PE ", options_.my_pe, " of ", options_.pes),
                 "PEs are numbered from 0");
  const run::Deadline deadline = run::Deadline::after(sys::SystemClock(), options_.timeout);
  if (options_.my_pe != 0) {
    if (visitor_ == nullptr) visitor_ = std::make_unique<Visitor>(options_);
    TOWPATH_TRY(visitor_->say(mine, deadline));
    return visitor_->hear(deadline);
  }
  if (host_ == nullptr) {
    auto host = std::make_unique<Host>(options_);
    TOWPATH_TRY(host->listen());
    host_ = std::move(host);
  }
  TOWPATH_TRY(std::vector<Bytes> all, host_->hear(mine, deadline));
  TOWPATH_TRY(host_->report(all, deadline));
  return all;
}

}  // namespace towpath::shmem
