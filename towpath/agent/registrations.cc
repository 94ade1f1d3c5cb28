// Registrations: from a region to what backends made of it, and what peers are given of that.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include <towpath/agent/metadata_table.h>
#include <towpath/agent/registration_core.h>
#include <towpath/core/format.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::agent {

void Registrations::advertise(const BackendInstance& instance) {
  run::MutexLock lock(mutex_);
  if (!instance.connection_info.empty()) rows_.advertise(instance.index);
}

void Registrations::note_published() {
  run::MutexLock lock(mutex_);
  ++generation_;
}

Result<std::vector<memory::Registration>> Registrations::add(
    std::span<memory::SharedRegion> regions, const memory::RegisterOptions& options) {
  std::vector<memory::Registration> made;  // and what is in it when one fails goes with it
  made.reserve(regions.size());
  ReadOnlyMemory read_only(mappings_);
  for (const memory::SharedRegion& region : regions) read_only.open_for(region->descriptor());
  while (!regions.empty()) {
    const std::size_t count = std::min(regions.size(), kTogether);
    TOWPATH_TRY(add_some(regions.first(count), options, read_only, made));
    regions = regions.subspan(count);
  }
  return made;
}

Status Registrations::add_some(std::span<memory::SharedRegion> regions,
                               const memory::RegisterOptions& options, ReadOnlyMemory& read_only,
                               std::vector<memory::Registration>& made) {
  run::MutexLock lock(mutex_);
  TOWPATH_TRY(context_.check_open());
  TOWPATH_TRY(const Takers by, takers(options));
  std::array<Joining, kTogether> room;
  const std::span<Joining> all = std::span(room).first(regions.size());
  Status status = find_records(regions, read_only, all);
  if (status.ok()) status = join(all, by);
  const auto cores = std::make_shared_for_overwrite<RegistrationCore[]>(all.size());
  for (std::size_t i = 0; i < all.size() && all[i].record; ++i) {
    MemoryRecord& record = *all[i].record;
    // On failure what others have of it is still advertised.
    const bool stands = status.ok() || all[i].offered_before != 0;
    if (stands && record.offered != all[i].offered_before) {
      rows_.remove(record);
      rows_.add(record);
    }
    if (record.instances == 0) {  // no backend will ever have it
      record.stale = true;
      regions_.note_gone();
    }
    if (all[i].taken == 0) continue;
    finish_joining(all[i], cores[i], regions[i]);
    made.emplace_back(std::shared_ptr<RegistrationCore>(cores, &cores[i]));
  }
  ++generation_;
  return status;
}

void Registrations::finish_joining(Joining& one, RegistrationCore& core,
                                   memory::SharedRegion& region) {
  core.shared = shared_by(one.taken);
  core.record = std::move(one.record);
  core.held = one.taken;
  core.region = std::move(region);
}

Result<Registrations::Takers> Registrations::takers(const memory::RegisterOptions& options) const {
  Takers by;
  for (const std::string& name : options.backends) {
    TOWPATH_TRY(BackendInstance * instance, backends_.find(name));
    by.named |= instance_bit(instance->index);
  }
  by.must = by.named != 0 && !options.any_of_named;
  return by;
}

// One that is not known yet is at once: the same may come twice in a list.
Status Registrations::find_records(std::span<const memory::SharedRegion> regions,
                                   ReadOnlyMemory& read_only, std::span<Joining> all) {
  const OwnRecords fresh(regions.size());
  std::size_t used = 0;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    RecordPtr record = fresh.at(used);
    record->region = regions[i]->descriptor();
    if (record->region.length == 0)
      return error(Code::invalid_argument, cat("an empty region: ", to_string(record->region)),
                   "register at least one byte");
    if (const RegionEntry* const known = regions_.find_exactly(record->region)) {
      record = known->record;
    } else {
      if (record->region.is_read_only || read_only.holds(record->region)) {
        record->region.is_read_only = true;
        context_.has_read_only.store(true, std::memory_order_relaxed);
      }
      regions_.add(record);
      ++used;
    }
    all[i].offered_before = record->offered;
    all[i].record = std::move(record);
  }
  return {};
}

Status Registrations::join(std::span<Joining> all, const Takers& by) {
  for (const auto& instance : backends_.all()) {
    if (by.named != 0 && (by.named & instance_bit(instance->index)) == 0) continue;
    TOWPATH_TRY(join(all, *instance, by.must));
  }
  const auto without = std::ranges::find(all, InstanceMask{0}, &Joining::taken);
  if (without == all.end()) return {};
  return without->failure.ok() ? no_taker(without->record->region.kind) : without->failure;
}

Status Registrations::join(std::span<Joining> all, BackendInstance& instance, bool must) {
  const bool advertised = rows_.advertises(instance.index);
  const backend::Capabilities& can = instance.backend->capabilities();
  bool any_refused = false;
  engine_.with(instance, [&]() TOWPATH_REQUIRES(mutex_, instance.mutex) {
    for (Joining& one : all) {
      if (!must && !can.takes(one.record->region.kind)) continue;
      one.refusal = attach(*one.record, instance, advertised);
      if (one.refusal.ok()) {
        one.taken |= instance_bit(instance.index);
        continue;
      }
      any_refused = true;
      if (must) break;
    }
  });
  if (!any_refused) return {};
  for (Joining& one : all) {
    if (one.refusal.ok()) continue;
    const Status why = std::exchange(one.refusal, {});
    const RegionDescriptor& region = one.record->region;
    one.failure = error(why.code(), cat("backend ", instance.name, " refused ", to_string(region)),
                        std::string(why.hint()))
                      .because(why);
    if (must) return one.failure;
    log_refusal(instance, region.kind, one.failure);
  }
  return {};
}

Status Registrations::attach(MemoryRecord& record, BackendInstance& instance, bool advertised) {
  std::uint32_t& references = record.own->references[instance.index];
  if (references != 0) {
    const backend::Memory& shared = *record.memory.at(instance.index);
    TOWPATH_TRY(instance.backend->confirm(shared, record.region));
  } else {
    auto made = instance.backend->register_memory(record.region);
    if (telemetry::AgentMeter* const meter = context_.meter())
      meter->registered({.backend = instance.name,
                         .kind = record.region.kind,
                         .bytes = record.region.length,
                         .is_alone = (record.instances | record.own->leaving) == 0},
                        made.status().code());
    if (!made.ok()) return made.status();
    (*made)->is_read_only = record.region.is_read_only;
    if (advertised) {
      rows_.remove(record);  // before its keys change; add_some() writes it again
      record.own->keys.add(instance.index, (*made)->key());
      record.offered |= instance_bit(instance.index);
    }
    record.memory[instance.index] = *std::move(made);
    record.instances |= instance_bit(instance.index);
    std::atomic<std::uint32_t>& changes = record.own->changes[instance.index];
    if (changes % 2 != 0) ++changes;
  }
  ++references;
  return {};
}

Status Registrations::no_taker(MemoryKind kind) const {
  std::string have;
  for (const std::string& name : backends_.names())
    have.append(have.empty() ? "" : ", ").append(name);
  return error(Code::unsupported,
               cat("no backend of this agent takes ", name_of(kind),
                   " memory; it has: ", have.empty() ? "none" : have),
               "add a backend that does before registering");
}

// A pool is thousands of regions that the same backends take.
std::shared_ptr<const Registrations::Shared> Registrations::shared_by(InstanceMask taken) {
  if (!last_shared_ || last_shared_->instances != taken)
    last_shared_ = std::make_shared<const Shared>(
        Shared{context_.core, context_.self.name, backends_.names(taken), taken});
  return last_shared_;
}

// Once for a backend and a kind: a pool is many regions, and mostly alike.
void Registrations::log_refusal(const BackendInstance& instance, MemoryKind kind,
                                const Status& why) {
  std::uint32_t& refused = kinds_refused_[instance.index];
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(kind);
  context_.log.say((refused & bit) == 0 ? telemetry::Level::warning : telemetry::Level::debug,
                   "a backend refused a region",
                   {{"backend", instance.name}, {"why", why.to_string()}});
  refused |= bit;
}

// ---- what is found in it ----

namespace {

/// Lives while its maker holds the mutex of Registrations, which clang cannot follow through
/// Resolver.
class OwnResolver final : public ResolvedList::Resolver {
 public:
  explicit OwnResolver(RegionIndex& regions) : regions_(regions) {}

  Result<RecordPtr> resolve(MemoryKind kind, const Descriptor& what) override {
    if (const RegionEntry* const found = regions_.find(kind, what)) return found->record;
    return error(Code::not_found,
                 cat(to_string(kind, what), " lies in no registered region of this agent"),
                 "register the region first");
  }

 private:
  RegionIndex& regions_;
};

}  // namespace

Status Registrations::resolve(const DescriptorView& list, ResolvedList& side) {
  run::MutexLock lock(mutex_);
  TOWPATH_TRY(context_.check_open());
  OwnResolver resolver(regions_);
  return side.assign(list, resolver);
}

Status Registrations::check_covers(const DescriptorList& list) {
  run::MutexLock lock(mutex_);
  for (std::uint64_t i = 0; i < list.size(); ++i) {
    if (regions_.find(list.kind(), list.at(i)) == nullptr)
      return error(Code::not_found, cat("descriptor ", i, ": ", to_string(list.kind(), list.at(i)),
                                        " lies in no region of ", printable(context_.self.name)));
  }
  return {};
}

// ---- what peers are given ----

// Asked for again and again while nothing changes, for one peer after the other: a full one is
// kept.
Result<Bytes> Registrations::metadata(const MetadataOptions& options) {
  run::MutexLock lock(mutex_);
  if (options.only != nullptr || !options.connection_info) return make_metadata(options);
  if (full_generation_ != generation_) {
    TOWPATH_TRY(full_, make_metadata(options));
    full_generation_ = generation_;
  }
  return full_;
}

Result<Bytes> Registrations::make_metadata(const MetadataOptions& options) {
  const AgentMetadata head = metadata_head(options);
  if (options.only == nullptr) {
    TOWPATH_TRY(const ConstByteSpan table, rows_.table());
    return encode(head, table);
  }
  TOWPATH_TRY(const std::vector<const MemoryRecord*> records, advertised_of(*options.only));
  TOWPATH_TRY(const Bytes table, rows_.table_of(records));
  return encode(head, table);
}

// All but the regions.
AgentMetadata Registrations::metadata_head(const MetadataOptions& options) const {
  AgentMetadata head{
      .identity = context_.self, .generation = generation_, .partial = options.only != nullptr};
  for (const auto& instance : backends_.all()) {
    if (!rows_.advertises(instance->index)) continue;
    head.backends.push_back(
        {instance->name, options.connection_info ? instance->connection_info : Bytes()});
  }
  return head;
}

Result<std::vector<const MemoryRecord*>> Registrations::advertised_of(const DescriptorList& only) {
  std::vector<const MemoryRecord*> records;
  std::unordered_set<const MemoryRecord*> added;
  for (std::uint64_t i = 0; i < only.size(); ++i) {
    const Descriptor what = only.at(i);
    const RecordPtr record = record_of(regions_.find(only.kind(), what));
    if (!record) {
      return error(Code::not_found,
                   cat("descriptor ", i, ": ", to_string(only.kind(), what), " is not registered"),
                   "register the region before advertising it to peers");
    }
    if (rows_.advertises(*record) && added.insert(record.get()).second)
      records.push_back(record.get());
  }
  return records;
}

void Registrations::drop_memory(InstanceMask idle) {
  run::MutexLock lock(mutex_);
  for (const auto& instance : backends_.all()) {
    if ((idle & instance_bit(instance->index)) == 0) continue;
    run::MutexLock instance_lock(instance->mutex);
    each_record([&](MemoryRecord& record) { record.memory.drop(instance->index); });
  }
}

}  // namespace towpath::agent
