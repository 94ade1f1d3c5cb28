#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include <towpath/backend/conformance/world.h>

namespace towpath::backend::conformance {
namespace {

// For what never comes; no statement about speed.
constexpr auto kWatchdog = std::chrono::seconds(60);
constexpr auto kNap = std::chrono::milliseconds(1);

std::uint64_t first_difference(const Bytes& a, const Bytes& b) {
  const auto [left, right] = std::ranges::mismatch(a, b);
  return static_cast<std::uint64_t>(left - a.begin());
}

}  // namespace

// ---- shapes

std::vector<StridedDescriptor> strided(const Row& row) {
  return {{row.offset, row.length, row.stride, row.count, 0}};
}

std::vector<StridedDescriptor> plain(const Row& row) {
  std::vector<StridedDescriptor> list;
  for (std::uint64_t i = 0; i < row.count; ++i)
    list.push_back({row.offset + i * row.stride, row.length, 0, 1, 0});
  return list;
}

std::vector<StridedDescriptor> shuffled(std::vector<StridedDescriptor> list, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::ranges::shuffle(list, random);
  return list;
}

void play(TransferOp op, const Shape& shape, Bytes& near, Bytes& far) {
  DescriptorList here(MemoryKind::system);
  DescriptorList there(MemoryKind::system);
  for (const StridedDescriptor& entry : shape.near) EXPECT_TRUE(here.add(entry).ok());
  for (const StridedDescriptor& entry : shape.far) EXPECT_TRUE(there.add(entry).ok());
  for (std::uint64_t i = 0; i < here.size(); ++i) {
    const Descriptor a = here.at(i);
    const Descriptor b = there.at(i);
    std::byte* const left = near.data() + a.address;
    std::byte* const right = far.data() + b.address;
    const bool pulls = op == TransferOp::read;
    std::memcpy(pulls ? left : right, pulls ? right : left, a.length);
  }
}

DescriptorList list_of(const std::vector<StridedDescriptor>& entries,
                       const RegionDescriptor& region) {
  DescriptorList list(region.kind);
  for (StridedDescriptor entry : entries) {
    entry.address += region.address;
    entry.device_id = region.device_id;
    const Status added = list.add(entry);
    EXPECT_TRUE(added.ok()) << added.to_string();
  }
  return list;
}

DescriptorList list_of(const std::vector<StridedDescriptor>& entries, const TestMemory& memory) {
  return list_of(entries, memory.region()->descriptor());
}

// ---- agents

Result<std::unique_ptr<agent::Agent>> make_agent(const Candidate& candidate,
                                                 const Registry& registry, const Clock& clock,
                                                 const AgentSetup& setup) {
  TOWPATH_TRY(std::unique_ptr<agent::Agent> made,
              agent::Agent::create({.name = setup.name,
                                    .registry = &registry,
                                    .clock = &clock,
                                    .inbox_messages = setup.inbox_messages,
                                    .quiesce_timeout = setup.quiesce_timeout}));
  for (const BackendUse& use : candidate.backends)
    TOWPATH_TRY(made->add_backend(use.type, use.params));
  return made;
}

bool run_until(const std::vector<agent::Agent*>& agents, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + kWatchdog;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    bool more = false;
    for (agent::Agent* agent : agents) more |= agent->progress();
    if (!more) agents.front()->wait_for_work(kNap);
  }
  return true;
}

void linger(const std::vector<agent::Agent*>& agents) {
  for (int round = 0; round < 50; ++round) {
    for (agent::Agent* agent : agents) agent->progress();
  }
  for (int nap = 0; nap < 5 && !agents.empty(); ++nap) {
    agents.front()->wait_for_work(kNap);
    for (agent::Agent* agent : agents) agent->progress();
  }
}

// ---- World

World::World(const Candidate& candidate, const Pairing& pairing, const Options& options)
    : registry_(candidate.make_registry()) {
  const Status opened = open(candidate, pairing, options);
  EXPECT_TRUE(opened.ok()) << opened.to_string();
  ready_ = opened.ok();
}

Status World::open(const Candidate& candidate, const Pairing& pairing, const Options& options) {
  TOWPATH_TRY(near_memory, TestMemory::make(pairing.near, options.pool_bytes));
  TOWPATH_TRY(far_memory, pairing.far == Store::object
                              ? TestMemory::make_object(candidate.objects, options.pool_bytes)
                              : TestMemory::make(pairing.far, options.pool_bytes));
  TOWPATH_TRY(near_, make_agent(candidate, registry_, clock_, {.name = "near"}));
  TOWPATH_TRY(near_pool, near_->register_region(near_memory.region()));
  if (!pairing.to_self) {
    TOWPATH_TRY(far_, make_agent(candidate, registry_, clock_,
                                 {.name = "far", .inbox_messages = options.far_inbox_messages}));
  }
  TOWPATH_TRY(far_pool, far().register_region(far_memory.region()));
  return introduce();
}

Status World::introduce() {
  if (!far_) return {};
  TOWPATH_TRY(const Bytes near_metadata, near_->metadata());
  TOWPATH_TRY(const Bytes far_metadata, far_->metadata());
  TOWPATH_TRY(near_->load_metadata(far_metadata));
  TOWPATH_TRY(far_->load_metadata(near_metadata));
  return {};
}

std::vector<agent::Agent*> World::agents() {
  std::vector<agent::Agent*> all;
  if (near_) all.push_back(near_.get());
  if (far_) all.push_back(far_.get());
  return all;
}

void World::fill(std::uint64_t seed) {
  near_before_.resize(near_memory.size());
  far_before_.resize(far_memory.size());
  fill_with_random_bytes(near_before_, 2 * seed);
  fill_with_random_bytes(far_before_, 2 * seed + 1);
  near_memory.write(near_before_);
  far_memory.write(far_before_);
}

Result<agent::Transfer> World::make(TransferOp op, const Shape& shape,
                                    const agent::TransferOptions& options) {
  return near_->create_transfer(op, list_of(shape.near, near_memory), far_name(),
                                list_of(shape.far, far_memory), options);
}

void World::finish(agent::Transfer& transfer, const agent::PostOptions& options) {
  const Status posted = transfer.post(options);
  ASSERT_TRUE(posted.ok()) << posted.to_string();
  ASSERT_TRUE(run_to_end(transfer)) << "it never ended";
  EXPECT_EQ(transfer.outcome(), Outcome::done) << transfer.status().to_string();
}

void World::check(TransferOp op, const Shape& shape) {
  near_expected_ = near_before_;
  far_expected_ = far_before_;
  play(op, shape, near_expected_, far_expected_);
  near_memory.read_into(found_);
  EXPECT_TRUE(are_same_bytes(near_expected_, found_))
      << "near differs at " << first_difference(near_expected_, found_);
  far_memory.read_into(found_);
  EXPECT_TRUE(are_same_bytes(far_expected_, found_))
      << "far differs at " << first_difference(far_expected_, found_);
}

void World::move(TransferOp op, const Shape& shape) {
  fill(++fills_);
  auto transfer = make(op, shape);
  ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
  ASSERT_NO_FATAL_FAILURE(finish(*transfer));
  check(op, shape);
}

void World::expect_quiesced(TransferOp op) {
  target(op).poison();
  linger();
  EXPECT_TRUE(target(op).is_poison()) << "a byte landed after the end";
}

}  // namespace towpath::backend::conformance
