#include <utility>

#include <towpath/backends/loopback/exchange.h>
#include <towpath/core/format.h>

namespace towpath::backends::loopback {
namespace {

Status gone(const AgentIdentity& peer) {
  return error(Code::peer_lost, cat(to_string(peer), " has closed its loopback backend"));
}

}  // namespace

bool Record::enter() noexcept {
  // Acquire pairs with nothing but keeps the touching behind it; close() sees the count.
  if ((state_.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) return true;
  leave();
  return false;
}

void Record::leave() noexcept {
  // Release pairs with the acquire in close(): the owner sees the bytes before it frees them.
  if (state_.fetch_sub(1, std::memory_order_release) == kClosed + 1) state_.notify_all();
}

void Record::close() noexcept {
  std::uint32_t state = state_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  while (state != kClosed) {
    state_.wait(state, std::memory_order_acquire);
    state = state_.load(std::memory_order_acquire);  // pairs with the release in leave()
  }
}

// ---- Registrations

std::shared_ptr<Record> Endpoint::add_record(const RegionDescriptor& region) {
  run::MutexLock lock(mutex_);
  return records_.add(region);
}

void Endpoint::remove_record(const Record& record) {
  run::MutexLock lock(mutex_);
  records_.remove(record.id);
}

Result<std::shared_ptr<Record>> Endpoint::find_record(std::uint64_t record_id,
                                                      const RegionDescriptor& region) const {
  run::MutexLock lock(mutex_);
  return records_.find(record_id, region);
}

// ---- Messages

Status Endpoint::deliver(const Endpoint& sender, ConstByteSpan message) {
  {
    run::MutexLock lock(mutex_);
    if (closed_) return gone(identity_);
    // Looked up before it is made: a full or refused queue must not leave an empty one behind.
    const auto found = inbox_.find(sender.id());
    if (found != inbox_.end() && (found->second.messages.size() >= kMaxQueuedMessages ||
                                  message.size() > kMaxQueuedBytes - found->second.bytes)) {
      return error(Code::exhausted,
                   cat(found->second.messages.size(), " messages (", found->second.bytes,
                       " bytes) wait for ", to_string(identity_)),
                   "let the receiver make progress and send again");
    }
    Queue& queue = inbox_[sender.id()];
    if (queue.messages.empty()) queue.from = sender.identity();
    queue.messages.emplace_back(message.begin(), message.end());
    queue.bytes += message.size();
  }
  waker_->wake();
  return {};
}

bool Endpoint::find_next(std::uint64_t after, Waiting& next) {
  run::MutexLock lock(mutex_);
  auto found = inbox_.upper_bound(after);
  while (found != inbox_.end() && found->second.messages.empty()) found = inbox_.erase(found);
  if (found == inbox_.end()) return false;
  const Queue& queue = found->second;
  next = {found->first, &queue.from, &queue.messages.front()};
  return true;
}

void Endpoint::pop(const Waiting& delivered) noexcept {
  run::MutexLock lock(mutex_);
  const auto found = inbox_.find(delivered.sender);
  Queue& queue = found->second;
  queue.bytes -= queue.messages.front().size();
  queue.messages.pop_front();
  if (queue.messages.empty()) inbox_.erase(found);
}

// ---- Life

void Endpoint::add_watcher(std::weak_ptr<Endpoint> watcher) {
  run::MutexLock lock(mutex_);
  std::erase_if(watchers_, [&](const auto& known) {
    const bool same = !known.owner_before(watcher) && !watcher.owner_before(known);
    return same || known.expired();
  });
  watchers_.push_back(std::move(watcher));
}

Status Endpoint::check_open() const {
  run::MutexLock lock(mutex_);
  return closed_ ? gone(identity_) : Status();
}

void Endpoint::close() {
  backend::MemoryTable<Record>::Records records;
  std::vector<std::weak_ptr<Endpoint>> watchers;
  {
    run::MutexLock lock(mutex_);
    closed_ = true;
    records = records_.take_all();
    watchers.swap(watchers_);
    inbox_.clear();
  }
  // Not under the lock: a slice may be running.
  for (auto& [id, record] : records) record->close();
  for (auto& watcher : watchers) {
    if (auto endpoint = watcher.lock()) endpoint->waker().wake();
  }
}

// ---- Exchange

Exchange::Exchange(std::uint64_t token)
    : endpoints_({.table = "loopback exchange", .part = "loopback backend"}, token) {}

backend::EndpointAddress Exchange::address_of(const Endpoint& endpoint) const {
  run::MutexLock lock(mutex_);
  return endpoints_.address_of(endpoint.id());
}

Result<std::shared_ptr<Endpoint>> Exchange::open_endpoint(const AgentIdentity& identity) {
  TOWPATH_TRY(std::unique_ptr<run::Waker> waker, run::Waker::open());
  run::MutexLock lock(mutex_);
  return endpoints_.add(identity, [&](std::uint64_t id) {
    return std::make_shared<Endpoint>(identity, id, std::move(waker));
  });
}

Result<std::shared_ptr<Endpoint>> Exchange::find(const AgentIdentity& peer,
                                                 ConstByteSpan info) const {
  run::MutexLock lock(mutex_);
  return endpoints_.find(peer, info);
}

}  // namespace towpath::backends::loopback
