// RailNetwork: workers of no network with connections over several paths, for tests. Each direction
// of a connection is a stream of its own: its messages come in order, a step of bytes at a time,
// and a test may cut a path, hold it up, or slow it, while the others go on. What leaves from a
// sender's memory leaves when it comes. Whose turn it is a seed decides. Thread: loop.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <towpath/net/messages/message_worker.h>

namespace towpath::net::testing {

class RailNetwork {
 public:
  struct Arrived {
    Bytes head;
    Bytes body;
    BodySource* rest = nullptr;
    std::uint64_t rest_bytes = 0;
  };
  /// One direction of a connection.
  struct Lane {
    std::uint64_t connection = 0;
    bool to_dialler = false;
    std::deque<Arrived> messages;
    BodySink* sink = nullptr;  ///< of the first message, whose body comes
    std::size_t came = 0;      ///< bytes of it
    bool is_closed = false;    ///< by the sender: what was sent still comes
  };
  struct Connection {
    std::size_t path = 0;
    std::uint64_t dialler = 0, listener = 0;  ///< workers
    void* dialler_owner = nullptr;            ///< null: none yet, or none any more
    void* listener_owner = nullptr;
    bool is_taken = false;  ///< the dialler took an answer
    Lane there, back;
  };
  struct Path {
    bool is_held = false;  ///< nothing comes, and nothing is lost
    bool is_dead = false;  ///< nothing comes any more
    bool refuses = false;  ///< nobody can be dialled by it
    unsigned one_in = 1;   ///< of so many turns one is this path's
  };

  explicit RailNetwork(std::size_t path_count) : paths(path_count) {}

  std::unique_ptr<MessageWorker> open(std::size_t message_bytes, MessageListener& listener);
  /// As when a cable is pulled and both kernels know: both sides are informed, what has not come is
  /// lost.
  void cut(std::size_t path);
  std::uint64_t random(std::uint64_t below) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33U) % below;
  }
  void seed(std::uint64_t value) { state_ = value * 2 + 1; }

  std::vector<Path> paths;
  bool spends_buffers = false;                 ///< each message takes memory for a new one
  std::size_t step = SIZE_MAX;                 ///< bytes of a body that come in one turn
  std::map<std::size_t, std::uint64_t> moved;  ///< bytes of bodies that came, by path
  std::map<std::uint64_t, Connection> connections;
  std::function<void(ConstByteSpan head)> after_head;  ///< of a message was taken

 private:
  friend class RailWorker;
  friend class RailEndpoint;
  bool progress(std::uint64_t worker);
  bool take_some(Connection& connection, Lane& lane, MessageListener& listener);
  bool finish(Connection& connection, Lane& lane);
  void drop(Lane& lane);
  static void leave(Arrived& message, std::uint64_t bytes);
  void copy(BodySource* rest);

  std::map<std::uint64_t, MessageListener*> listeners_;
  std::uint64_t next_worker_ = 1;
  std::uint64_t next_connection_ = 1;
  std::uint64_t state_ = 1;
};

class RailEndpoint final : public MessageEndpoint {
 public:
  RailEndpoint(RailNetwork& network, MessageBuffers& buffers, std::uint64_t connection,
               bool is_dialler)
      : network_(network), buffers_(buffers), connection_(connection), is_dialler_(is_dialler) {}
  ~RailEndpoint() override;
  std::size_t unsent() const noexcept override { return 0; }
  std::uint64_t unsent_bytes() const noexcept override { return 0; }
  Status send(std::unique_ptr<MessageBuffer> buffer, BodySource* rest, std::uint64_t rest_bytes,
              std::optional<unsigned>) override {
    const ConstByteSpan filled = buffer->filled();
    const auto head = static_cast<std::ptrdiff_t>(buffer->size - buffer->body_bytes);
    lane().messages.push_back({.head = {filled.begin(), filled.begin() + head},
                               .body = {filled.begin() + head, filled.end()},
                               .rest = rest,
                               .rest_bytes = rest != nullptr ? rest_bytes : 0});
    if (!network_.spends_buffers) buffers_.give_back(std::move(buffer));
    return {};
  }
  void copy(BodySource& rest) override { network_.copy(&rest); }
  std::string path() const override {
    return std::to_string(network_.connections.at(connection_).path);
  }

 private:
  RailNetwork::Lane& lane() {
    RailNetwork::Connection& its = network_.connections.at(connection_);
    return is_dialler_ ? its.there : its.back;
  }

  RailNetwork& network_;
  MessageBuffers& buffers_;
  const std::uint64_t connection_;
  const bool is_dialler_;
};

/// Its address is its number and, of a narrowed one, a path.
class RailWorker final : public MessageWorker {
 public:
  RailWorker(RailNetwork& network, std::size_t message_bytes, MessageListener& listener)
      : network_(network), number_(network.next_worker_++), buffers_(message_bytes) {
    network_.listeners_[number_] = &listener;
    address_.push_back(static_cast<std::byte>(number_));
  }
  ~RailWorker() override;

  ConstByteSpan address() const noexcept override { return address_; }
  MessageBuffers& buffers() noexcept override { return buffers_; }
  Result<std::unique_ptr<MessageEndpoint>> connect(ConstByteSpan address,
                                                   std::unique_ptr<MessageBuffer> first,
                                                   void* owner) override {
    const std::size_t path = address.size() > 1 ? static_cast<std::size_t>(address[1]) : 0;
    if (network_.paths[path].refuses) return error(Code::unavailable, "no way there");
    const std::uint64_t number = network_.next_connection_++;
    // First: a connection without an endpoint would keep its owner.
    auto endpoint = std::make_unique<RailEndpoint>(network_, buffers_, number, true);
    network_.connections[number] = {.path = path,
                                    .dialler = number_,
                                    .listener = static_cast<std::uint64_t>(address[0]),
                                    .dialler_owner = owner,
                                    .there = {.connection = number},
                                    .back = {.connection = number, .to_dialler = true}};
    TOWPATH_TRY(endpoint->send(std::move(first), nullptr, 0, {}));
    return Result<std::unique_ptr<MessageEndpoint>>(std::move(endpoint));
  }
  Result<std::vector<MessagePath>> paths(ConstByteSpan address) const override {
    std::vector<MessagePath> paths;
    for (std::size_t i = 0; i < network_.paths.size(); ++i)
      paths.push_back(
          {.address = {address[0], static_cast<std::byte>(i)}, .name = std::to_string(i)});
    return paths;
  }
  Result<std::unique_ptr<MessageEndpoint>> answer(std::uint64_t from, void* owner) override {
    const auto found = network_.connections.find(from);
    if (found == network_.connections.end() || found->second.listener != number_)
      return error(Code::not_found, "no such connection");
    auto endpoint = std::make_unique<RailEndpoint>(network_, buffers_, from, false);
    found->second.listener_owner = owner;
    return Result<std::unique_ptr<MessageEndpoint>>(std::move(endpoint));
  }
  bool progress() override { return network_.progress(number_); }
  bool arm() override { return true; }
  int fd() const noexcept override { return -1; }

 private:
  RailNetwork& network_;
  const std::uint64_t number_;
  MessageBuffers buffers_;
  Bytes address_;
};

inline std::unique_ptr<MessageWorker> RailNetwork::open(std::size_t message_bytes,
                                                        MessageListener& listener) {
  return std::make_unique<RailWorker>(*this, message_bytes, listener);
}

inline void RailNetwork::leave(Arrived& message, std::uint64_t bytes) {
  bytes = std::min(bytes, message.rest_bytes);
  const std::size_t begin = message.body.size();
  message.body.resize(begin + bytes);
  if (bytes > 0) message.rest->copy_out(ByteSpan(message.body).subspan(begin));
  message.rest_bytes -= bytes;
  if (message.rest != nullptr && message.rest_bytes == 0)
    std::exchange(message.rest, nullptr)->done();
}

inline void RailNetwork::copy(BodySource* rest) {
  for (auto& [number, connection] : connections)
    for (Lane* lane : {&connection.there, &connection.back})
      for (Arrived& message : lane->messages)
        if (rest != nullptr && message.rest == rest) leave(message, message.rest_bytes);
}

inline void RailNetwork::drop(Lane& lane) {
  for (Arrived& message : lane.messages)
    if (BodySource* const rest = std::exchange(message.rest, nullptr)) rest->done();
  lane.messages.clear();
  lane.came = 0;
  if (BodySink* const sink = std::exchange(lane.sink, nullptr)) sink->done(false);
}

// As a socket that is closed: nothing is heard any more, and of what was sent the kernel sends what
// it has, which is what has left, and for the test's sake all of the messages before.
inline RailEndpoint::~RailEndpoint() {
  const auto found = network_.connections.find(connection_);
  if (found == network_.connections.end()) return;
  RailNetwork::Connection& its = found->second;
  (is_dialler_ ? its.dialler_owner : its.listener_owner) = nullptr;
  RailNetwork::Lane& out = is_dialler_ ? its.there : its.back;
  for (auto message = out.messages.begin(); message != out.messages.end(); ++message) {
    if (message->rest == nullptr) continue;
    // A message that is cut short is not whole: the stream ends in it.
    if (network_.random(2) == 0) {
      RailNetwork::leave(*message, message->rest_bytes);
      continue;
    }
    for (auto gone = message; gone != out.messages.end(); ++gone)
      if (BodySource* const rest = std::exchange(gone->rest, nullptr)) rest->done();
    out.messages.erase(message, out.messages.end());
    break;
  }
  out.is_closed = true;
  network_.drop(is_dialler_ ? its.back : its.there);
}

// What it has sent still comes, as that of its endpoints does.
inline RailWorker::~RailWorker() {
  for (auto& [number, connection] : network_.connections) {
    if (connection.dialler == number_) network_.drop(connection.back);
    if (connection.listener == number_) network_.drop(connection.there);
  }
  network_.listeners_.erase(number_);
}

inline bool RailNetwork::progress(std::uint64_t worker) {
  std::vector<std::pair<Connection*, Lane*>> ready;
  for (auto& [number, connection] : connections) {
    const bool dials = connection.dialler == worker;
    if (!dials && connection.listener != worker) continue;
    const Path& path = paths[connection.path];
    if (path.is_held || path.is_dead || (path.one_in > 1 && random(path.one_in) != 0)) continue;
    Lane& lane = dials ? connection.back : connection.there;
    if (!lane.messages.empty() || lane.is_closed) ready.emplace_back(&connection, &lane);
  }
  if (ready.empty()) return false;
  const auto [connection, lane] = ready[random(ready.size())];
  if (lane->messages.empty()) return finish(*connection, *lane);
  return take_some(*connection, *lane, *listeners_.at(worker));
}

// The other side has closed, and all that it sent has come.
inline bool RailNetwork::finish(Connection& connection, Lane& lane) {
  lane.is_closed = false;
  void* const owner = std::exchange(
      lane.to_dialler ? connection.dialler_owner : connection.listener_owner, nullptr);
  const std::uint64_t worker = lane.to_dialler ? connection.dialler : connection.listener;
  drop(lane);
  if (owner == nullptr) return false;
  listeners_.at(worker)->on_broken(owner, error(Code::peer_lost, "the other side hung up"));
  return true;
}

inline bool RailNetwork::take_some(Connection& connection, Lane& lane, MessageListener& listener) {
  if (lane.to_dialler && connection.dialler_owner == nullptr) return drop(lane), true;
  Arrived& message = lane.messages.front();
  if (lane.to_dialler && !connection.is_taken) {
    const Arrived answer = std::move(message);
    lane.messages.pop_front();
    connection.is_taken =
        listener
            .on_answer(
                connection.dialler_owner,
                {.head = answer.head, .body_bytes = answer.body.size(), .from = lane.connection},
                answer.body)
            .ok();
    return true;
  }
  const std::size_t whole = message.body.size() + message.rest_bytes;
  if (lane.came == 0) {
    lane.sink =
        listener.on_message({.head = message.head, .body_bytes = whole, .from = lane.connection});
    if (after_head) after_head(message.head);
  }
  const std::size_t some = std::min(step == SIZE_MAX ? step : 1 + random(step), whole - lane.came);
  if (message.body.size() < lane.came + some)
    leave(message, lane.came + some - message.body.size());
  if (lane.sink != nullptr)
    (void)lane.sink->take(ConstByteSpan(message.body).subspan(lane.came, some));
  lane.came += some;
  moved[connection.path] += some;
  if (lane.came < whole) return true;
  lane.came = 0;
  const Arrived last = std::move(message);  // its head lives until the sink is done
  lane.messages.pop_front();
  if (BodySink* const sink = std::exchange(lane.sink, nullptr); sink != nullptr && whole > 0)
    sink->done(true);
  return true;
}

inline void RailNetwork::cut(std::size_t path) {
  for (auto& [number, connection] : connections) {
    if (connection.path != path) continue;
    drop(connection.there);
    drop(connection.back);
    const Status why = error(Code::peer_lost, "cut");
    if (void* const owner = std::exchange(connection.dialler_owner, nullptr))
      listeners_.at(connection.dialler)->on_broken(owner, why);
    if (void* const owner = std::exchange(connection.listener_owner, nullptr))
      listeners_.at(connection.listener)->on_broken(owner, why);
  }
}

}  // namespace towpath::net::testing
