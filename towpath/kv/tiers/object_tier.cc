#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/tiers/object_tier.h>
#include <towpath/memory/object_region.h>
#include <towpath/memory/system_region.h>

namespace towpath::kv {
namespace {

Status check_options(const ObjectTierOptions& options) {
  if (options.agent == nullptr || options.presence == nullptr || options.tier == 0)
    return error(Code::invalid_argument, "an object tier needs an agent, a Presence and a number",
                 "fill in ObjectTierOptions; 0 is the host's number");
  if (options.block_bytes == 0 || options.block_bytes > kMaxBlockBytes || options.depth == 0)
    return error(Code::invalid_argument,
                 cat(options.depth, " blocks of ", options.block_bytes, " bytes at once"),
                 cat("use at least one, of 1 to ", kMaxBlockBytes, " bytes"));
  // Told now and not at the first block.
  TOWPATH_TRY(auto object, memory::ObjectRegion::create(
                               {.bucket = options.bucket, .key = cat(options.prefix, "/")}));
  return options.agent->register_region(std::move(object)).status();
}

}  // namespace

Result<std::unique_ptr<ObjectTier>> ObjectTier::open(const ObjectTierOptions& options) {
  TOWPATH_TRY(check_options(options));
  std::unique_ptr<ObjectTier> made(new ObjectTier(options));
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
  std::string digits = hex(hash).substr(2);
  digits.insert(0, 2 * sizeof hash - std::min(digits.size(), 2 * sizeof hash), '0');
  return cat(options_.prefix, "/", digits);
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
  if (task.kind == TierTask::Kind::put) std::erase(to_remove_, task.hash);
  if (Status ready = prepare(*slot); !ready.ok()) return end(*slot, std::move(ready));
  start(*slot);
}

/// What is put is proven first, and lies in the slot then.
Status ObjectTier::prepare(Slot& slot) const {
  const TierTask& task = *slot.task;
  if (task.kind != TierTask::Kind::look && task.bytes.size() != options_.block_bytes)
    return error(Code::invalid_argument, cat("block ", hex(task.hash), " of ", task.bytes.size(),
                                             " bytes in a tier of ", options_.block_bytes));
  if (task.kind != TierTask::Kind::put) {
    const bool is_going = std::ranges::find(to_remove_, task.hash) != to_remove_.end();
    return is_going ? error(Code::not_found, cat("block ", hex(task.hash), " is being removed"))
                    : Status();
  }
  std::ranges::copy(task.bytes, bytes_of(slot).begin());
  const ConstByteSpan bytes = bytes_of(slot).first(options_.block_bytes);
  const Digest found = digest_of(bytes, task.digest.salt, task.digest.algorithm);
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

/// Not while a removal of the block is under way, which could arrive after it.
void ObjectTier::start(Slot& slot) {
  if (slot.task != nullptr && is_being_removed(slot.hash)) return;
  slot.is_posted = true;
  const std::uint64_t whole = kSegmentPage + options_.block_bytes;
  const bool is_write = slot.task == nullptr || slot.task->kind == TierTask::Kind::put;
  const bool is_page = slot.task == nullptr || slot.task->kind == TierTask::Kind::look;
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
  const bool more = options_.agent->progress();
  for (Slot& slot : slots_) {
    if (slot.is_busy && !slot.is_posted) start(slot);
    if (slot.is_busy && slot.is_posted && slot.transfer.ended()) finish(slot);
  }
  begin_removals();
  return more;
}

void ObjectTier::finish(Slot& slot) {
  const Outcome outcome = slot.transfer.outcome();
  Status how = outcome == Outcome::done ? Status() : slot.transfer.status();
  if (slot.task == nullptr || slot.task->kind == TierTask::Kind::put) {
    if (slot.task != nullptr && how.ok()) (void)options_.presence->add(slot.hash, options_.tier);
    return end(slot, std::move(how));
  }
  const bool is_look = slot.task->kind == TierTask::Kind::look;
  if (how.ok()) how = is_look ? told(slot) : prove(slot);
  const bool is_gone = how.code() == Code::not_found || how.code() == Code::corrupt;
  if (is_look && how.ok()) (void)options_.presence->add(slot.hash, options_.tier);
  if (is_gone) (void)options_.presence->remove(slot.hash, options_.tier);
  end(slot, std::move(how));
}

/// What the object says that it is. Errors: not_found (that it was removed), corrupt.
Status ObjectTier::told(Slot& slot) const {
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

Status ObjectTier::prove(Slot& slot) const {
  TOWPATH_TRY(told(slot));
  const ConstByteSpan bytes = bytes_of(slot).first(options_.block_bytes);
  const Digest& wanted = slot.task->digest;
  const Digest found = digest_of(bytes, wanted.salt, wanted.algorithm);
  if (found != wanted)
    return error(Code::corrupt, cat("object '", printable(key_of(slot.hash)), "' is ",
                                    to_string(found), ", not ", to_string(wanted)));
  std::ranges::copy(bytes, slot.task->bytes.begin());
  return {};
}

void ObjectTier::end(Slot& slot, Status how) {
  TierTask* const task = std::exchange(slot.task, nullptr);
  slot.is_busy = slot.is_posted = false;
  slot.transfer = {};
  (void)slot.object.release();
  if (task != nullptr) task->end(std::move(how));
}

// Removing ---------------------------------------------------------------------------------------

Status ObjectTier::remove(BlockHash hash) {
  if (!options_.presence->remove(hash, options_.tier))
    return error(Code::not_found, cat("no block ", hex(hash)));
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
