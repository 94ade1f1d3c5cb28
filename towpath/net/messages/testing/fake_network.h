// FakeNetwork: workers of no network, for tests: messages wait until the receiver makes progress,
// and a test may hold them back, drop them, cut a way, or let bodies leave and come a little at a
// time. It has no connections, unless it is asked for them. Thread: loop.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <towpath/net/messages/message_worker.h>

namespace towpath::net::testing {

class FakeNetwork {
 public:
  struct Arrived {
    Bytes head;
    Bytes body;
    BodySource* rest = nullptr;  ///< of the body; it has not left yet
    std::uint64_t rest_bytes = 0;
    std::optional<unsigned> into = std::nullopt;
    std::uint64_t connection = 0;
  };
  /// Of has_connections: as the one that dialled has it.
  struct Connection {
    std::uint64_t dialler = 0, listener = 0;  ///< ports
    void* owner = nullptr;                    ///< of the dialler's endpoint
    bool is_taken = false;                    ///< an answer came back that the dialler took
  };
  struct Port {
    MessageListener* listener = nullptr;
    std::list<Arrived> arrived;
    bool stopped = false;  ///< like a process under SIGSTOP: messages pile up
    std::map<std::uint64_t, std::vector<void*>> owners;  ///< of endpoints here, by the other side
    BodySink* sink = nullptr;                            ///< of the first message, whose body comes
    std::size_t came = 0;                                ///< bytes of it
    std::list<DeviceStagingBuffer*> staging;             ///< that wait for messages
  };

  std::unique_ptr<MessageWorker> open(std::size_t message_bytes, MessageListener& listener);
  Port& port(std::uint64_t number) { return ports_.at(number); }
  /// The newest port.
  std::uint64_t last() const { return next_ - 1; }
  /// Informs both sides that the way between them broke.
  void cut(std::uint64_t a, std::uint64_t b);
  void send(std::uint64_t to, ConstByteSpan head, ConstByteSpan body = {}) {
    arrive(to, {.head = {head.begin(), head.end()}, .body = {body.begin(), body.end()}});
  }

  /// Bytes of an unauthenticated peer's come into a room, if one is free.
  void fill_room(std::uint64_t port, unsigned device, ConstByteSpan bytes);

  bool has_connections = false;  ///< of those that are dialled from now on
  std::map<std::uint64_t, Connection> connections;
  int admitted = 0;            ///< endpoints whose other side has proven itself
  bool deaf = false;           ///< nothing arrives any more, and nobody is notified
  Status refusal;              ///< what send() answers, with what was sent gone
  bool has_no_memory = false;  ///< for the next send(), which throws
  /// Bodies leave when the receiver takes them, not when they are sent.
  bool holds_bodies = false;
  std::size_t body_step = SIZE_MAX;  ///< bytes of a body that come in one progress()
  std::uint64_t work = 0;            ///< what MessageWorker::work() says of each progress()
  std::uint64_t into_staging = 0;    ///< messages that have come into one, and
  std::uint64_t out_of_staging = 0;  ///< that left one
  bool keeps_staging = false;        ///< nobody is notified that one is free again
  std::size_t room_loss = 0;         ///< bytes that what comes into one lacks at its end
  std::uint64_t stalled = 0;         ///< the port of one that reads nothing: all for it waits

 private:
  friend class FakeWorker;
  friend class FakeEndpoint;
  bool is_port(const Port& port, std::uint64_t number) const {
    const auto found = ports_.find(number);
    return found != ports_.end() && &found->second == &port;
  }
  void answered(Port& port, Connection& connection, const Arrived& message);
  void arrive(std::uint64_t to, Arrived message) {
    const auto found = ports_.find(to);
    if (!deaf && found != ports_.end()) {
      found->second.arrived.push_back(std::move(message));
    } else if (message.rest != nullptr) {
      message.rest->done();
    }
  }
  /// What has not left of this body, or of all.
  void copy(BodySource* rest);
  static void leave(Arrived& message, std::uint64_t bytes);
  bool take_some(Port& port);
  bool take_whole(Port& port);
  static bool take_into_room(Port& port, unsigned device, ConstByteSpan bytes);

  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Port> ports_;
};

class FakeEndpoint final : public MessageEndpoint {
 public:
  FakeEndpoint(FakeNetwork& network, MessageBuffers& buffers, MessageListener& listener,
               std::uint64_t to, std::uint64_t connection)
      : network_(network),
        buffers_(buffers),
        listener_(listener),
        to_(to),
        connection_(connection),
        host_(std::to_string(to)) {}
  ~FakeEndpoint() override {
    for (BodySource* const rest : given_) network_.copy(rest);
  }
  std::size_t unsent() const noexcept override { return unsent_; }
  std::uint64_t unsent_bytes() const noexcept override { return unsent_bytes_; }
  Status send(std::unique_ptr<MessageBuffer> buffer, BodySource* rest, std::uint64_t rest_bytes,
              std::optional<unsigned> into) override {
    if (std::exchange(network_.has_no_memory, false)) throw std::bad_alloc();
    if (!network_.refusal.ok()) {
      if (rest != nullptr) rest->done();
      buffers_.give_back(std::move(buffer));
      return network_.refusal;
    }
    if (network_.stalled == to_) {
      ++unsent_;
      unsent_bytes_ += buffer->size + rest_bytes;
      if (rest != nullptr) rest->done();
      buffers_.give_back(std::move(buffer));
      return {};
    }
    if (rest != nullptr && (into || !network_.holds_bodies)) {
      append_rest(*buffer, *rest, rest_bytes);
      rest = nullptr;
    }
    if (rest != nullptr) given_.push_back(rest);
    const ConstByteSpan filled = buffer->filled();
    const std::size_t head = buffer->size - buffer->body_bytes;
    network_.arrive(to_, {.head = {filled.begin(), filled.begin() + std::ptrdiff_t(head)},
                          .body = {filled.begin() + std::ptrdiff_t(head), filled.end()},
                          .rest = rest,
                          .rest_bytes = rest != nullptr ? rest_bytes : 0,
                          .into = into,
                          .connection = connection_});
    buffers_.give_back(std::move(buffer));
    return {};
  }
  Status send_room(DeviceStagingBuffer& room, std::uint64_t offset, std::uint64_t bytes,
                   std::optional<unsigned> into) override {
    if (!network_.refusal.ok()) return network_.refusal;
    const ConstByteSpan whole = bytes_at(room.address + offset, bytes);
    const ConstByteSpan rest = whole.subspan(MessagePrefix::kBytes);
    const MessagePrefix prefix = load_prefix(whole);
    const ConstByteSpan head = rest.first(prefix.head_bytes);
    const ConstByteSpan body = rest.subspan(prefix.head_bytes);
    network_.arrive(
        to_,
        {.head = {head.begin(), head.end()}, .body = {body.begin(), body.end()}, .into = into});
    ++network_.out_of_staging;
    if (!network_.keeps_staging) listener_.on_staging_left(room);
    return {};
  }
  void copy(BodySource& rest) override { network_.copy(&rest); }
  void admit() override { ++network_.admitted; }
  std::string_view host() const noexcept override { return host_; }

 private:
  FakeNetwork& network_;
  MessageBuffers& buffers_;
  MessageListener& listener_;
  const std::uint64_t to_;
  const std::uint64_t connection_;
  const std::string host_;  // each port is one
  std::vector<BodySource*> given_;
  std::size_t unsent_ = 0;  // of a stalled port's, all that was sent
  std::uint64_t unsent_bytes_ = 0;
};

class FakeWorker final : public MessageWorker {
 public:
  FakeWorker(FakeNetwork& network, std::size_t message_bytes, MessageListener& listener)
      : network_(network), number_(network.next_++), buffers_(message_bytes) {
    network_.ports_[number_].listener = &listener;
    address_.resize(sizeof number_);
    std::memcpy(address_.data(), &number_, sizeof number_);
  }
  ~FakeWorker() override {
    const FakeNetwork::Port& port = network_.ports_.at(number_);
    for (const auto& message : port.arrived) network_.copy(message.rest);
    if (port.sink != nullptr) port.sink->done(false);
    network_.ports_.erase(number_);
  }

  ConstByteSpan address() const noexcept override { return address_; }
  MessageBuffers& buffers() noexcept override { return buffers_; }
  Result<std::unique_ptr<MessageEndpoint>> connect(ConstByteSpan address,
                                                   std::unique_ptr<MessageBuffer> first,
                                                   void* owner) override {
    std::uint64_t to = 0;
    if (address.size() != sizeof to) return error(Code::unsupported, "no address of this network");
    std::memcpy(&to, address.data(), sizeof to);
    std::uint64_t connection = 0;
    if (network_.has_connections) {
      connection = network_.connections.size() + 1;
      network_.connections[connection] = {.dialler = number_, .listener = to, .owner = owner};
    }
    auto endpoint = endpoint_to(to, owner, connection);
    if (first) TOWPATH_TRY(endpoint->send(std::move(first), nullptr, 0, {}));
    return endpoint;
  }
  Result<std::unique_ptr<MessageEndpoint>> answer(std::uint64_t from, void* owner) override {
    const auto found = network_.connections.find(from);
    if (found == network_.connections.end() || found->second.listener != number_)
      return error(Code::not_found, "no such connection");
    return Result<std::unique_ptr<MessageEndpoint>>(
        endpoint_to(found->second.dialler, owner, from));
  }
  Status receive_into(DeviceStagingBuffer& room) override {
    network_.ports_.at(number_).staging.push_back(&room);
    return {};
  }
  bool progress() override {
    FakeNetwork::Port& port = network_.ports_.at(number_);
    return !port.stopped && !port.arrived.empty() && network_.take_some(port);
  }
  std::uint64_t work() const noexcept override { return network_.work; }
  bool arm() override { return true; }
  int fd() const noexcept override { return -1; }

 private:
  std::unique_ptr<MessageEndpoint> endpoint_to(std::uint64_t to, void* owner,
                                               std::uint64_t connection) {
    network_.ports_[number_].owners[to].push_back(owner);
    return std::make_unique<FakeEndpoint>(network_, buffers_, *network_.ports_.at(number_).listener,
                                          to, connection);
  }

  FakeNetwork& network_;
  const std::uint64_t number_;
  MessageBuffers buffers_;
  Bytes address_;
};

inline std::unique_ptr<MessageWorker> FakeNetwork::open(std::size_t message_bytes,
                                                        MessageListener& listener) {
  return std::make_unique<FakeWorker>(*this, message_bytes, listener);
}

inline void FakeNetwork::leave(Arrived& message, std::uint64_t bytes) {
  bytes = std::min(bytes, message.rest_bytes);
  const std::size_t begin = message.body.size();
  message.body.resize(begin + bytes);
  if (bytes > 0) message.rest->copy_out(ByteSpan(message.body).subspan(begin));
  message.rest_bytes -= bytes;
  if (message.rest != nullptr && message.rest_bytes == 0)
    std::exchange(message.rest, nullptr)->done();
}

inline void FakeNetwork::copy(BodySource* rest) {
  if (rest == nullptr) return;
  for (auto& [number, port] : ports_) {
    for (Arrived& message : port.arrived)
      if (message.rest == rest) leave(message, message.rest_bytes);
  }
}

inline bool FakeNetwork::take_into_room(Port& port, unsigned device, ConstByteSpan bytes) {
  const auto room = std::ranges::find(port.staging, device, &DeviceStagingBuffer::device);
  if (room == port.staging.end()) return false;
  DeviceStagingBuffer& taken = **room;
  port.staging.erase(room);
  std::ranges::copy(bytes, bytes_at(taken.address, bytes.size()).begin());
  port.listener->on_staging_filled(taken, bytes.size());
  return true;
}

inline void FakeNetwork::fill_room(std::uint64_t port, unsigned device, ConstByteSpan bytes) {
  (void)take_into_room(ports_.at(port), device, bytes);
}

// It waits until there is a room.
inline bool FakeNetwork::take_whole(Port& port) {
  const Arrived& message = port.arrived.front();
  MessageBuffer whole(message.head.size() + message.body.size());
  std::ranges::copy(message.body, std::ranges::copy(message.head, whole.room().begin()).out);
  whole.size = message.head.size() + message.body.size();
  whole.body_bytes = message.body.size();
  const unsigned device = *message.into;
  if (std::ranges::find(port.staging, device, &DeviceStagingBuffer::device) == port.staging.end())
    return false;
  port.arrived.pop_front();
  ++into_staging;
  const ConstByteSpan bytes = whole.with_prefix();
  return take_into_room(port, device, bytes.first(bytes.size() - room_loss));
}

inline void FakeNetwork::answered(Port& port, Connection& connection, const Arrived& message) {
  const Status taken = port.listener->on_answer(
      connection.owner,
      {.head = message.head, .body_bytes = message.body.size(), .from = message.connection},
      message.body);
  connection.is_taken = taken.ok();
}

inline bool FakeNetwork::take_some(Port& port) {
  Arrived& message = port.arrived.front();
  if (message.into) return take_whole(port);
  const auto over = connections.find(message.connection);
  if (over != connections.end() && !over->second.is_taken && is_port(port, over->second.dialler)) {
    const Arrived answer = std::move(message);
    port.arrived.pop_front();
    answered(port, over->second, answer);
    return true;
  }
  const std::size_t whole = message.body.size() + message.rest_bytes;
  if (port.came == 0) {
    port.sink = port.listener->on_message(
        {.head = message.head, .body_bytes = whole, .from = message.connection});
  }
  const std::size_t step = std::min(body_step, whole - port.came);
  if (message.body.size() < port.came + step)
    leave(message, port.came + step - message.body.size());
  if (port.sink != nullptr)
    (void)port.sink->take(ConstByteSpan(message.body).subspan(port.came, step));
  port.came += step;
  if (port.came < whole) return true;
  port.came = 0;
  const Arrived last = std::move(message);  // its head lives until the sink is done
  port.arrived.pop_front();
  if (BodySink* const sink = std::exchange(port.sink, nullptr); sink != nullptr && whole > 0)
    sink->done(true);
  return true;
}

inline void FakeNetwork::cut(std::uint64_t a, std::uint64_t b) {
  const Status why = error(Code::peer_lost, "cut");
  for (const auto& [here, there] : {std::pair(a, b), std::pair(b, a)}) {
    for (void* owner : ports_.at(here).owners[there])
      ports_.at(here).listener->on_broken(owner, why);
    ports_.at(here).owners[there].clear();
  }
}

}  // namespace towpath::net::testing
