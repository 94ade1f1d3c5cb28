#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/disk/record_io.h>
#include <towpath/kv/tiers/disk_tier.h>

namespace towpath::kv {
namespace {

// A read of so many bytes is worth a call of its own: what the page cache has comes in it, and is
// proven while the processor's caches have it. Smaller ones are given to the device together.
constexpr std::size_t kReadAlone = std::size_t{128} << 10U;

// So many syncs at most before the index that a disk refuses is written to it again.
constexpr std::uint64_t kLongestWait = 4096;

}  // namespace

struct DiskTier::Read {
  TierTask* task;
  BlockRead read{};
};

/// Of a block; of a removal, which nobody waits for, there is no task.
struct DiskTier::Waiting {
  TierTask* task;
  Record record;
  bool lacks_space = false;        // which is to be found before it is tried again
  Status why{};                    // it does
  std::uint64_t rooms_before = 0;  // that had been made when it was tried
};

struct DiskTier::Write {
  Waiting what;
  RecordWrite write{};
};

DiskTier::DiskTier(std::unique_ptr<BlockStore> store, TierIndex index)
    : store_(std::move(store)), index_(index) {}

bool DiskTier::is_idle() const {
  return reads_.empty() && writes_.empty() && waiting_.empty() && sync_ == nullptr;
}

Result<std::unique_ptr<DiskTier>> DiskTier::open(sys::FileSystem& files,
                                                 const BlockStoreOptions& options,
                                                 std::unique_ptr<sys::FileDevice> device) {
  if (options.tier == 0)
    return error(Code::invalid_argument, "a disk tier as tier 0",
                 "name 1 or more: 0 is the pool's");
  TOWPATH_TRY(auto store, BlockStore::open(files, options, std::move(device)));
  return std::unique_ptr<DiskTier>(new DiskTier(std::move(store), options.tier));
}

DiskTier::~DiskTier() { drain(); }

/// But for removals that find no memory: it may not come back, and a checkpoint does as well.
void DiskTier::drain() {
  constexpr Duration kNap = std::chrono::milliseconds(100);
  is_draining_ = true;
  while (progress() || !is_idle()) wait_for_work(kNap);
  is_draining_ = false;
}

void DiskTier::checkpoint() {
  drain();
  (void)store_->checkpoint();
}

// Tasks ------------------------------------------------------------------------------------------

void DiskTier::begin(TierTask& task) {
  switch (task.kind) {
    case TierTask::Kind::put: return begin_put(task);
    case TierTask::Kind::get: return begin_get(task);
    case TierTask::Kind::look: break;
  }
  const auto found = store_->find(task.hash);
  if (found) task.digest = found->digest;
  task.end(found ? Status() : error(Code::not_found, cat("no block ", hex(task.hash))));
}

void DiskTier::begin_get(TierTask& task) {
  Read& read = reads_.emplace_back(Read{&task});
  if (Status begun = store_->begin(read.read, task.hash, task.bytes); !begun.ok()) {
    reads_.pop_back();
    return task.end(std::move(begun));
  }
  store_->device().begin(read.read.request);
  if (task.bytes.size() >= kReadAlone) (void)store_->device().progress();
  (void)end_reads();
}

void DiskTier::begin_put(TierTask& task) {
  Result<std::optional<Record>> record =
      store_->admit(task.hash, task.digest, task.bytes, task.is_proven);
  if (!record.ok()) return task.end(record.status());
  if (!*record) return end_with_block(task);
  waiting_.push_back({&task, **record});
  begin_writes();
}

/// Another put has written the block: this one ends well when the block is there for good.
void DiskTier::end_with_block(TierTask& task) {
  if (store_->is_acknowledged(task.hash)) return task.end({});
  (store_->is_being_synced(task.hash) ? synced_with_it_ : written_).push_back(&task);
}

Status DiskTier::remove(BlockHash hash) {
  TOWPATH_TRY(const Record record, store_->forget(hash));
  // A put of the block that is not written yet, since it was leaving, comes behind the removal: it
  // is found again then, and would not be after a crash.
  if (is_being_put(hash))
    to_remove_.push_back({nullptr, record});
  else
    waiting_.push_front({nullptr, record});
  begin_writes();
  return {};
}

void DiskTier::cancel(TierTask& task) {
  for (Read& read : reads_)
    if (read.task == &task) store_->device().cancel(read.read.request);
  (void)end_reads();
  const auto waits = [&](const Waiting& one) { return one.task == &task; };
  if (std::erase_if(waiting_, waits) > 0)
    task.end(error(Code::cancelled, cat("block ", hex(task.hash), " was not written yet")));
}

// Progress ---------------------------------------------------------------------------------------

/// Until all that is under way is the device's affair.
bool DiskTier::progress() {
  remove_again();
  bool some = false;
  for (bool more = true; more;) {
    more = store_->device().progress();
    more = end_reads() || more;
    more = end_writes() || more;
    more = end_sync() || more;
    save_lost_removals();
    more = begin_writes() || more;
    more = begin_sync() || more;
    some = some || more;
  }
  return some;
}

bool DiskTier::end_reads() {
  return std::erase_if(reads_, [&](Read& one) {
           if (!one.read.request.has_ended) return false;
           one.task->digest = one.read.record.digest;
           one.task->end(store_->end(one.read));
           return true;
         }) > 0;
}

bool DiskTier::end_writes() {
  return std::erase_if(writes_, [&](Write& one) {
           if (!one.write.request.has_ended) return false;
           const Status written = store_->end(one.write);
           TierTask* const task = one.what.task;
           if (task == nullptr && !written.ok() && is_to_try_again(one.what, written)) {
             to_remove_.push_back(one.what);
           } else if (written.code() == Code::exhausted) {
             one.what.lacks_space = true;
             one.what.why = written;
             waiting_.push_front(one.what);
           } else if (task == nullptr && !written.ok()) {
             note_lost_removal();
           }
           if (task != nullptr && written.ok()) written_.push_back(task);
           if (task != nullptr && !written.ok() && !one.what.lacks_space) task->end(written);
           written_bytes_ += written.ok() ? room_of(one.write.record) : 0;
           return true;
         }) > 0;
}

bool DiskTier::is_being_put(BlockHash hash) const {
  return std::ranges::any_of(writes_, [&](const Write& one) {
    return one.what.task != nullptr && one.what.record.hash == hash;
  });
}

/// A removal, not at once: there was no memory, or its block was put again behind it, and written
/// now it would remove that one.
bool DiskTier::is_to_try_again(const Waiting& removal, const Status& written) const {
  const BlockHash hash = removal.record.hash;
  return (written.code() == Code::unavailable && !is_draining_) ||
         (written.code() == Code::exhausted && (store_->find(hash) || is_being_put(hash)));
}

/// Those whose block is there again need not. A put that still waits does so behind them.
void DiskTier::remove_again() {
  std::erase_if(to_remove_, [&](const Waiting& removal) {
    const BlockHash hash = removal.record.hash;
    if (is_being_put(hash)) return false;
    if (!store_->find(hash)) waiting_.push_front(removal);
    return true;
  });
}

/// It cannot be asked for again, since its block is not found any more.
void DiskTier::note_lost_removal() {
  if (!std::exchange(has_lost_removals_, true)) syncs_to_wait_ = 0, next_wait_ = 1;
}

/// By an index without their blocks. It is as long as there are blocks, 40 MB of a million, so a
/// disk that refuses it, a full one for example, is asked again after more and more syncs.
void DiskTier::save_lost_removals() {
  const bool is_at_rest = writes_.empty() && written_.empty() && sync_ == nullptr;
  if (!has_lost_removals_ || syncs_to_wait_ > 0 || !is_at_rest) return;
  has_lost_removals_ = !store_->checkpoint().ok();
  if (!has_lost_removals_) return;
  syncs_to_wait_ = next_wait_;
  next_wait_ = std::min(2 * next_wait_, kLongestWait);
}

bool DiskTier::end_sync() {
  if (!sync_ || !sync_->request.has_ended) return false;
  const Status synced = store_->end(*sync_);
  sync_.reset();
  if (!synced.ok() && store_->has_lost_removals()) note_lost_removal();
  if (syncs_to_wait_ > 0) --syncs_to_wait_;
  end_all(std::exchange(synced_with_it_, {}), synced);
  if (synced.ok()) return true;
  end_all(std::exchange(written_, {}), synced);  // which the store has forgotten, too
  written_bytes_ = 0;
  return true;
}

void DiskTier::end_all(std::vector<TierTask*> tasks, const Status& how) {
  for (TierTask* const task : tasks) task->end(how);
}

/// True: some began, or ended as they could not.
bool DiskTier::begin_writes() {
  bool some = false;
  while (!waiting_.empty() && writes_.size() < kMostWrites && begin_next()) some = true;
  return some;
}

/// False: not before what was written is synced.
bool DiskTier::begin_next() {
  Waiting& next = waiting_.front();
  Status begun = next.lacks_space ? find_space(next) : Status();
  if (begun.ok()) {
    next.lacks_space = false;
    begun = begin_write(next);
  }
  if (begun.code() == Code::not_ready) return false;
  if (begun.code() == Code::exhausted && !next.lacks_space) {
    next.lacks_space = true;
    next.why = std::move(begun);
    return true;
  }
  if (!begun.ok() && next.task == nullptr && is_to_try_again(next, begun))
    to_remove_.push_back(next);
  else if (!begun.ok() && next.task != nullptr)
    next.task->end(std::move(begun));
  else if (!begun.ok())
    note_lost_removal();
  waiting_.pop_front();
  (void)end_writes();
  return true;
}

/// Many may have failed together: what was freed for one of them may do for all.
Status DiskTier::find_space(Waiting& what) {
  if (rooms_made_ > what.rooms_before) return {};
  TOWPATH_TRY(store_->free_oldest(what.record, what.why));
  ++rooms_made_;
  return {};
}

Status DiskTier::begin_write(Waiting& what) {
  what.rooms_before = rooms_made_;
  Write& write = writes_.emplace_back(Write{what});
  const ConstByteSpan bytes = what.task != nullptr ? what.task->bytes : ByteSpan();
  Status begun = store_->begin(write.write, what.record, bytes);
  if (begun.ok())
    store_->device().begin(write.write.request);
  else
    writes_.pop_back();
  return begun;
}

/// When nothing is being written that would be missing, or much was.
bool DiskTier::begin_sync() {
  if (!store_->needs_sync() || (!writes_.empty() && written_bytes_ < kSyncBytes)) return false;
  sync_ = std::make_unique<SegmentSync>();
  (void)store_->begin(*sync_);
  synced_with_it_ = std::exchange(written_, {});
  written_bytes_ = 0;
  store_->device().begin(sync_->request);
  return true;
}

}  // namespace towpath::kv
