// Two coroutines in one loop of epoll, without a thread: one pulls blocks and awaits each pull, the
// other awaits what the first reports. Any event loop does in the place of this one.
#include <algorithm>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include <sys/epoll.h>
#include <unistd.h>

#include <towpath/agent/awaiting.h>
#include <towpath/memory/shared_region.h>
#include <towpath/standard/standard.h>

using namespace towpath;

class EpollLoop final : public agent::EventLoop {
 public:
  ~EpollLoop() override { close(epoll_); }
  Status watch(int fd, std::function<void()> on_readable) override {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
      return error(Code::exhausted, "epoll takes no more descriptors");
    callbacks_[fd] = std::move(on_readable);
    return {};
  }
  void unwatch(int fd) override {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
    callbacks_.erase(fd);
  }
  void run_until(const std::function<bool()>& is_done) {
    epoll_event event{};
    while (!is_done())
      if (epoll_wait(epoll_, &event, 1, -1) == 1) callbacks_.at(event.data.fd)();
  }

 private:
  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  std::map<int, std::function<void()>> callbacks_;
};

/// A coroutine that starts at once and that nobody waits for.
struct Task {
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name for it
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

constexpr int kBlocks = 16;
constexpr std::uint64_t kBlock = 64 << 10;

Result<agent::Transfer> begin(agent::Agent& decode, Descriptor to, Descriptor from) {
  DescriptorList here(MemoryKind::system), there(MemoryKind::system);
  TOWPATH_TRY(here.add(to));
  TOWPATH_TRY(there.add(from));
  TOWPATH_TRY(auto block, decode.create_transfer(TransferOp::read, here, "prefill", there));
  TOWPATH_TRY(block.post());
  return block;
}

/// `result`: of all of it, or of what went wrong.
Task pull(agent::Agent& decode, agent::Awaiting& awaiting, std::uint64_t to, std::uint64_t from,
          Status& result) {
  for (std::uint64_t i = 0; i < kBlocks && result.ok(); ++i) {
    auto block = begin(decode, {to + i * kBlock, kBlock, 0}, {from + i * kBlock, kBlock, 0});
    result = block.ok() ? co_await awaiting.ended(*block) : block.status();
    if (result.ok()) result = decode.notify("prefill", as_bytes("block " + std::to_string(i)));
  }
}

Task listen(agent::Awaiting& awaiting, int& heard) {
  while (heard < kBlocks) {
    const auto messages = co_await awaiting.notifications();
    if (!messages.ok()) co_return;
    for (const agent::Notification& one : *messages)
      std::printf("%s has %s\n", one.from.name.c_str(), std::string(as_text(one.message)).c_str());
    heard += static_cast<int>(messages->size());
  }
}

Result<int> pull_and_listen() {
  EpollLoop loop;
  TOWPATH_TRY(
      auto prefill,
      standard::Node::open({.name = "prefill", .backends = {"shm"}, .progress_thread = false}));
  TOWPATH_TRY(auto decode, standard::Node::open(
                               {.name = "decode", .backends = {"shm"}, .progress_thread = false}));
  TOWPATH_TRY(auto theirs, memory::SharedMemoryRegion::create({.size_bytes = kBlocks * kBlock}));
  TOWPATH_TRY(auto mine, memory::SharedMemoryRegion::create({.size_bytes = kBlocks * kBlock}));
  std::ranges::fill(theirs->bytes(), std::byte{42});
  TOWPATH_TRY(auto known_there, prefill->agent().register_region(theirs));
  TOWPATH_TRY(auto known_here, decode->agent().register_region(mine));
  TOWPATH_TRY(const Bytes metadata, prefill->agent().metadata());
  TOWPATH_TRY(decode->agent().load_metadata(metadata));
  TOWPATH_TRY(auto awaiting_there, agent::Awaiting::open(prefill->agent(), loop));
  TOWPATH_TRY(auto awaiting_here, agent::Awaiting::open(decode->agent(), loop));

  int heard = 0;
  Status pulled;
  listen(*awaiting_there, heard);
  pull(decode->agent(), *awaiting_here, mine->descriptor().address, theirs->descriptor().address,
       pulled);
  loop.run_until([&] { return heard == kBlocks || !pulled.ok(); });
  TOWPATH_TRY(pulled);
  return static_cast<int>(mine->bytes()[kBlocks * kBlock - 1]);
}

int main() {
  const Result<int> last = pull_and_listen();
  std::printf("%s\n", last.ok() ? "pulled" : last.status().to_string().c_str());
  return last.ok() && *last == 42 ? 0 : 1;
}
