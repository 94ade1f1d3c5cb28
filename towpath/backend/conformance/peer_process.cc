#include <cstring>
#include <optional>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/backend/conformance/peer_process.h>
#include <towpath/backend/conformance/world.h>
#include <towpath/core/format.h>
#include <towpath/memory/shared_region.h>

namespace towpath::backend::conformance {
namespace {

constexpr unsigned kChildLifeSeconds = 300;
constexpr int kAnswerSeconds = 60;
constexpr std::size_t kMessageBytes = 128 * 1024;

std::uint64_t number_in(ConstByteSpan bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min(sizeof number, bytes.size()));
  return number;
}

Bytes bytes_of(std::uint64_t number) {
  const auto* first = reinterpret_cast<const std::byte*>(&number);
  return {first, first + sizeof number};
}

/// What runs in the child.
class Child {
 public:
  Child(const Candidate& candidate, const PeerProcess::Options& options, int channel)
      : channel_(channel), registry_(candidate.make_registry()) {
    auto agent = make_agent(candidate, registry_, clock_, {.name = options.name});
    auto memory = TestMemory::make(options.store, options.pool_bytes);
    if (!agent.ok() || !memory.ok()) ::_exit(2);
    agent_ = *std::move(agent);
    memory_ = *std::move(memory);
    auto pool = agent_->register_region(memory_.region());
    if (!pool.ok()) ::_exit(3);
    pool_ = *std::move(pool);
  }

  int run() {
    pollfd watched[2] = {{channel_, POLLIN, 0}, {agent_->wait_fd(), POLLIN, 0}};
    Bytes message(kMessageBytes);
    while (true) {
      const bool wrote = write_on();
      const bool more = agent_ && (agent_->progress() || wrote);
      ::poll(watched, agent_ ? 2 : 1, more ? 0 : 50);
      if ((watched[0].revents & (POLLIN | POLLHUP)) == 0) continue;
      const ssize_t size = ::read(channel_, message.data(), message.size());
      if (size <= 0) return 0;  // the parent has let go
      const Bytes answer =
          obey(static_cast<char>(message[0]),
               ConstByteSpan(message).subspan(1, static_cast<std::size_t>(size) - 1));
      if (::write(channel_, answer.data(), answer.size()) < 0) return 1;
    }
  }

 private:
  Bytes obey(char verb, ConstByteSpan argument) {
    switch (verb) {
      case 'c': return *agent_->metadata();
      case 'l': return to_bytes(agent_->load_metadata(argument).ok() ? "ok" : "refused");
      case 'f':
        memory_.write(random_bytes(number_in(argument), memory_.size()));
        return to_bytes("ok");
      case 'd': return bytes_of(digest_of(memory_.read()));
      case 'r': return region();
      case 't': return to_bytes(take(number_in(argument)));
      case 'w': return to_bytes(begin_to_write(argument) ? "ok" : "refused");
      case 's': return to_bytes(send(argument) ? "ok" : "refused");
      case 'u': return to_bytes(pool_.release().ok() ? "ok" : "refused");
      case 'g': return to_bytes(register_again() ? "ok" : "refused");
      case 'x': return to_bytes(close() ? "ok" : "refused");
      default: return to_bytes("ok");
    }
  }
  Bytes region() {
    const RegionDescriptor mine = memory_.region()->descriptor();
    Bytes reported = bytes_of(mine.address);
    for (const auto number : {mine.length, static_cast<std::uint64_t>(mine.fd), mine.fd_offset}) {
      const Bytes next = bytes_of(number);
      reported.insert(reported.end(), next.begin(), next.end());
    }
    return reported;
  }
  std::string take(std::uint64_t count) {
    std::string lines;
    run_until({agent_.get()}, [&] {
      for (const agent::Notification& reported : agent_->take_notifications()) {
        lines.append(as_text(reported.message)).append("\n");
        --count;
      }
      return count == 0;
    });
    return lines;
  }
  bool send(ConstByteSpan argument) {
    const std::uint64_t count = number_in(argument);
    const std::string_view to = as_text(argument.subspan(8));
    for (std::uint64_t i = 0; i < count; ++i) {
      Status sent;
      run_until({agent_.get()}, [&] {
        sent = agent_->notify(to, as_bytes(std::to_string(i)));
        return sent.code() != Code::exhausted;
      });
      if (!sent.ok()) return false;
    }
    return true;
  }

  bool register_again() {
    write_.reset();
    if (pool_.is_registered()) return true;
    auto pool = agent_->register_region(memory_.region());
    if (pool.ok()) pool_ = *std::move(pool);
    return pool_.is_registered();
  }
  bool close() {
    write_.reset();
    pool_ = {};
    agent_.reset();
    return true;
  }

  bool begin_to_write(ConstByteSpan argument) {
    RegionDescriptor target{.kind = static_cast<MemoryKind>(number_in(argument)),
                            .address = number_in(argument.subspan(8)),
                            .length = number_in(argument.subspan(16))};
    const std::uint64_t each = number_in(argument.subspan(24));
    const std::string_view to = as_text(argument.subspan(32));
    const auto extents = strided({.length = each, .stride = each, .count = target.length / each});
    auto write = agent_->create_transfer(TransferOp::write, list_of(extents, memory_), to,
                                         list_of(extents, target));
    if (!write.ok()) return false;
    write_ = *std::move(write);
    return write_->post().ok();
  }
  /// Whether it still writes.
  bool write_on() {
    if (write_ && write_->ended() && !write_->post().ok()) write_.reset();
    return write_.has_value();
  }

  const int channel_;
  sys::SystemClock clock_;
  Registry registry_;
  TestMemory memory_;
  std::unique_ptr<agent::Agent> agent_;
  memory::Registration pool_;
  std::optional<agent::Transfer> write_;  // that is made over and over
};

constexpr int kChannel = 3;  // behind the standard ones
constexpr std::string_view kFlag = "--peer=";

/// In the child, between fork and exec. It starts anew because a library with threads of its own
/// (UCX) does not survive a fork.
[[noreturn]] void start_anew(int end, char* const arguments[]) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kChildLifeSeconds);
  if (end != kChannel) {
    ::dup2(end, kChannel);
  } else {
    ::fcntl(kChannel, F_SETFD, 0);
  }
  ::close_range(kChannel + 1, ~0U, 0);
  ::execv("/proc/self/exe", arguments);
  ::_exit(127);
}

std::string argument_of(const Candidate& candidate, const PeerProcess::Options& options) {
  return cat(kFlag, static_cast<int>(options.store), ":", options.pool_bytes, ":", candidate.name,
             ":", options.name);
}

/// Cuts the text up to the next colon off.
std::string_view next_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(':'));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

}  // namespace

std::uint64_t digest_of(ConstByteSpan bytes) {
  std::uint64_t digest = 14695981039346656037ULL;
  for (const std::byte byte : bytes)
    digest = (digest ^ static_cast<std::uint64_t>(byte)) * 1099511628211ULL;
  return digest;
}

std::optional<int> run_as_peer(std::string_view argument) {
  if (!argument.starts_with(kFlag)) return std::nullopt;
  argument.remove_prefix(kFlag.size());
  PeerProcess::Options options;
  options.store = static_cast<Store>(std::stoi(std::string(next_word(argument))));
  options.pool_bytes = std::stoull(std::string(next_word(argument)));
  const std::string_view name = next_word(argument);
  options.name = argument;
  for (const Candidate& candidate : candidates()) {
    if (candidate.name == name) return Child(candidate, options, kChannel).run();
  }
  return 4;
}

PeerProcess::PeerProcess(const Candidate& candidate, const Options& options) : options_(options) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  std::string program = "peer";
  std::string argument = argument_of(candidate, options);
  char* const arguments[] = {program.data(), argument.data(), nullptr};
  pid_ = ::fork();
  if (pid_ == 0) start_anew(ends[1], arguments);
  ::close(ends[1]);
  channel_ = sys::Fd(ends[0]);
  const timeval limit{kAnswerSeconds, 0};
  ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const Bytes reported = ask('r');
  if (reported.size() != 32) return;
  region_.address = number_in(ConstByteSpan(reported).subspan(0));
  region_.length = number_in(ConstByteSpan(reported).subspan(8));
  region_.fd = static_cast<int>(number_in(ConstByteSpan(reported).subspan(16)));
  region_.fd_offset = number_in(ConstByteSpan(reported).subspan(24));
}

PeerProcess::~PeerProcess() {
  if (pid_ <= 0) return;
  kill_now();
  if (freezer_) freezer_->thaw();  // what is frozen does not die
  ::waitpid(pid_, nullptr, 0);
}

Status PeerProcess::freeze() {
  if (!freezer_) {
    TOWPATH_TRY(freezer_, Freezer::make());
    TOWPATH_TRY(freezer_->add(pid_));
  }
  return freezer_->freeze();
}

void PeerProcess::go_on() const {
  ::kill(pid_, SIGCONT);
  if (freezer_) freezer_->thaw();
}

bool PeerProcess::write_pool(ConstByteSpan bytes) const {
  const iovec from{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const iovec into{reinterpret_cast<void*>(region_.address), bytes.size()};
  return ::process_vm_writev(pid_, &from, 1, &into, 1, 0) == static_cast<ssize_t>(bytes.size());
}

bool PeerProcess::read_pool(ByteSpan into) const {
  const iovec to{into.data(), into.size()};
  const iovec from{reinterpret_cast<void*>(region_.address), into.size()};
  return ::process_vm_readv(pid_, &to, 1, &from, 1, 0) == static_cast<ssize_t>(into.size());
}

Bytes PeerProcess::ask(char verb, ConstByteSpan argument) const {
  Bytes message{static_cast<std::byte>(verb)};
  message.insert(message.end(), argument.begin(), argument.end());
  Bytes answer(kMessageBytes);
  ssize_t size = ::send(channel_.get(), message.data(), message.size(), MSG_NOSIGNAL);
  if (size > 0) {
    do {  // with a limit of time, a stop (SIGSTOP) interrupts it: socket(7), signal(7)
      size = ::read(channel_.get(), answer.data(), answer.size());
    } while (size < 0 && errno == EINTR);
  }
  EXPECT_GT(size, 0) << "the child does not answer to " << verb;
  answer.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return answer;
}

void PeerProcess::fill(std::uint64_t seed) const { (void)ask('f', bytes_of(seed)); }
std::uint64_t PeerProcess::digest() const { return number_in(ask('d')); }

std::string PeerProcess::take(std::uint64_t count) const {
  return std::string(as_text(ask('t', bytes_of(count))));
}

bool PeerProcess::send(const std::string& to, std::uint64_t count) const {
  Bytes argument = bytes_of(count);
  const ConstByteSpan name = as_bytes(to);
  argument.insert(argument.end(), name.begin(), name.end());
  return as_text(ask('s', argument)) == "ok";
}

bool PeerProcess::keep_writing(const std::string& to, const RegionDescriptor& target,
                               std::uint64_t extent_bytes) const {
  Bytes argument = bytes_of(static_cast<std::uint64_t>(target.kind));
  for (const Bytes& next :
       {bytes_of(target.address), bytes_of(target.length), bytes_of(extent_bytes)})
    argument.insert(argument.end(), next.begin(), next.end());
  const ConstByteSpan name = as_bytes(to);
  argument.insert(argument.end(), name.begin(), name.end());
  return as_text(ask('w', argument)) == "ok";
}

TestMemory PeerProcess::map() const {
  const std::string path = cat("/proc/", pid_, "/fd/", region_.fd);
  auto region = memory::SharedMemoryRegion::map(
      sys::Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC)),
      {.fd_offset = region_.fd_offset, .size_bytes = region_.length});
  EXPECT_TRUE(region.ok()) << region.status().to_string();
  return region.ok() ? TestMemory(*std::move(region)) : TestMemory();
}

}  // namespace towpath::backend::conformance
