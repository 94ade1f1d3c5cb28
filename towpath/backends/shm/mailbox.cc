#include <algorithm>
#include <utility>

#include <unistd.h>

#include <towpath/backends/shm/handshake.h>
#include <towpath/backends/shm/mailbox.h>
#include <towpath/backends/shm/peer_file.h>
#include <towpath/core/format.h>

namespace towpath::backends::shm {
namespace {

constexpr int kAcceptsPerCall = 16;
constexpr Duration kClosedFor = std::chrono::milliseconds(100);

sys::LocalAddress mailbox_address(const std::string& name) {
  return {.name = name, .abstract = true};
}

/// As LocalSocket::send(); false also when the kernel has no room for it.
Result<bool> send_tagged(sys::LocalSocket& socket, MessageTag tag, ConstByteSpan body) {
  const auto first = static_cast<std::byte>(tag);
  const ConstByteSpan parts[] = {{&first, 1}, body};
  auto sent = socket.send_parts(parts);
  if (sent.code() == Code::exhausted) return false;
  return sent;
}

Result<sys::LocalSocket> connect_by_door(pid_t pid, const FileRef& door) {
  TOWPATH_TRY(const sys::Fd place, open_peer_socket(pid, door));
  return sys::LocalSocket::connect({.name = cat("/proc/self/fd/", place.get())});
}

/// By the name where there is no door, and where something (a security module) closes it to us.
Result<sys::LocalSocket> connect_to(const Outbox::Options& options) {
  const auto closed = [](const Status& why) {
    return error(Code::peer_lost, "the peer's mailbox is closed").because(why);
  };
  if (options.door) {
    auto socket = connect_by_door(options.expected, *options.door);
    const bool is_gone = socket.code() == Code::not_found || socket.code() == Code::corrupt ||
                         socket.code() == Code::unavailable;
    if (is_gone) return closed(socket.status());
    if (socket.code() != Code::denied) return socket;
  }
  auto socket = sys::LocalSocket::connect(mailbox_address(options.name));
  if (socket.code() != Code::unavailable) return socket;
  return closed(socket.status());
}

}  // namespace

// ---- Mailbox

Result<std::unique_ptr<Mailbox>> Mailbox::open(const std::string& name, run::Poller& poller,
                                               backend::Events& events, const Clock& clock) {
  std::vector<sys::LocalListener> listeners;
  TOWPATH_TRY(auto by_name, sys::LocalListener::listen(mailbox_address(name)));
  listeners.push_back(std::move(by_name));
  auto by_door = sys::LocalListener::listen_unnamed();
  const Status no_door = by_door.status();
  if (no_door.ok()) listeners.push_back(*std::move(by_door));
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  TOWPATH_TRY(poller.add(timer.fd(), tag_of(Watch::listener, 0)));
  std::unique_ptr<Mailbox> mailbox(
      new Mailbox(std::move(listeners), no_door, std::move(timer), poller, events, clock));
  TOWPATH_TRY(mailbox->watch_listeners());
  return mailbox;
}

Result<FileRef> Mailbox::door() const {
  if (!no_door_.ok()) return no_door_;
  return file_ref(listeners_.back().place());
}

Mailbox::~Mailbox() {
  for (sys::LocalListener& listener : listeners_) {
    listener.shut_down();
    for (auto waiting = listener.accept(); waiting.ok() && *waiting; waiting = listener.accept())
      sys::LocalSocket(*std::move(waiting)).shut_down();
  }
  for (auto& [id, client] : clients_) client.socket.shut_down();
}

void Mailbox::accept_some() {
  if (!open_again()) return;
  for (sys::LocalListener& listener : listeners_)
    if (!accept_from(listener)) return;
}

/// False: no more can be accepted now.
bool Mailbox::accept_from(sys::LocalListener& listener) {
  for (int i = 0; i < kAcceptsPerCall; ++i) {
    auto socket = listener.accept();
    if (!socket.ok()) {  // no descriptor is free: a silent one has to go
      silent_ > 0 ? drop_oldest_silent() : close_for_now();
      return false;
    }
    if (!*socket) return true;
    welcome(sys::LocalSocket(*std::move(socket)));
  }
  return true;
}

Status Mailbox::watch_listeners() {
  for (const sys::LocalListener& listener : listeners_)
    TOWPATH_TRY(poller_.add(listener.fd(), tag_of(Watch::listener, 0)));
  return {};
}

/// Whether they were watched.
bool Mailbox::unwatch_listeners() {
  bool any = false;
  for (const sys::LocalListener& listener : listeners_) any |= poller_.remove(listener.fd()).ok();
  return any;
}

// A listener that is watched would be reported again and again.
void Mailbox::close_for_now() {
  if (!unwatch_listeners()) return;
  opens_again_.arm(clock_.now() + kClosedFor);
}

bool Mailbox::open_again() {
  if (opens_again_.armed_at() == Instant::never()) return true;
  opens_again_.clear();
  if (watch_listeners().ok()) return true;
  (void)unwatch_listeners();  // of two the first
  opens_again_.arm(clock_.now() + kClosedFor);
  return false;
}

void Mailbox::welcome(sys::LocalSocket socket) {
  const auto owner = socket.peer();
  const bool is_friend = owner.ok() && (owner->uid == ::geteuid() || owner->uid == 0);
  if (!is_friend || clients_.size() - silent_ >= kMaxClients - kMaxSilentClients) {
    ++refused_;
    return;
  }
  if (silent_ >= kMaxSilentClients) drop_oldest_silent();
  const std::uint64_t id = next_id_++;
  if (!poller_.add(socket.fd(), tag_of(Watch::client, id)).ok()) {
    ++refused_;
    return;
  }
  clients_.emplace(id, Client{.id = id, .socket = std::move(socket)});
  ++silent_;
}

void Mailbox::read_ready(std::size_t& budget) {
  std::vector<std::uint64_t> ready = std::exchange(ready_, {});
  std::ranges::sort(ready);
  std::ranges::rotate(ready, std::ranges::upper_bound(ready, last_read_));
  while (budget > 0 && !ready.empty()) {
    const std::size_t share = std::max<std::size_t>(1, budget / ready.size());
    std::erase_if(ready, [&](std::uint64_t id) {
      const std::size_t most = std::min(share, budget);
      if (most == 0) return false;
      std::size_t left = most;
      read_from(id, left);
      budget -= most - left;
      last_read_ = id;
      return left > 0;  // it has no more
    });
  }
}

struct Mailbox::DropUnlessTaken {
  ~DropUnlessTaken() {
    if (is_taken) return;
    ++mailbox.refused_;
    mailbox.drop(client);
  }
  Mailbox& mailbox;
  Clients::iterator client;
  bool is_taken = false;
};

void Mailbox::read_from(std::uint64_t id, std::size_t& budget) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.kept || found->second.has_closed) return;
  Client& client = found->second;
  while (budget > 0 && !client.kept) {
    const auto got = client.socket.receive(buffer_);
    if (got.ok() && got->nothing) return;
    --budget;
    const bool closed = got.ok() ? got->closed : got.code() == Code::peer_lost;
    if (closed) {
      client.has_closed = true;
      if (read_ring(client, budget) != Ring::blocked) return drop(found);
      return pause(client);
    }
    // It is off the socket: where no memory is left for it, its sender must know.
    DropUnlessTaken guard{*this, found};
    guard.is_taken =
        got.ok() && take_message(client, ConstByteSpan(buffer_).first(got->size_bytes));
    if (!guard.is_taken) return;
  }
}

bool Mailbox::take_message(Client& client, ConstByteSpan message) {
  const auto tag = static_cast<MessageTag>(message.front());
  const ConstByteSpan body = message.subspan(1);
  if (!client.from) return tag == MessageTag::hello && take_hello(client, body);
  watch(client);  // its doorbell may have found the socket full: see Outbox::ring()
  if (tag == MessageTag::doorbell) return client.ring.has_value();  // read_rings() has its turn
  // An honest sender has no more in the ring that came before.
  std::size_t before_it = kRingBytes / sizeof(RingReceiver::Record);
  const Ring ring = read_ring(client, before_it);
  if (tag != MessageTag::notification || ring == Ring::corrupt) return false;
  if (ring == Ring::dry && events_.on_notification(*client.from, body)) {
    ++client.heard;
    return true;
  }
  client.kept.emplace(body.begin(), body.end());
  pause(client);
  return true;
}

bool Mailbox::take_hello(Client& client, ConstByteSpan body) {
  auto hello = decode_hello(body);
  if (!hello.ok()) return false;
  client.from = std::move(hello->from);
  --silent_;
  if (!hello->ring) return true;
  // Before the sender uses it: what is in a ring that is not among these is heard by nobody.
  watched_.reserve(rings_ + 1);
  // Where that fails all messages come by the socket.
  const auto owner = client.socket.peer();
  auto ring = owner.ok() ? RingReceiver::attach(owner->pid, *hello->ring) : owner.status();
  if (!ring.ok()) return true;
  client.ring.emplace(*std::move(ring));
  client.rests = true;
  ++rings_;
  watch(client);
  return true;
}

void Mailbox::watch(Client& client) {
  is_announced_ = false;
  if (!client.rests) return;
  client.rests = false;
  client.has_spoken = true;  // or is about to
  watched_.push_back(&client);
}

// Each has announced that it sleeps, for itself: what comes to one of them rings.
void Mailbox::let_silent_rings_rest() {
  looks_ = 0;
  std::erase_if(watched_, [](Client* client) {
    if (std::exchange(client->has_spoken, false) || !client->ring->is_dry()) return false;
    client->rests = client->ring->announce_sleep();
    return client->rests;
  });
}

// Removed, not only muted: a sender that died would make the poller speak for ever.
void Mailbox::pause(Client& client) {
  paused_.push_back(client.id);
  (void)poller_.remove(client.socket.fd());
}

/// Delivers what came before the next message of the socket.
Mailbox::Ring Mailbox::read_ring(Client& client, std::size_t& budget) {
  if (!client.ring) return Ring::dry;
  while (true) {
    const auto next = client.ring->peek();
    if (!next.ok()) return Ring::corrupt;
    if (!*next || (*next)->after != client.heard) return Ring::dry;
    if (budget == 0) return Ring::blocked;
    client.ring->copy(**next, record_);
    if (!events_.on_notification(*client.from, ConstByteSpan(record_).first((*next)->length)))
      return Ring::blocked;
    client.ring->pop(**next);
    client.has_spoken = true;
    is_announced_ = false;
    --budget;
  }
}

bool Mailbox::read_rings(std::size_t& budget) {
  if (watched_.size() > kWatchedRings && ++looks_ >= kLooksBeforeRest) let_silent_rings_rest();
  const std::size_t before = budget;
  while (budget > 0 && !watched_.empty()) {
    const std::size_t count = watched_.size();
    const std::size_t round = budget;
    for (std::size_t i = 0; i < count && budget > 0; ++i) {
      Client& client = *watched_[(first_ring_ + i) % count];
      const std::size_t most = std::min(std::max<std::size_t>(1, round / count), budget);
      std::size_t left = most;
      if (read_ring(client, left) == Ring::corrupt) {
        ++refused_;
        drop(clients_.find(client.id));  // the others have their turn in the next call
        return true;
      }
      budget -= most - left;
    }
    first_ring_ = (first_ring_ + 1) % count;
    if (budget == round) break;
  }
  return budget != before;
}

bool Mailbox::announce_sleep() noexcept {
  bool may_sleep = true;
  for (Client* const client : watched_)
    may_sleep &= is_announced_ ? !client->ring->has_news() : client->ring->announce_sleep();
  is_announced_ = true;
  return may_sleep;
}

void Mailbox::offer_kept(std::size_t& budget) {
  while (budget > 0 && !paused_.empty()) {
    const auto at = clients_.find(paused_.front());
    auto& [id, client] = *at;
    const Ring ring = read_ring(client, budget);
    if (ring == Ring::blocked) return;
    if (ring == Ring::dry && client.kept) {
      if (budget == 0 || !events_.on_notification(*client.from, *client.kept)) return;
      --budget;
      ++client.heard;
      client.kept.reset();
    }
    paused_.pop_front();
    // What cannot be watched again is closed, so that its sender learns that it is cut off.
    if (ring == Ring::corrupt || client.has_closed ||
        !poller_.add(client.socket.fd(), tag_of(Watch::client, id)).ok())
      drop(at);
  }
}

void Mailbox::drop(Clients::iterator client) {
  if (!client->second.from) --silent_;
  if (client->second.ring) --rings_;
  std::erase(watched_, &client->second);
  std::erase(paused_, client->first);
  (void)poller_.remove(client->second.socket.fd());
  client->second.socket.shut_down();
  clients_.erase(client);
}

void Mailbox::drop_oldest_silent() {
  for (auto client = clients_.begin(); client != clients_.end(); ++client) {
    if (client->second.from) continue;
    ++refused_;
    return drop(client);
  }
}

// ---- Outbox

Result<std::unique_ptr<Outbox>> Outbox::open(const Options& options, run::Poller& poller) {
  TOWPATH_TRY(sys::LocalSocket socket, connect_to(options));
  TOWPATH_TRY(const sys::PeerCredentials owner, socket.peer());
  if (owner.pid != options.expected) {
    return error(Code::denied, cat("process ", owner.pid, " listens on @", options.name,
                                   ", not the peer, process ", options.expected));
  }
  // Without one all messages go by the socket.
  std::optional<RingSender> ring;
  if (auto made = RingSender::create(); made.ok()) ring.emplace(*std::move(made));
  TOWPATH_TRY(const Bytes hello,
              encode_hello({.from = options.self,
                            .ring = ring ? std::optional(ring->file()) : std::nullopt}));
  TOWPATH_TRY(const bool greeted, send_tagged(socket, MessageTag::hello, hello));
  if (!greeted) return error(Code::exhausted, "the kernel has no room for a hello");
  TOWPATH_TRY(poller.add(socket.fd(), tag_of(Watch::socket, options.id), {.readable = false}));
  return std::unique_ptr<Outbox>(
      new Outbox(std::move(socket), std::move(ring), options.id, poller));
}

Outbox::~Outbox() {
  (void)poller_.remove(socket_.fd());
  socket_.shut_down();
}

Result<bool> Outbox::send_by_socket(ConstByteSpan message) {
  TOWPATH_TRY(const bool was_sent, send_tagged(socket_, MessageTag::notification, message));
  sent_ += was_sent ? 1 : 0;
  return was_sent;
}

Status Outbox::send(ConstByteSpan message) {
  if (queue_.empty()) {
    if (ring_ && ring_->is_attached() && ring_->push(message, sent_)) {
      return ring_->must_ring() ? ring() : Status();
    }
    TOWPATH_TRY(const bool sent, send_by_socket(message));
    if (sent) return {};
  }
  if (queue_.size() >= kMaxQueuedMessages || message.size() > kMaxQueuedBytes - queued_bytes_) {
    return error(Code::exhausted,
                 cat(queue_.size(), " messages (", queued_bytes_, " bytes) wait to be sent"),
                 "make progress and send again; the peer does not read, or slowly");
  }
  if (queue_.empty()) TOWPATH_TRY(ask_for_room());
  queue_.emplace_back(message.begin(), message.end());
  queued_bytes_ += message.size();
  return {};
}

Status Outbox::ask_for_room() {
  return poller_.modify(socket_.fd(), tag_of(Watch::socket, id_),
                        {.readable = false, .writable = true});
}

/// Wakes the receiver, now or when there is room. A full socket wakes it by what it is full of, but
/// the kernel may have had no memory, with nothing on its way.
Status Outbox::ring() {
  TOWPATH_TRY(const bool rung, send_tagged(socket_, MessageTag::doorbell, {}));
  owes_ring_ = !rung;
  return rung ? Status() : ask_for_room();
}

Status Outbox::flush() {
  if (owes_ring_) TOWPATH_TRY(ring());
  if (owes_ring_) return {};
  for (std::size_t i = 0; i < kMessagesPerCall && !queue_.empty(); ++i) {
    TOWPATH_TRY(const bool sent, send_by_socket(queue_.front()));
    if (!sent) return {};
    queued_bytes_ -= queue_.front().size();
    queue_.pop_front();
  }
  if (!queue_.empty()) return {};
  return poller_.modify(socket_.fd(), tag_of(Watch::socket, id_), {.readable = false});
}

}  // namespace towpath::backends::shm
