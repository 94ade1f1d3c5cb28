#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/tiers/object_tier.h>
#include <towpath/memory/object_region.h>
#include <towpath/memory/system_region.h>

namespace towpath::kv {
namespace {

Status check_options(const ObjectTierOptions& options) {
  if (options.agent == nullptr || options.block_directory == nullptr || options.tier == 0 ||
      options.tier >= kMaxTiers)
    return error(
        Code::invalid_argument, "an object tier needs an agent, a BlockDirectory and a number",
        cat("fill in ObjectTierOptions; 0 is the host's number, all are below ", kMaxTiers));
  if (options.block_bytes == 0 || options.block_bytes > kMaxBlockBytes || options.depth == 0)
    return error(Code::invalid_argument,
                 cat(options.depth, " blocks of ", options.block_bytes, " bytes at once"),
                 cat("use at least one, of 1 to ", kMaxBlockBytes, " bytes"));
  // Reported now and not at the first block.
  TOWPATH_TRY(auto object, memory::ObjectRegion::create(
                               {.bucket = options.bucket, .key = cat(options.prefix, "/")}));
  return options.agent->register_region(std::move(object)).status();
}

}  // namespace

Result<std::unique_ptr<ObjectTier>> ObjectTier::open(const ObjectTierOptions& options,
                                                     std::unique_ptr<ObjectBucket> bucket) {
  TOWPATH_TRY(check_options(options));
  if ((options.bound_bytes > 0) != (bucket != nullptr) || (bucket && options.clock == nullptr))
    return error(Code::invalid_argument, "a bound, a bucket and a clock go together",
                 "give all to a tier of objects, or no bound and no bucket");
  std::unique_ptr<ObjectTier> made(new ObjectTier(options));
  if (bucket) {
    TOWPATH_TRY(
        made->index_,
        ObjectIndex::make(std::move(bucket), {.prefix = cat(options.prefix, "/"),
                                              .object_bytes = object_bytes_of(options.block_bytes),
                                              .bound_bytes = options.bound_bytes,
                                              .policy = options.policy,
                                              .depth = options.depth,
                                              .block_directory = options.block_directory,
                                              .tier = options.tier}));
  }
  const std::uint64_t slot_bytes = room_of({.length = options.block_bytes});
  const std::size_t slots = options.depth + 1;
  TOWPATH_TRY(made->memory_, memory::SystemRegion::allocate(slots * slot_bytes));
  TOWPATH_TRY(made->registration_, options.agent->register_region(made->memory_));
  made->slots_.resize(slots);
  for (std::size_t i = 0; i < slots; ++i)
    made->slots_[i].memory = made->memory_->bytes().subspan(i * slot_bytes, slot_bytes);
  return made;
}

ObjectTier::~ObjectTier() = default;

std::string ObjectTier::key_of(BlockHash hash) const {
  return cat(options_.prefix, "/", object_digits(hash));
}

std::optional<TierCapacity> ObjectTier::room() const {
  if (!index_) return std::nullopt;
  return index_->room();
}

// Beginning --------------------------------------------------------------------------------------

void ObjectTier::begin(TierTask& task) {
  const auto slot = std::ranges::find_if(slots_.begin(), slots_.end() - 1,
                                         [](const Slot& s) { return !s.is_busy; });
  if (slot == slots_.end() - 1)
    return task.end(error(Code::exhausted, cat("more than ", options_.depth, " tasks at once"),
                          "begin no more than depth() says"));
  slot->is_busy = true;
  slot->task = &task;
  slot->hash = task.hash;
  if (options_.clock != nullptr) slot->deadline = options_.clock->now() + options_.timeout;
  if (task.kind == TierTask::Kind::put) {
    std::erase(to_remove_, task.hash);
    if (index_) index_->begin_put();
  }
  if (Status ready = prepare(*slot); !ready.ok()) return end(*slot, std::move(ready));
  start(*slot);
}

/// What is put lies in the slot then, and was proven on its way there.
Status ObjectTier::prepare(Slot& slot) const {
  const TierTask& task = *slot.task;
  if (task.kind != TierTask::Kind::look && task.bytes.size() != options_.block_bytes)
    return error(Code::invalid_argument, cat("block ", hex(task.hash), " of ", task.bytes.size(),
                                             " bytes in a tier of ", options_.block_bytes));
  if (task.kind != TierTask::Kind::put) {
    const bool is_going = index_ ? index_->is_going(task.hash)
                                 : std::ranges::find(to_remove_, task.hash) != to_remove_.end();
    return is_going ? error(Code::not_found, cat("block ", hex(task.hash), " is being removed"))
                    : Status();
  }
  const Digest found = copy_and_digest(bytes_of(slot).first(options_.block_bytes), task.bytes,
                                       task.digest.salt, task.digest.algorithm);
  if (found != task.digest)
    return error(Code::corrupt,
                 cat("the bytes are ", to_string(found), ", not ", to_string(task.digest)));
  std::ranges::copy(
      seal_record({RecordKind::block, task.hash, task.digest, options_.block_bytes}, {}),
      page_of(slot).begin());
  return {};
}

bool ObjectTier::is_being_removed(BlockHash hash) const {
  const Slot& last = slots_.back();
  return last.is_busy && last.hash == hash;
}

/// Not while a removal of the block is under way, which could arrive after it, and not before there
/// is room for it.
Result<bool> ObjectTier::may_start(Slot& slot) {
  if (slot.task == nullptr) return true;
  if (!index_) return !is_being_removed(slot.hash);
  if (slot.task->kind == TierTask::Kind::put) return index_->admit(slot.hash, slot.place);
  if (slot.task->kind == TierTask::Kind::get) slot.place.held = index_->hold(slot.hash);
  return true;
}

void ObjectTier::start(Slot& slot) {
  const Result<bool> may = may_start(slot);
  if (!may.ok()) return end(slot, may.status());
  if (!*may) {
    if (options_.clock == nullptr || options_.clock->now() < slot.deadline) return;
    return end(slot, error(Code::timed_out,
                           cat("there was no place for block ", hex(slot.hash), " within ",
                               options_.timeout / std::chrono::milliseconds(1), " ms"),
                           "the store lists and removes slowly, or all its blocks are in use"));
  }
  slot.is_posted = true;
  const std::uint64_t whole = object_bytes_of(options_.block_bytes);
  const bool is_write = slot.task == nullptr || slot.task->kind == TierTask::Kind::put;
  const bool is_page = slot.task == nullptr || slot.task->kind == TierTask::Kind::look;
  if (!is_write) std::ranges::fill(page_of(slot), std::byte{0});  // else an earlier task's
  Status posted =
      post(slot, is_write ? TransferOp::write : TransferOp::read, is_page ? kSegmentPage : whole);
  if (!posted.ok()) end(slot, std::move(posted));
}

Status ObjectTier::post(Slot& slot, TransferOp op, std::uint64_t length) {
  TOWPATH_TRY(auto object,
              memory::ObjectRegion::create({.bucket = options_.bucket, .key = key_of(slot.hash)}));
  const RegionDescriptor place = object->descriptor();
  TOWPATH_TRY(slot.object, options_.agent->register_region(std::move(object)));
  DescriptorList here(memory_->kind());
  DescriptorList there(place.kind);
  TOWPATH_TRY(here.add(
      Descriptor{address_of(slot.memory.data()), length, memory_->descriptor().device_id}));
  TOWPATH_TRY(there.add(Descriptor{place.address, length, place.device_id}));
  TOWPATH_TRY(slot.transfer,
              options_.agent->create_transfer(op, here, options_.agent->name(), there));
  return slot.transfer.post({.timeout = options_.timeout, .notification = {}});
}

// Ending -----------------------------------------------------------------------------------------

void ObjectTier::cancel(TierTask& task) {
  for (Slot& slot : slots_) {
    if (slot.task != &task) continue;
    if (!slot.is_posted)
      return end(slot, error(Code::cancelled, "nobody wants the block any more"));
    slot.transfer.cancel();
  }
}

bool ObjectTier::progress() {
  bool more = options_.agent->progress();
  if (index_) more = index_->progress() || more;
  for (Slot& slot : slots_) {
    if (slot.is_busy && !slot.is_posted) start(slot);
    if (slot.is_busy && slot.is_posted && slot.transfer.ended()) finish(slot);
  }
  begin_removals();
  return more;
}

void ObjectTier::wait_for_work(Duration most) {
  constexpr Duration kNap = std::chrono::milliseconds(1);  // the bucket's answers wake nobody
  options_.agent->wait_for_work(index_ && index_->is_busy() ? std::min(most, kNap) : most);
}

void ObjectTier::finish(Slot& slot) {
  const Outcome outcome = slot.transfer.outcome();
  Status how = outcome == Outcome::done ? Status() : slot.transfer.status();
  if (slot.task == nullptr || slot.task->kind == TierTask::Kind::put) {
    if (slot.task != nullptr) finish_put(slot, how);
    return end(slot, std::move(how));
  }
  const bool is_look = slot.task->kind == TierTask::Kind::look;
  bool is_damaged = false;
  if (how.ok())
    how = reported(slot);
  else if (how.code() == Code::out_of_range)
    how = reported_by_page(slot, how);
  if (how.ok() && !is_look) {
    how = prove(slot);
    is_damaged = !how.ok();
  }
  if (is_look && how.ok()) {
    if (index_) index_->meet(slot.hash);
    (void)options_.block_directory->add(slot.hash, options_.tier);
  }
  lose(slot.hash, how.code(), is_damaged);
  end(slot, std::move(how));
}

void ObjectTier::finish_put(Slot& slot, const Status& how) {
  if (index_)
    how.ok() ? index_->keep(slot.hash, slot.place) : index_->give_up(slot.hash, slot.place);
  else if (how.ok())
    (void)options_.block_directory->add(slot.hash, options_.tier);
}

/// What is not there, ends early, or cannot be read as this block, is there no more. The store
/// keeps it, unless it is damaged: it may be another's, or was replaced while it was read.
void ObjectTier::lose(BlockHash hash, Code why, bool is_damaged) {
  if (why != Code::not_found && why != Code::out_of_range && why != Code::corrupt) return;
  if (!index_)
    (void)options_.block_directory->remove(hash, options_.tier);
  else if (is_damaged)
    index_->discard(hash);
  else
    index_->forget(hash);
}

/// What the object says that it is. Errors: not_found (that it was removed), corrupt.
Status ObjectTier::reported(Slot& slot) const {
  TOWPATH_TRY(const Record record, open_record(page_of(slot), {}));
  if (record.hash == slot.hash && record.kind == RecordKind::removal)
    return error(Code::not_found, cat("block ", hex(slot.hash), " was removed"));
  if (record.hash != slot.hash || record.kind != RecordKind::block ||
      record.length != options_.block_bytes)
    return error(Code::corrupt,
                 cat("object '", printable(key_of(slot.hash)), "' says it is block ",
                     hex(record.hash), " of ", record.length, " bytes"),
                 "give each model, share and shape a prefix of its own");
  slot.task->digest = record.digest;
  return {};
}

/// Of an object that ends before what was read: another process may have put a removal over the
/// block, which is a page. Errors: not_found (so it was), or `how`.
Status ObjectTier::reported_by_page(Slot& slot, const Status& how) const {
  const Status said = reported(slot);
  if (said.code() == Code::not_found) return said;
  return how;
}

/// After reported(). Errors: corrupt (the object is damaged).
Status ObjectTier::prove(Slot& slot) const {
  const ConstByteSpan bytes = bytes_of(slot).first(options_.block_bytes);
  const Digest& wanted = slot.task->digest;
  const Digest found = copy_and_digest(slot.task->bytes, bytes, wanted.salt, wanted.algorithm);
  if (found == wanted) return {};
  return error(Code::corrupt, cat("object '", printable(key_of(slot.hash)), "' is ",
                                  to_string(found), ", not ", to_string(wanted)));
}

void ObjectTier::end(Slot& slot, Status how) {
  TierTask* const task = std::exchange(slot.task, nullptr);
  slot.is_busy = slot.is_posted = false;
  slot.transfer = {};
  slot.place = {};
  (void)slot.object.release();
  if (task != nullptr) task->end(std::move(how));
}

// Removing ---------------------------------------------------------------------------------------

Status ObjectTier::remove(BlockHash hash) {
  if (!options_.block_directory->remove(hash, options_.tier))
    return error(Code::not_found, cat("no block ", hex(hash)));
  if (index_) {
    index_->discard(hash);
    return {};
  }
  to_remove_.push_back(hash);
  begin_removals();
  return {};
}

void ObjectTier::begin_removals() {
  Slot& slot = slots_.back();
  if (slot.is_busy || to_remove_.empty()) return;
  slot.is_busy = true;
  slot.hash = to_remove_.front();
  to_remove_.pop_front();
  std::ranges::copy(seal_record({.kind = RecordKind::removal, .hash = slot.hash}, {}),
                    page_of(slot).begin());
  start(slot);
}

}  // namespace towpath::kv
