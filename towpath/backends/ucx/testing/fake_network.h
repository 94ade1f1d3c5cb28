// FakeNetwork: workers that are no UCX, for tests: messages wait until the receiver makes progress,
// and a test may hold them back, drop them, or cut a way.
// Thread: loop.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <towpath/backends/ucx/ucx_backend.h>

namespace towpath::backends::ucx::testing {

class FakeNetwork {
 public:
  struct Port {
    net::MessageListener* listener = nullptr;
    std::deque<Bytes> arrived;
    bool stopped = false;  ///< like a process under SIGSTOP: messages pile up
    std::map<std::uint64_t, std::vector<void*>> owners;  ///< of endpoints here, by the other side
  };

  WorkerMaker maker();
  Port& port(std::uint64_t number) { return ports_.at(number); }
  /// The newest port.
  std::uint64_t last() const { return next_ - 1; }
  /// Tells both sides that the way between them broke.
  void cut(std::uint64_t a, std::uint64_t b);
  void send(std::uint64_t to, ConstByteSpan message) {
    if (deaf) return;
    if (const auto found = ports_.find(to); found != ports_.end())
      found->second.arrived.emplace_back(message.begin(), message.end());
  }

  bool deaf = false;  ///< nothing arrives any more, and nobody is told

 private:
  friend class FakeWorker;
  friend class FakeEndpoint;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Port> ports_;
};

class FakeEndpoint final : public net::MessageEndpoint {
 public:
  FakeEndpoint(FakeNetwork& network, net::MessageBuffers& buffers, std::uint64_t to)
      : network_(network), buffers_(buffers), to_(to) {}
  std::size_t unsent() const noexcept override { return 0; }
  Status send(std::unique_ptr<net::MessageBuffer> buffer) override {
    network_.send(to_, buffer->filled());
    buffers_.give_back(std::move(buffer));
    return {};
  }

 private:
  FakeNetwork& network_;
  net::MessageBuffers& buffers_;
  const std::uint64_t to_;
};

class FakeWorker final : public net::MessageWorker {
 public:
  FakeWorker(FakeNetwork& network, const net::UcxOptions& options, net::MessageListener& listener)
      : network_(network), number_(network.next_++), buffers_(options.message_bytes) {
    network_.ports_[number_].listener = &listener;
    address_.resize(sizeof number_);
    std::memcpy(address_.data(), &number_, sizeof number_);
  }
  ~FakeWorker() override { network_.ports_.erase(number_); }

  ConstByteSpan address() const noexcept override { return address_; }
  net::MessageBuffers& buffers() noexcept override { return buffers_; }
  Result<std::unique_ptr<net::MessageEndpoint>> connect(ConstByteSpan address,
                                                        void* owner) override {
    std::uint64_t to = 0;
    if (address.size() != sizeof to) return error(Code::unsupported, "no address of this network");
    std::memcpy(&to, address.data(), sizeof to);
    network_.ports_[number_].owners[to].push_back(owner);
    return std::make_unique<FakeEndpoint>(network_, buffers_, to);
  }
  bool progress() override {
    FakeNetwork::Port& port = network_.ports_.at(number_);
    if (port.stopped || port.arrived.empty()) return false;
    const Bytes message = std::move(port.arrived.front());
    port.arrived.pop_front();
    port.listener->on_message(message);
    return true;
  }
  bool arm() override { return true; }
  int fd() const noexcept override { return -1; }

 private:
  FakeNetwork& network_;
  const std::uint64_t number_;
  net::MessageBuffers buffers_;
  Bytes address_;
};

inline WorkerMaker FakeNetwork::maker() {
  return [this](const net::UcxOptions& options,
                net::MessageListener& listener) -> Result<std::unique_ptr<net::MessageWorker>> {
    return std::make_unique<FakeWorker>(*this, options, listener);
  };
}

inline void FakeNetwork::cut(std::uint64_t a, std::uint64_t b) {
  const Status why = error(Code::peer_lost, "cut");
  for (const auto& [here, there] : {std::pair(a, b), std::pair(b, a)}) {
    for (void* owner : ports_.at(here).owners[there])
      ports_.at(here).listener->on_broken(owner, why);
    ports_.at(here).owners[there].clear();
  }
}

}  // namespace towpath::backends::ucx::testing
