#include <algorithm>
#include <cstring>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <unistd.h>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/run/deadline.h>
#include <towpath/run/poller.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/unique_id.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/local_socket.h>
#include <towpath/sys/random.h>

namespace towpath::shmem {
namespace {

constexpr std::uint32_t kIdVersion = 65'664;  // 0x10000 + 128, where NVSHMEM's has its own
constexpr Duration kTimeoutWithOne = std::chrono::seconds(5);
constexpr Duration kBetweenTries = std::chrono::milliseconds(5);

/// The raw bytes.
struct Layout {
  std::uint32_t version = kIdVersion;
  std::uint32_t magic = 0x4453'5754;
  std::uint64_t name = 0;        // of the socket: anybody can see it
  std::uint64_t secret[2] = {};  // nobody can
  std::uint16_t ports[2] = {};   // tried in turn; 0: of this host only
  in6_addr addresses[4] = {};
  std::byte unused[28] = {};
};
static_assert(sizeof(Layout) == sizeof(UniqueId::Raw));

Layout layout_of(const UniqueId& id) noexcept {
  Layout layout;
  std::memcpy(&layout, id.raw().data(), sizeof layout);
  return layout;
}

/// Where the descriptors of a host's job are handed out.
sys::LocalAddress hand_out_place(const UniqueId& id) {
  return {.name = cat("towpath-shmem-", hex(layout_of(id).name)), .abstract = true};
}

/// Below those that the kernel gives to outgoing sockets.
std::uint16_t some_port() {
  return static_cast<std::uint16_t>(20'000 + sys::random_u64() % 12'000);
}

/// An address of IPv4 is one of IPv6, mapped.
in6_addr address_in(const net::Endpoint& endpoint) {
  if (endpoint.storage.ss_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &endpoint.storage, sizeof six);
    return six.sin6_addr;
  }
  sockaddr_in four{};
  std::memcpy(&four, &endpoint.storage, sizeof four);
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(mapped.s6_addr + 12, &four.sin_addr, sizeof four.sin_addr);
  return mapped;
}

std::string literal(const in6_addr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&address))
    ::inet_ntop(AF_INET, address.s6_addr + 12, text, sizeof text);
  else
    ::inet_ntop(AF_INET6, &address, text, sizeof text);
  return text;
}

/// What a PE says first.
struct Hello {
  UniqueId::Raw id{};
  std::int32_t pe = 0;
  std::int32_t pes = 0;
};

template <typename T>
ConstByteSpan bytes_of(const T& value) noexcept {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

/// Sleeps until `fd` is readable. Errors: timed_out.
Status wait_readable(int fd, run::Deadline deadline) {
  const sys::SystemClock clock;
  TOWPATH_TRY(auto poller, run::Poller::open());
  TOWPATH_TRY(poller.add(fd, 0));
  while (poller.wait(deadline.remaining(clock)).empty())
    if (deadline.expired(clock)) return error(Code::timed_out, "nothing came");
  return {};
}

/// The listening side: PE 0.
class Host {
 public:
  Host(const UniqueId& id, const JobFiles& files, int pes)
      : id_(id), files_(files), here_(static_cast<std::size_t>(pes), false) {
    here_[0] = true;
  }

  /// Serves those that come, each when it has said something, until all PEs were here.
  Status serve_all(sys::LocalListener& listener, run::Deadline deadline) {
    TOWPATH_TRY(poller_, run::Poller::open());
    TOWPATH_TRY(poller_->add(listener.fd(), kListenerTag));
    while (std::ranges::count(here_, false) > 0) {
      if (deadline.expired(clock_)) return missing();
      const auto events = poller_->wait(next_turn(deadline).remaining(clock_));
      for (const run::PollEvent& event : events)
        if (event.tag != kListenerTag)
          serve(*reinterpret_cast<Guest*>(event.tag));
        else
          TOWPATH_TRY(let_in(listener));
      drop_overdue();
      std::erase_if(guests_, [](const Guest& guest) { return guest.is_gone; });
    }
    return {};
  }

 private:
  static constexpr std::uint64_t kListenerTag = 0;
  static constexpr std::size_t kMaxGuests = 64;

  struct Guest {
    sys::LocalSocket socket;
    Instant ends_at;  // unless it has said by then which PE it is
    bool is_gone = false;
  };

  Status let_in(sys::LocalListener& listener) {
    TOWPATH_TRY(sys::Fd connection, listener.accept());
    if (!connection) return {};
    if (guests_.size() >= kMaxGuests) make_room(guests_.front());
    Guest& guest = guests_.emplace_back(Guest{.socket = sys::LocalSocket(std::move(connection)),
                                              .ends_at = clock_.now() + kTimeoutWithOne});
    // Anybody of this host can connect: the kernel knows the user before anything is said.
    if (const auto peer = guest.socket.peer(); !peer.ok() || peer->uid != ::geteuid())
      refuse(guest, error(Code::denied, "the user is another one"));
    else if (Status watched = poller_->add(guest.socket.fd(), address_of(&guest)); !watched.ok())
      refuse(guest, std::move(watched));
    return {};
  }

  /// The list keeps it where it is.
  void serve(Guest& guest) {
    if (guest.is_gone) return;
    Hello hello;
    const auto received =
        guest.socket.receive({reinterpret_cast<std::byte*>(&hello), sizeof hello});
    if (received.ok() && received->nothing) return;
    Status admitted = !received.ok() ? received.status()
                      : received->size_bytes == sizeof hello && hello.id == id_.raw()
                          ? admit(guest.socket, hello)
                          : error(Code::denied, "the identifier is another one");
    if (!admitted.ok()) return refuse(guest, std::move(admitted));
    guest.is_gone = true;
  }

  /// What goes wrong with one is kept for missing().
  void refuse(Guest& guest, Status why) {
    (void)guest.socket.send(as_bytes(why.message()));
    guest.is_gone = true;
    last_refusal_ = std::move(why);
  }

  void make_room(Guest& oldest) {
    serve(oldest);
    if (!oldest.is_gone) refuse(oldest, error(Code::exhausted, "another takes its place"));
  }

  void drop_overdue() {
    for (Guest& guest : guests_)
      if (!guest.is_gone && guest.ends_at <= clock_.now())
        refuse(guest, error(Code::timed_out, "nothing came"));
  }

  /// When there is something to do though nobody says anything.
  run::Deadline next_turn(run::Deadline deadline) const {
    for (const Guest& guest : guests_)
      deadline = run::Deadline::earlier(deadline, run::Deadline(guest.ends_at));
    return deadline;
  }

  Status missing() const {
    std::string out = "waited for PE";
    for (std::size_t pe = 0; pe < here_.size(); ++pe)
      if (!here_[pe]) out += cat(" ", pe);
    Status status = error(Code::timed_out, out, "start all PEs with the same identifier");
    return last_refusal_.ok() ? status : std::move(status).because(last_refusal_);
  }

  Status admit(sys::LocalSocket& socket, const Hello& hello) {
    const auto pes = static_cast<std::int32_t>(here_.size());
    if (hello.pes != pes || hello.pe < 0 || hello.pe >= pes)
      return error(Code::invalid_argument,
                   cat("PE ", hello.pe, " of ", hello.pes, " PEs, where PE 0 knows of ", pes));
    const auto pe = static_cast<std::size_t>(hello.pe);
    if (here_[pe]) return error(Code::already_exists, cat("PE ", hello.pe, " was here before"));
    TOWPATH_TRY(hand(socket, files_.control));
    for (const sys::Fd& heap : files_.heaps) TOWPATH_TRY(hand(socket, heap));
    here_[pe] = true;
    return {};
  }

  /// One descriptor in a message of its own. Its size is a byte, so the socket's buffer holds all.
  Status hand(sys::LocalSocket& socket, const sys::Fd& fd) const {
    const run::Deadline deadline = run::Deadline::after(clock_, kTimeoutWithOne);
    const int number = fd.get();
    while (!deadline.expired(clock_)) {
      TOWPATH_TRY(const bool sent, socket.send(as_bytes("+"), {&number, 1}));
      if (sent) return {};
      TOWPATH_TRY(auto poller, run::Poller::open());
      TOWPATH_TRY(poller.add(socket.fd(), 0, {.readable = false, .writable = true}));
      (void)poller.wait(deadline.remaining(clock_));
    }
    return error(Code::timed_out, "it does not take its descriptors");
  }

  const UniqueId& id_;
  const JobFiles& files_;
  const sys::SystemClock clock_;
  std::optional<run::Poller> poller_;
  std::list<Guest> guests_;
  std::vector<bool> here_;
  Status last_refusal_;
};

/// Connects to PE 0, which may not have begun.
Result<sys::LocalSocket> find_host(const UniqueId& id, run::Deadline deadline) {
  const sys::SystemClock clock;
  TOWPATH_TRY(auto pause, run::Poller::open());  // watches nothing: a sleep
  while (true) {
    auto socket = sys::LocalSocket::connect(hand_out_place(id));
    if (socket.ok()) return socket;
    if (deadline.expired(clock))
      return error(Code::timed_out, "no PE 0 of this identifier on this host",
                   "start it, with the same identifier")
          .because(socket.status());
    (void)pause.wait(kBetweenTries);
  }
}

Result<sys::Fd> take(sys::LocalSocket& socket, run::Deadline deadline) {
  TOWPATH_TRY(wait_readable(socket.fd(), deadline));
  Bytes text(512);
  TOWPATH_TRY(auto received, socket.receive(text));
  if (received.fds.size() == 1) return std::move(received.fds.front());
  if (received.closed) return error(Code::peer_lost, "PE 0 went away");
  text.resize(received.size_bytes);
  return error(Code::denied, cat("PE 0 refuses this PE: ", printable(as_text(text), 400)));
}

}  // namespace

UniqueId UniqueId::create(const UniqueIdOptions& options) {
  Layout layout;
  layout.name = sys::random_u64();
  for (std::uint64_t& word : layout.secret) word = sys::random_u64();
  if (!options.for_this_host) {
    for (std::uint16_t& port : layout.ports) port = some_port();
    // A machine that cannot determine its addresses can still be met on itself.
    const auto own = net::own_endpoints(options.interface);
    for (std::size_t i = 0; own.ok() && i < std::min(own->size(), std::size(layout.addresses)); ++i)
      layout.addresses[i] = address_in((*own)[i]);
  }
  Raw raw;
  std::memcpy(raw.data(), &layout, sizeof layout);
  return UniqueId(raw);
}

Result<UniqueId> UniqueId::from_raw(const Raw& raw) {
  const UniqueId id(raw);
  const Layout layout = layout_of(id);
  if (layout.version == kIdVersion && layout.magic == Layout().magic && layout.name != 0) return id;
  if (layout.version != kIdVersion && layout.magic == Layout().magic)
    return error(
        Code::unsupported,
        cat("an identifier of version ", layout.version, "; this side knows version ", kIdVersion),
        "use the same release for all PEs");
  return error(Code::invalid_argument,
               cat("128 bytes that are no identifier (they begin with ", hex(layout.version), ")"),
               "pass all 128 bytes of UniqueId::create()");
}

std::vector<net::Address> places_of(const UniqueId& id) {
  const Layout layout = layout_of(id);
  std::vector<net::Address> places{
      sys::LocalAddress{.name = cat("towpath-shmem-meeting-", hex(layout.name)), .abstract = true}};
  for (const std::uint16_t port : layout.ports)
    for (const in6_addr& address : layout.addresses)
      if (port != 0 && !IN6_IS_ADDR_UNSPECIFIED(&address))
        places.emplace_back(net::TcpAddress{.host = literal(address), .port = port});
  return places;
}

net::Token token_of(const UniqueId& id) {
  const Layout layout = layout_of(id);
  auto token = net::Token::make(cat(hex(layout.secret[0]), hex(layout.secret[1])));
  TOWPATH_CHECK(token.ok(), "a token of 16 bytes and more");
  return *std::move(token);
}

Status hand_out(const UniqueId& id, const JobFiles& files, const Joining& self) {
  const run::Deadline deadline = run::Deadline::after(sys::SystemClock(), self.timeout);
  TOWPATH_TRY(auto listener, sys::LocalListener::listen(hand_out_place(id)));
  return Host(id, files, self.pes).serve_all(listener, deadline);
}

Result<JobFiles> receive(const UniqueId& id, const Joining& self) {
  const run::Deadline deadline = run::Deadline::after(sys::SystemClock(), self.timeout);
  TOWPATH_TRY(auto socket, find_host(id, deadline));
  const Hello hello{.id = id.raw(), .pe = self.my_pe, .pes = self.pes};
  TOWPATH_TRY(socket.send(bytes_of(hello)));
  JobFiles files;
  TOWPATH_TRY(files.control, take(socket, deadline));
  for (int pe = 0; pe < self.pes; ++pe) {
    TOWPATH_TRY(sys::Fd heap, take(socket, deadline));
    files.heaps.push_back(std::move(heap));
  }
  return files;
}

}  // namespace towpath::shmem
