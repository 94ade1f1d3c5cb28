#include <algorithm>
#include <cstring>
#include <vector>

#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/run/deadline.h>
#include <towpath/run/poller.h>
#include <towpath/shmem/unique_id.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/local_socket.h>
#include <towpath/sys/random.h>

namespace towpath::shmem {
namespace {

constexpr std::uint32_t kIdVersion = 65'664;  // 0x10000 + 128, where NVSHMEM's has its own
constexpr Duration kPatienceWithOne = std::chrono::seconds(5);
constexpr Duration kBetweenTries = std::chrono::milliseconds(5);

/// The raw bytes.
struct Layout {
  std::uint32_t version = kIdVersion;
  std::uint32_t magic = 0x4453'5754;
  std::uint64_t name = 0;        // of the socket: anybody can see it
  std::uint64_t secret[2] = {};  // nobody can
  std::byte unused[96] = {};
};
static_assert(sizeof(Layout) == sizeof(UniqueId::Raw));

Layout layout_of(const UniqueId& id) noexcept {
  Layout layout;
  std::memcpy(&layout, id.raw().data(), sizeof layout);
  return layout;
}

sys::LocalAddress meeting_place(const UniqueId& id) {
  return {.name = cat("towpath-shmem-", hex(layout_of(id).name)), .abstract = true};
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

  bool is_complete() const { return std::ranges::count(here_, false) == 0; }

  /// Serves the one who has just connected; what goes wrong with it is kept for missing().
  void serve(sys::Fd connection, run::Deadline deadline) {
    sys::LocalSocket socket(std::move(connection));
    if (Status status = admit(socket, deadline); !status.ok()) {
      (void)socket.send(as_bytes(status.message()));
      last_refusal_ = std::move(status);
    }
  }

  Status missing() const {
    std::string out = "waited for PE";
    for (std::size_t pe = 0; pe < here_.size(); ++pe)
      if (!here_[pe]) out += cat(" ", pe);
    Status status = error(Code::timed_out, out, "start all PEs with the same identifier");
    return last_refusal_.ok() ? status : std::move(status).because(last_refusal_);
  }

 private:
  Status admit(sys::LocalSocket& socket, run::Deadline deadline) {
    TOWPATH_TRY(wait_readable(socket.fd(), deadline));
    Hello hello;
    TOWPATH_TRY(const auto received,
                socket.receive({reinterpret_cast<std::byte*>(&hello), sizeof hello}));
    TOWPATH_TRY(const auto peer, socket.peer());
    if (received.size_bytes != sizeof hello || hello.id != id_.raw() || peer.uid != ::geteuid())
      return error(Code::denied, "the identifier is another one, or the user is");
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
  static Status hand(sys::LocalSocket& socket, const sys::Fd& fd) {
    const sys::SystemClock clock;
    const run::Deadline deadline = run::Deadline::after(clock, kPatienceWithOne);
    const int number = fd.get();
    while (!deadline.expired(clock)) {
      TOWPATH_TRY(const bool sent, socket.send(as_bytes("+"), {&number, 1}));
      if (sent) return {};
      TOWPATH_TRY(auto poller, run::Poller::open());
      TOWPATH_TRY(poller.add(socket.fd(), 0, {.readable = false, .writable = true}));
      (void)poller.wait(deadline.remaining(clock));
    }
    return error(Code::timed_out, "it does not take its descriptors");
  }

  const UniqueId& id_;
  const JobFiles& files_;
  std::vector<bool> here_;
  Status last_refusal_;
};

/// Connects to PE 0, which may not have begun.
Result<sys::LocalSocket> find_host(const UniqueId& id, run::Deadline deadline) {
  const sys::SystemClock clock;
  TOWPATH_TRY(auto pause, run::Poller::open());  // watches nothing: a sleep
  while (true) {
    auto socket = sys::LocalSocket::connect(meeting_place(id));
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

UniqueId UniqueId::create() {
  Layout layout;
  layout.name = sys::random_u64();
  for (std::uint64_t& word : layout.secret) word = sys::random_u64();
  Raw raw;
  std::memcpy(raw.data(), &layout, sizeof layout);
  return UniqueId(raw);
}

Result<UniqueId> UniqueId::from_raw(const Raw& raw) {
  const UniqueId id(raw);
  const Layout layout = layout_of(id);
  if (layout.version == kIdVersion && layout.magic == Layout().magic && layout.name != 0) return id;
  return error(Code::invalid_argument,
               cat("128 bytes that are no identifier (they begin with ", hex(layout.version), ")"),
               "pass all 128 bytes of UniqueId::create()");
}

Status hand_out(const UniqueId& id, const JobFiles& files, const Joining& self) {
  const sys::SystemClock clock;
  const run::Deadline deadline = run::Deadline::after(clock, self.patience);
  TOWPATH_TRY(auto listener, sys::LocalListener::listen(meeting_place(id)));
  Host host(id, files, self.pes);
  while (!host.is_complete()) {
    if (!wait_readable(listener.fd(), deadline).ok()) return host.missing();
    TOWPATH_TRY(sys::Fd connection, listener.accept());
    if (!connection) continue;
    const run::Deadline for_one = run::Deadline::after(clock, kPatienceWithOne);
    host.serve(std::move(connection), run::Deadline::earlier(for_one, deadline));
  }
  return {};
}

Result<JobFiles> receive(const UniqueId& id, const Joining& self) {
  const run::Deadline deadline = run::Deadline::after(sys::SystemClock(), self.patience);
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
