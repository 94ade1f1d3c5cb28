// What needs two processes: the peer is a forked child with a backend of its own.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <functional>

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/backend/slice_runner.h>
#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/core/format.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>

namespace towpath::backends::shm {
namespace {

using namespace backend;
using backend::testing::RecordingEvents;

constexpr std::uint64_t kPoolBytes = 16 * kSliceBytes;
constexpr std::uint64_t kBeforeDevice = 4096;  // the region begins within its allocation
constexpr int kWatchdogSeconds = 120;  // processes under TSan on a busy machine start slowly

using DriverPointer = std::shared_ptr<device::Driver>;

/// By which way the child's bytes are reached; described by these words.
enum class Path { mapped, process_vm, device };
std::string name_of(Path path) {
  return path == Path::mapped ? "mapped" : path == Path::process_vm ? "process_vm" : "device";
}
constexpr const char* kWords[] = {"memfd", "process_vm", "copies of the device"};

/// A record on its way through a pipe.
struct Blob {
  void set(const Bytes& from) {
    size = from.size();
    std::ranges::copy(from, bytes.begin());
  }
  ConstByteSpan get() const { return ConstByteSpan(bytes).first(size); }

  std::array<std::byte, 512> bytes;
  std::uint64_t size;
};

/// What the child tells: how to reach it and what it has.
struct Offer {
  Blob info, shared_key, plain_key, device_key;
  std::uint64_t shared_address, plain_address, device_address;
};

/// The child: memory with byte i = i * 7, a backend, and a loop that obeys single letters:
///   n: notify "0" .. "1999"   q: end in good order   x: run another program   others: nothing
class Child {
 public:
  Child(int channel, const AgentIdentity& self) : channel_(channel) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(kWatchdogSeconds);
    memfd_ = *sys::create_sealed_memfd("child", kPoolBytes);
    shared_ = *sys::Mapping::of_file({.fd = memfd_.get(), .size_bytes = kPoolBytes});
    plain_ = *sys::Mapping::anonymous(kPoolBytes);
    for (std::uint64_t i = 0; i < kPoolBytes; ++i)
      shared_.data()[i] = plain_.data()[i] = static_cast<std::byte>(i * 7);
    driver_ = std::make_shared<device::HostDriver>(clock_);
    backend_ = *shm_type({.open = [this] {
                  return Result(DriverPointer(driver_));
                }}).open({.self = self, .clock = &clock_, .events = &events_});
    on_device_ = *(*driver_->open(0))->allocate(kBeforeDevice + kPoolBytes);
    (void)(*driver_->open(0))->copy({device_address(), address_of(shared_.data()), kPoolBytes});
  }

  int run() {
    const auto shared = *backend_->register_memory(
        {.address = address_of(shared_.data()), .length = kPoolBytes, .fd = memfd_.get()});
    const auto plain =
        *backend_->register_memory({.address = address_of(plain_.data()), .length = kPoolBytes});
    const auto on_device = *backend_->register_memory(
        {.kind = MemoryKind::device, .address = device_address(), .length = kPoolBytes});
    make_offer(*shared, *plain, *on_device);
    pollfd watched[2] = {{channel_, POLLIN, 0}, {backend_->wait_fd(), POLLIN, 0}};
    while (true) {
      while (backend_->progress()) continue;
      say_more();
      ::poll(watched, 2, left_to_say_ > 0 ? 1 : -1);
      char letter = 0;
      if ((watched[0].revents & POLLIN) != 0 && ::read(channel_, &letter, 1) != 1) return 1;
      if (letter == 'q') return 0;
      if (letter == 'n') begin_to_say();
      if (letter == 'x') ::execl("/bin/sleep", "sleep", "600", nullptr);
    }
  }

 private:
  std::uint64_t device_address() const { return on_device_.address() + kBeforeDevice; }
  void make_offer(const Memory& shared, const Memory& plain, const Memory& on_device) {
    Offer offer{};
    offer.info.set(backend_->connection_info());
    offer.shared_key.set(shared.key());
    offer.plain_key.set(plain.key());
    offer.device_key.set(on_device.key());
    offer.shared_address = address_of(shared_.data());
    offer.plain_address = address_of(plain_.data());
    offer.device_address = device_address();
    (void)!::write(channel_, &offer, sizeof offer);
  }
  void begin_to_say() {
    char name = 0;
    Bytes info(512);
    (void)!::read(channel_, &name, 1);
    const ssize_t size = ::read(channel_, info.data(), info.size());
    info.resize(static_cast<std::size_t>(size));
    listener_ = *backend_->connect({std::string(1, name), 1}, info);
    left_to_say_ = 2000;
  }
  void say_more() {
    while (left_to_say_ > 0 &&
           backend_->notify(*listener_, as_bytes(std::to_string(2000 - left_to_say_))).ok())
      --left_to_say_;
  }

  int channel_;
  sys::SystemClock clock_;
  RecordingEvents events_;
  DriverPointer driver_;
  device::Memory on_device_;
  std::unique_ptr<Backend> backend_;
  sys::Fd memfd_;
  sys::Mapping shared_, plain_;
  std::unique_ptr<Connection> listener_;
  int left_to_say_ = 0;
};

/// The parent's end of a child.
class Peer {
 public:
  explicit Peer(AgentIdentity its_identity) : identity(std::move(its_identity)) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      ::_exit(Child(ends[1], identity).run());
    }
    ::close(ends[1]);
    channel = sys::Fd(ends[0]);
    const timeval limit{kWatchdogSeconds, 0};
    ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::read(ends[0], &offer, sizeof offer) != sizeof offer) std::abort();
  }
  ~Peer() { end(SIGKILL); }

  void say(const void* bytes, std::size_t size) {
    EXPECT_EQ(::write(channel.get(), bytes, size), static_cast<ssize_t>(size));
  }
  /// Kills and buries it.
  void end(int signal) {
    if (pid <= 0) return;
    ::kill(pid, signal);
    ::kill(pid, SIGCONT);
    ::waitpid(pid, nullptr, 0);
    pid = -1;
  }
  ConstByteSpan info() const { return offer.info.get(); }

  const AgentIdentity identity;
  pid_t pid = -1;
  sys::Fd channel;
  Offer offer{};
};

/// Another process that has got the pid of one that was buried, and memory where that one had some.
class Impostor {
 public:
  Impostor(pid_t pid_before, std::uint64_t address)
      : memfd_(*sys::create_sealed_memfd("impostor", kPoolBytes)),
        bytes_(*sys::Mapping::of_file({.fd = memfd_.get(), .size_bytes = kPoolBytes})) {
    int ready[2];
    if (::pipe(ready) != 0) std::abort();
    clone_args how{};
    how.exit_signal = SIGCHLD;
    how.set_tid = address_of(&pid_before);
    how.set_tid_size = 1;
    pid_ = static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      void* const there = ::mmap(reinterpret_cast<void*>(address), kPoolBytes,
                                 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd_.get(), 0);
      (void)!::write(ready[1], &there, sizeof there);
      while (true) ::pause();
    }
    ::close(ready[1]);
    void* there = nullptr;
    if (pid_ > 0) has_pool_ = ::read(ready[0], &there, sizeof there) > 0 && there != MAP_FAILED;
    ::close(ready[0]);
  }
  ~Impostor() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  /// False: this user may not choose pids, or the pid was taken meanwhile.
  bool lives() const { return has_pool_; }
  bool is_untouched() const {
    return std::all_of(bytes_.data(), bytes_.data() + kPoolBytes,
                       [](std::byte byte) { return byte == std::byte{0}; });
  }

 private:
  sys::Fd memfd_;
  sys::Mapping bytes_;
  pid_t pid_ = -1;
  bool has_pool_ = false;
};

class TwoProcessesTest : public ::testing::Test {
 protected:
  TwoProcessesTest() {
    EXPECT_EQ(::signal(SIGALRM, SIG_DFL) == SIG_ERR, false);
    ::alarm(kWatchdogSeconds);
    const auto driver = [this] {
      return Result(DriverPointer(std::make_shared<device::HostDriver>(clock_)));
    };
    backend_ =
        *shm_type({.open = driver}).open({.self = self_, .clock = &clock_, .events = &events_});
    bytes_.resize(kPoolBytes);
    memory_ =
        *backend_->register_memory({.address = address_of(bytes_.data()), .length = kPoolBytes});
  }
  ~TwoProcessesTest() override { ::alarm(0); }

  void attach(Peer& peer, Path by) {
    auto connection = backend_->connect(peer.identity, peer.info());
    ASSERT_TRUE(connection.ok()) << connection.status().to_string();
    way_ = *std::move(connection);
    const Offer& has = peer.offer;
    const std::uint64_t addresses[] = {has.shared_address, has.plain_address, has.device_address};
    const Blob* const keys[] = {&has.shared_key, &has.plain_key, &has.device_key};
    const auto index = static_cast<std::size_t>(by);
    remote_address_ = addresses[index];
    auto imported = backend_->import_memory(
        *way_,
        {.kind = by == Path::device ? MemoryKind::device : MemoryKind::system,
         .address = remote_address_,
         .length = kPoolBytes},
        keys[index]->get());
    ASSERT_TRUE(imported.ok()) << imported.status().to_string();
    remote_ = *std::move(imported);
    EXPECT_NE(backend_->describe_path(*memory_, *remote_).find(kWords[index]), std::string::npos);
  }
  std::vector<Segment> all(std::uint64_t length = kPoolBytes) {
    return {{.local = memory_.get(),
             .remote = remote_.get(),
             .local_address = address_of(bytes_.data()),
             .remote_address = remote_address_,
             .length = length}};
  }
  /// Moves that many bytes and waits for the end.
  Status transfer(TransferOp op, std::uint64_t length = kPoolBytes) {
    const auto operation = backend_->make_operation();
    const auto segments = all(length);
    const std::size_t before = events_.count(*operation);  // of one that lay at the same place
    operation->post({op, way_.get(), segments});
    run_until([&] { return events_.count(*operation) > before; });
    return events_.last(*operation).status;
  }
  bool is_pattern(std::uint64_t length = kPoolBytes) const {
    for (std::uint64_t i = 0; i < length; ++i)
      if (bytes_[i] != static_cast<std::byte>(i * 7)) return false;
    return true;
  }
  /// Makes progress until `done`; sleeps on wait_fd(). The alarm is the watchdog.
  void run_until(const std::function<bool()>& done) {
    while (!done()) {
      if (backend_->progress()) continue;
      if (done()) return;
      pollfd watched{backend_->wait_fd(), POLLIN, 0};
      ::poll(&watched, 1, -1);
    }
  }

  const AgentIdentity self_{"p", 1};
  sys::SystemClock clock_;
  RecordingEvents events_;
  std::unique_ptr<Backend> backend_;
  Bytes bytes_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Connection> way_;
  std::unique_ptr<Memory> remote_;
  std::uint64_t remote_address_ = 0;
};

class ShmProcessTest : public TwoProcessesTest, public ::testing::WithParamInterface<Path> {};

TEST_P(ShmProcessTest, bytes_move_both_ways) {
  Peer peer({"c", 5});
  attach(peer, GetParam());
  ASSERT_TRUE(transfer(TransferOp::read).ok());
  EXPECT_TRUE(is_pattern());
  std::memset(bytes_.data(), 3, kPoolBytes);
  EXPECT_TRUE(transfer(TransferOp::write).ok());
  std::memset(bytes_.data(), 4, kPoolBytes);
  EXPECT_TRUE(transfer(TransferOp::read).ok());
  EXPECT_EQ(bytes_, Bytes(kPoolBytes, std::byte{3}));
}

TEST_P(ShmProcessTest, stopped_peer_does_not_stop_copies) {
  Peer peer({"c", 5});
  attach(peer, GetParam());
  ASSERT_EQ(::kill(peer.pid, SIGSTOP), 0);
  EXPECT_TRUE(transfer(TransferOp::read).ok());
  EXPECT_TRUE(is_pattern());
  EXPECT_TRUE(events_.losses.empty());
}

TEST_P(ShmProcessTest, peer_killed_during_a_copy_is_lost_once_and_the_copy_fails) {
  Peer peer({"c", 5});
  attach(peer, GetParam());
  const auto operation = backend_->make_operation();
  const auto segments = all();
  operation->post({TransferOp::read, way_.get(), segments});
  for (int slice = 0; slice < 5; ++slice) backend_->progress();
  ASSERT_EQ(events_.count(*operation), 0u);
  peer.end(SIGKILL);
  run_until([&] { return !events_.losses.empty() && events_.count(*operation) == 1; });
  EXPECT_EQ(events_.last(*operation).status.code(), Code::peer_lost);
  EXPECT_LT(events_.last(*operation).bytes, kPoolBytes);
  EXPECT_TRUE(is_pattern(events_.last(*operation).bytes));
  EXPECT_EQ(events_.losses.size(), 1u);
  while (backend_->progress()) continue;
  pollfd watched{backend_->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 0);  // told once, then silent
  operation->post({TransferOp::read, way_.get(), segments});
  EXPECT_EQ(events_.last(*operation).status.code(), Code::peer_lost);
  EXPECT_EQ(events_.losses.size(), 1u);
}

TEST_P(ShmProcessTest, killed_peer_is_seen_without_a_progress_in_between) {
  Peer peer({"c", 5});
  attach(peer, GetParam());
  peer.end(SIGKILL);
  EXPECT_EQ(transfer(TransferOp::read, 8 * kSliceBytes).code(), Code::peer_lost);
}

// By the way that names the peer by its pid.
TEST_F(TwoProcessesTest, whoever_has_got_the_pid_of_a_killed_peer_is_left_alone) {
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    remote_.reset();
    way_.reset();
    Peer peer({"c", 5});
    attach(peer, Path::process_vm);
    const pid_t pid = peer.pid;
    peer.end(SIGKILL);
    const Impostor impostor(pid, remote_address_);
    if (!impostor.lives()) GTEST_SKIP() << "needs CAP_CHECKPOINT_RESTORE, to choose a pid";
    std::memset(bytes_.data(), 3, kPoolBytes);
    EXPECT_EQ(transfer(op, 4096).code(), Code::peer_lost);  // in one call to the kernel
    EXPECT_TRUE(impostor.is_untouched());
  }
}

// It has the pid and the start time of the peer.
TEST_F(TwoProcessesTest, another_program_in_the_process_of_a_peer_is_not_the_peer) {
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    remote_.reset();
    way_.reset();
    Peer peer({"c", 5});
    attach(peer, Path::process_vm);
    peer.say("x", 1);
    char nothing = 0;
    ASSERT_EQ(::read(peer.channel.get(), &nothing, 1), 0) << "exec() closes it";
    EXPECT_EQ(transfer(op, 4096).code(), Code::peer_lost);
  }
}

TEST_P(ShmProcessTest, restarted_peer_is_another_one) {
  auto first = std::make_unique<Peer>(AgentIdentity{"c", 5});
  attach(*first, GetParam());
  const Offer stale = first->offer;
  first->end(SIGKILL);
  run_until([&] { return events_.losses.size() == 1; });
  remote_.reset();
  way_.reset();
  Peer second({"c", 6});
  const auto old_info = stale.info.get();
  EXPECT_EQ(backend_->connect({"c", 5}, old_info).code(), Code::peer_lost);
  EXPECT_EQ(backend_->connect({"c", 6}, old_info).code(), Code::corrupt);
  attach(second, GetParam());
  EXPECT_TRUE(transfer(TransferOp::read).ok());
  EXPECT_TRUE(is_pattern());
}

TEST_P(ShmProcessTest, peer_that_quits_is_lost) {
  Peer peer({"c", 5});
  attach(peer, GetParam());
  peer.say("q", 1);
  run_until([&] { return !events_.losses.empty(); });
  EXPECT_EQ(events_.losses.size(), 1u);
}

TEST_P(ShmProcessTest, notifications_arrive_in_order_with_and_without_room) {
  Peer peer({"c", 5});
  peer.say("n", 1);
  peer.say("p", 1);
  const Bytes info = backend_->connection_info();
  peer.say(info.data(), info.size());
  events_.accept = 100;
  run_until([&] { return events_.offers > 100; });
  EXPECT_EQ(events_.notifications.size(), 100u);
  events_.accept = UINT64_MAX;
  backend_->progress();
  run_until([&] { return events_.notifications.size() == 2000; });
  for (std::size_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(events_.notifications[i].message, std::to_string(i));
    ASSERT_EQ(events_.notifications[i].from, peer.identity);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ShmProcessTest,
                         ::testing::Values(Path::mapped, Path::process_vm, Path::device),
                         [](const auto& path) { return name_of(path.param); });

}  // namespace
}  // namespace towpath::backends::shm
