#include <algorithm>
#include <deque>
#include <list>
#include <optional>
#include <unordered_set>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/keyed/keyed_store.h>
#include <towpath/kv/tiers/block_tier.h>
#include <towpath/run/mutex.h>
#include <towpath/run/poller.h>
#include <towpath/run/waker.h>
#include <towpath/run/worker.h>

namespace towpath::kv {
namespace {

using run::MutexLock;

constexpr std::uint64_t kMostPutAgainBytes = std::uint64_t{64} << 20U;  // at a time

bool is_write(KeyedStore::Operation operation) {
  return operation == KeyedStore::Operation::put || operation == KeyedStore::Operation::remove;
}

Status missing(const BlockKey& key) {
  return error(Code::not_found, cat("no block under the key ", hex(key.hash), hex(key.rest)));
}

}  // namespace

/// The tier is the thread's alone, and so is everything that is not behind the lock.
class KeyedStore::Thread {
 public:
  static Result<std::unique_ptr<Thread>> start(std::unique_ptr<BlockTier> tier);
  ~Thread();

  BatchId submit(Operation operation, std::vector<Item> items);
  std::vector<Ended> take_ended();
  int fd() const noexcept { return ended_waker_->fd(); }
  KeyedFigures figures() const;

 private:
  struct Batch {
    BatchId id;
    Operation operation;
    std::vector<Item> items;
    std::vector<Status> statuses;
    std::size_t left;  // items that have not ended
  };
  /// An item of a batch; of what is put again there is none.
  struct Job {
    Batch* batch;
    std::size_t index;
    Operation operation;
    BlockKey key;
    TierTask task;
    Bytes kept{};  // what is put again
  };
  /// Batches whose items begin in order, so many at a time.
  struct Lane {
    std::size_t most = 1;
    std::deque<std::unique_ptr<Batch>> batches{};  // the front ones may have begun
    std::size_t next_batch = 0, next_item = 0;
    std::list<Job> under_way{};
  };

  Thread(std::unique_ptr<BlockTier> tier, std::unique_ptr<run::Waker> asked_waker,
         std::unique_ptr<run::Waker> ended_waker, run::Poller poller);

  void run(const run::StopToken& stop);
  void take_submitted();
  bool begin_some(Lane& lane);
  void begin(Lane& lane, Batch& batch, std::size_t index);
  bool move(Lane& lane);
  void drop_what_waits(Lane& lane);
  void report_ended(Lane& lane);

  std::optional<Status> next_step(Job& job);
  std::optional<Status> after_look(Job& job);
  Status after_get(Job& job);
  std::optional<Status> begin_put(Job& job, bool is_there);
  void put_again(const Job& job);
  void end(Job& job, Status how);
  void count(const Job& job, const Status& how);

  const std::unique_ptr<BlockTier> tier_;
  const std::unique_ptr<run::Waker> asked_waker_;  // of the thread
  const std::unique_ptr<run::Waker> ended_waker_;  // of the caller
  run::Poller poller_;                             // of the tier's descriptor
  Lane reads_, writes_;
  std::unordered_set<BlockHash> being_written_;
  std::uint64_t put_again_bytes_ = 0;  // under way

  mutable run::Mutex mutex_;
  BatchId last_id_ TOWPATH_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Batch>> submitted_ TOWPATH_GUARDED_BY(mutex_);
  std::vector<Ended> ended_ TOWPATH_GUARDED_BY(mutex_);
  KeyedFigures figures_ TOWPATH_GUARDED_BY(mutex_);

  std::optional<run::Worker> worker_;  // ends first
};

// The caller's side ------------------------------------------------------------------------------

Result<std::unique_ptr<KeyedStore::Thread>> KeyedStore::Thread::start(
    std::unique_ptr<BlockTier> tier) {
  TOWPATH_TRY(auto asked, run::Waker::open());
  TOWPATH_TRY(auto ended, run::Waker::open());
  TOWPATH_TRY(auto poller, run::Poller::open());
  if (tier->wait_fd() >= 0) TOWPATH_TRY(poller.add(tier->wait_fd(), 0));
  auto thread = std::unique_ptr<Thread>(
      new Thread(std::move(tier), std::move(asked), std::move(ended), std::move(poller)));
  TOWPATH_TRY(thread->worker_,
              run::Worker::start("kv-keyed", [thread = thread.get()](const run::StopToken& stop) {
                thread->run(stop);
              }));
  return thread;
}

KeyedStore::Thread::Thread(std::unique_ptr<BlockTier> tier, std::unique_ptr<run::Waker> asked_waker,
                           std::unique_ptr<run::Waker> ended_waker, run::Poller poller)
    : tier_(std::move(tier)),
      asked_waker_(std::move(asked_waker)),
      ended_waker_(std::move(ended_waker)),
      poller_(std::move(poller)) {
  reads_.most = tier_->depth();
  writes_.most = std::max<std::size_t>(1, tier_->put_depth());
  if (tier_->put_depth() == 0 && reads_.most > 1) --reads_.most;  // that place is a write's
}

KeyedStore::Thread::~Thread() {
  if (worker_) worker_->request_stop();
  asked_waker_->wake();
  worker_.reset();
  tier_->checkpoint();
}

KeyedStore::BatchId KeyedStore::Thread::submit(Operation operation, std::vector<Item> items) {
  const std::size_t size = items.size();
  auto batch = std::unique_ptr<Batch>(
      new Batch{0, operation, std::move(items), std::vector<Status>(size), size});
  BatchId id = 0;
  {
    const MutexLock lock(mutex_);
    submitted_.push_back(std::move(batch));
    id = submitted_.back()->id = ++last_id_;
  }
  asked_waker_->wake();
  return id;
}

std::vector<KeyedStore::Ended> KeyedStore::Thread::take_ended() {
  ended_waker_->clear();  // before the look: what ends behind it is shown again
  const MutexLock lock(mutex_);
  return std::exchange(ended_, {});
}

KeyedFigures KeyedStore::Thread::figures() const {
  const MutexLock lock(mutex_);
  return figures_;
}

// The thread -------------------------------------------------------------------------------------

void KeyedStore::Thread::run(const run::StopToken& stop) {
  constexpr Duration kNap =
      std::chrono::milliseconds(50);  // what the tier's descriptor does not show
  for (;;) {
    asked_waker_->clear();
    take_submitted();
    const bool stops = stop.stop_requested();
    bool some = false;
    for (Lane* const lane : {&reads_, &writes_}) {
      if (stops)
        drop_what_waits(*lane);
      else
        some = begin_some(*lane) || some;
    }
    some = tier_->progress() || some;
    for (Lane* const lane : {&reads_, &writes_}) {
      some = move(*lane) || some;
      report_ended(*lane);
    }
    const bool is_idle = reads_.under_way.empty() && writes_.under_way.empty();
    if (stops && is_idle) return;
    if (!some) (void)poller_.wait_beside(*asked_waker_, is_idle ? Duration::max() : kNap);
  }
}

void KeyedStore::Thread::take_submitted() {
  std::vector<std::unique_ptr<Batch>> submitted;
  {
    const MutexLock lock(mutex_);
    submitted.swap(submitted_);
  }
  for (auto& batch : submitted) {
    Lane& lane = is_write(batch->operation) ? writes_ : reads_;
    lane.batches.push_back(std::move(batch));
  }
}

/// True: something has begun, and may have ended. Writes under one hash begin one after the other:
/// each acts upon what it saw there.
bool KeyedStore::Thread::begin_some(Lane& lane) {
  bool some = false;
  while (lane.next_batch < lane.batches.size() && lane.under_way.size() < lane.most) {
    Batch& batch = *lane.batches[lane.next_batch];
    if (lane.next_item < batch.items.size()) {
      const BlockHash hash = batch.items[lane.next_item].key.hash;
      if (is_write(batch.operation) && !being_written_.insert(hash).second) break;
      begin(lane, batch, lane.next_item++);
    } else {
      ++lane.next_batch;
      lane.next_item = 0;
    }
    some = true;
  }
  return some;
}

/// Whatever it is, what is there under the key comes first.
void KeyedStore::Thread::begin(Lane& lane, Batch& batch, std::size_t index) {
  const BlockKey key = batch.items[index].key;
  Job& job = lane.under_way.emplace_back(
      Job{&batch, index, batch.operation, key, {.kind = TierTask::Kind::look, .hash = key.hash}});
  tier_->begin(job.task);
}

/// True: a step of some has ended.
bool KeyedStore::Thread::move(Lane& lane) {
  bool some = false;
  for (auto job = lane.under_way.begin(); job != lane.under_way.end();) {
    std::optional<Status> how;
    while (job->task.has_ended && !how) {
      how = next_step(*job);
      some = true;
    }
    if (!how) {
      ++job;
      continue;
    }
    end(*job, *std::move(how));
    job = lane.under_way.erase(job);
  }
  return some;
}

void KeyedStore::Thread::drop_what_waits(Lane& lane) {
  for (; lane.next_batch < lane.batches.size(); ++lane.next_batch, lane.next_item = 0) {
    Batch& batch = *lane.batches[lane.next_batch];
    for (; lane.next_item < batch.items.size(); ++lane.next_item, --batch.left)
      batch.statuses[lane.next_item] = error(Code::cancelled, "the store was closed");
  }
  for (Job& job : lane.under_way)
    if (!job.task.has_ended) tier_->cancel(job.task);
}

void KeyedStore::Thread::report_ended(Lane& lane) {
  std::vector<Ended> ended;
  for (std::size_t at = 0; at < lane.next_batch;) {
    Batch& batch = *lane.batches[at];
    if (batch.left > 0) {
      ++at;
      continue;
    }
    ended.push_back({batch.id, std::move(batch.statuses)});
    lane.batches.erase(lane.batches.begin() + static_cast<std::ptrdiff_t>(at));
    --lane.next_batch;
  }
  if (ended.empty()) return;
  {
    const MutexLock lock(mutex_);
    for (Ended& one : ended) ended_.push_back(std::move(one));
  }
  ended_waker_->wake();
}

// One block --------------------------------------------------------------------------------------

/// Its task has ended. Nothing: another has begun.
std::optional<Status> KeyedStore::Thread::next_step(Job& job) {
  switch (job.task.kind) {
    case TierTask::Kind::look: return after_look(job);
    case TierTask::Kind::get: return after_get(job);
    case TierTask::Kind::put: break;
  }
  return std::move(job.task.status);
}

std::optional<Status> KeyedStore::Thread::after_look(Job& job) {
  const bool is_there = job.task.status.ok();
  const bool is_its_own = is_there && job.task.digest.salt == job.key.rest;
  if (!is_there && job.task.status.code() != Code::not_found) return std::move(job.task.status);
  if (job.operation == Operation::put) return begin_put(job, is_there);
  if (!is_its_own) return missing(job.key);
  if (job.operation == Operation::remove) return tier_->remove(job.key.hash);
  if (tier_->may_be_replaced(job.key.hash)) return missing(job.key);
  if (job.operation == Operation::find) return Status();
  job.task = {.kind = TierTask::Kind::get,
              .hash = job.key.hash,
              .bytes = job.batch->items[job.index].bytes};
  tier_->begin(job.task);
  return std::nullopt;
}

std::optional<Status> KeyedStore::Thread::begin_put(Job& job, bool is_there) {
  const bool is_again = job.batch == nullptr;
  const ByteSpan bytes = is_again ? ByteSpan(job.kept) : job.batch->items[job.index].bytes;
  const Digest digest = digest_of(bytes, job.key.rest);
  const bool is_same =
      is_there && job.task.digest == digest && !tier_->may_be_replaced(job.key.hash);
  const bool is_leaving = is_same && tier_->is_leaving(job.key.hash);
  if (is_again && !is_leaving)
    return error(Code::cancelled, "it stays, went, or was replaced, while it was read");
  if (is_same && !is_leaving) {
    const MutexLock lock(mutex_);
    ++figures_.already;
    return Status();
  }
  if (is_there && !is_same) {
    const Status removed = tier_->remove(job.key.hash);  // not_found: its segment went meanwhile
    if (!removed.ok() && removed.code() != Code::not_found) return removed;
  }
  job.task = {.kind = TierTask::Kind::put,
              .hash = job.key.hash,
              .digest = digest,
              .bytes = bytes,
              .is_proven = true};  // its digest was taken of them just now
  tier_->begin(job.task);
  return std::nullopt;
}

Status KeyedStore::Thread::after_get(Job& job) {
  if (!job.task.status.ok()) return std::move(job.task.status);
  if (job.task.digest.salt != job.key.rest) return missing(job.key);  // it was replaced meanwhile
  if (tier_->is_leaving(job.key.hash)) put_again(job);
  return {};
}

/// Best effort: the caller has its bytes and waits no longer, so a copy is put; but not over what
/// was put while they were read.
void KeyedStore::Thread::put_again(const Job& job) {
  const std::uint64_t bytes = job.task.bytes.size();
  const bool has_room =
      put_again_bytes_ + bytes <= kMostPutAgainBytes && writes_.under_way.size() < writes_.most;
  if (!has_room || !being_written_.insert(job.key.hash).second) return;
  Job& again =
      writes_.under_way.emplace_back(Job{nullptr,
                                         0,
                                         Operation::put,
                                         job.key,
                                         {},
                                         Bytes(job.task.bytes.begin(), job.task.bytes.end())});
  again.task = {.kind = TierTask::Kind::look, .hash = job.key.hash};
  put_again_bytes_ += bytes;
  tier_->begin(again.task);
}

void KeyedStore::Thread::end(Job& job, Status how) {
  count(job, how);
  if (is_write(job.operation)) being_written_.erase(job.key.hash);
  put_again_bytes_ -= job.kept.size();
  if (job.batch == nullptr) return;
  job.batch->statuses[job.index] = std::move(how);
  --job.batch->left;
}

void KeyedStore::Thread::count(const Job& job, const Status& how) {
  const MutexLock lock(mutex_);
  if (how.ok() && job.batch == nullptr) ++figures_.put_again;
  if (how.ok() && job.batch != nullptr && job.operation == Operation::put) ++figures_.put;
  if (how.ok() && job.operation == Operation::get) ++figures_.loaded;
  if (how.code() == Code::not_found) ++figures_.missing;
  if (how.code() == Code::corrupt) ++figures_.not_proven;
  const bool is_expected =
      how.ok() || how.code() == Code::not_found || how.code() == Code::cancelled;
  if (!is_expected) figures_.last_failure = how;
}

// KeyedStore -------------------------------------------------------------------------------------

KeyedStore::KeyedStore(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}
KeyedStore::~KeyedStore() = default;

Result<std::unique_ptr<KeyedStore>> KeyedStore::open(std::unique_ptr<BlockTier> tier) {
  TOWPATH_TRY(auto thread, Thread::start(std::move(tier)));
  return std::unique_ptr<KeyedStore>(new KeyedStore(std::move(thread)));
}

KeyedStore::BatchId KeyedStore::submit(Operation operation, std::vector<Item> items) {
  return thread_->submit(operation, std::move(items));
}
std::vector<KeyedStore::Ended> KeyedStore::take_ended() { return thread_->take_ended(); }
int KeyedStore::fd() const noexcept { return thread_->fd(); }
KeyedFigures KeyedStore::figures() const { return thread_->figures(); }

}  // namespace towpath::kv
