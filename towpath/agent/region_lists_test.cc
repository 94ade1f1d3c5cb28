// Regions that are registered, and taken back, as a list.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/testing/agent_pair.h>
#include <towpath/agent/testing/scripted_backend.h>
#include <towpath/memory/borrowed.h>

namespace towpath::agent {
namespace {

using testing::HasSubstr;

constexpr std::size_t kMany = 100;  // more than go under one lock

/// The first blocks of some memory, a region each.
std::vector<memory::SharedRegion> regions_in(ConstByteSpan bytes, std::size_t count = kMany) {
  std::vector<memory::SharedRegion> regions;
  for (std::size_t i = 0; i < count; ++i)
    regions.push_back(*memory::BorrowedRegion::create(
        {.address = address_of(bytes.data()) + i * Pair::kBlock, .size_bytes = Pair::kBlock / 2}));
  return regions;
}

std::vector<std::weak_ptr<const memory::Region>> lives_of(
    const std::vector<memory::SharedRegion>& regions) {
  return {regions.begin(), regions.end()};
}

bool is_known(Agent& agent, const Descriptor& what) {
  DescriptorList list(MemoryKind::system);
  EXPECT_TRUE(list.add(what).ok());
  return agent.prepare(list).ok();
}

struct Lists : testing::Test {
  Lists() { p.left_pool = {}; }
  Descriptor block(std::size_t index) const {
    return {address_of(p.right_memory->bytes().data()) + index * Pair::kBlock, 8, 0};
  }
  std::size_t known() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < kMany; ++i) count += is_known(*p.left, block(i)) ? 1 : 0;
    return count;
  }

  Pair p;
  std::vector<memory::SharedRegion> regions = regions_in(p.right_memory->bytes());
  const std::vector<std::weak_ptr<const memory::Region>> lives = lives_of(regions);
};
using RegionListsTest = Lists;

TEST_F(RegionListsTest, each_region_of_a_list_has_a_registration_of_its_own) {
  auto made = p.left->register_regions(std::move(regions));
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  ASSERT_EQ(made->size(), kMany);
  EXPECT_EQ((*made)[40].descriptor().address, block(40).address);
  EXPECT_EQ((*made)[99].backends(), std::vector<std::string>{"loopback"});
  EXPECT_EQ(known(), kMany);
  EXPECT_TRUE((*made)[40].release().ok());
  EXPECT_FALSE(is_known(*p.left, block(40)));
  EXPECT_TRUE(lives[40].expired());
  EXPECT_FALSE(lives[41].expired());
  EXPECT_EQ(known(), kMany - 1);
}

TEST_F(RegionListsTest, a_list_is_taken_back_with_what_is_no_more_or_another_agents) {
  auto made = *p.left->register_regions(std::move(regions));
  EXPECT_TRUE(made[3].release().ok());
  made[5] = {};
  const std::size_t metadata_size = p.right->metadata()->size();
  made.push_back(*p.right->register_region(p.left_memory));
  const std::weak_ptr<const memory::Region> another = std::exchange(p.left_memory, nullptr);
  EXPECT_TRUE(p.left->release(made).ok());
  EXPECT_EQ(known(), 0U);
  for (const auto& life : lives) EXPECT_TRUE(life.expired());
  EXPECT_TRUE(another.expired());
  EXPECT_FALSE(made.back().is_registered());
  EXPECT_EQ(p.right->metadata()->size(), metadata_size) << "that agent tells of it no more";
}

TEST_F(RegionListsTest, one_bad_region_in_a_list_leaves_none_registered) {
  const auto good = regions[70];
  regions[70] = *memory::BorrowedRegion::create(
      {.kind = MemoryKind::object, .size_bytes = 1, .key = "of no backend here"});
  const auto refused = p.left->register_regions(std::move(regions));
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_EQ(known(), 0U);
  EXPECT_TRUE(lives[0].expired()) << "of a part that was registered before";
  EXPECT_TRUE(lives[69].expired());
  EXPECT_TRUE(p.left->register_regions({good}).ok());
}

struct Nothing final : memory::Region {
  RegionDescriptor descriptor() const override { return {.address = 4096}; }
};

TEST_F(RegionListsTest, an_empty_region_is_refused_and_those_before_it_go) {
  regions[2] = std::make_shared<Nothing>();
  EXPECT_EQ(p.left->register_regions(std::move(regions)).code(), Code::invalid_argument);
  EXPECT_EQ(known(), 0U);
  auto again = p.left->register_regions(regions_in(p.right_memory->bytes()));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(known(), kMany);
}

TEST_F(RegionListsTest, the_same_region_may_come_twice_in_a_list) {
  auto made = *p.left->register_regions({regions[0], regions[1], regions[0]});
  EXPECT_TRUE(made[0].release().ok());
  EXPECT_TRUE(is_known(*p.left, block(0)));
  EXPECT_TRUE(made[2].release().ok());
  EXPECT_FALSE(is_known(*p.left, block(0)));
  EXPECT_TRUE(is_known(*p.left, block(1)));
}

TEST(RegionListsRefusedTest, a_backend_that_must_take_all_undoes_what_others_took) {
  sys::SystemClock clock;
  Script good, picky;
  picky.on_register = [asked = 0](const RegionDescriptor&) mutable {
    return ++asked == 50 ? error(Code::exhausted, "no room") : Status();
  };
  backend::Registry registry;
  ASSERT_TRUE(registry.add(scripted_type("good", good)).ok());
  ASSERT_TRUE(registry.add(scripted_type("picky", picky)).ok());
  const auto agent = *Agent::create({.name = "left", .registry = &registry, .clock = &clock});
  for (const char* backend : {"good", "picky"}) ASSERT_TRUE(agent->add_backend(backend).ok());
  const auto memory = *memory::SystemRegion::allocate(Pair::kPool);
  auto regions = regions_in(memory->bytes());
  const auto lives = lives_of(regions);
  const auto refused = agent->register_regions(std::move(regions), {.backends = {"good", "picky"}});
  EXPECT_EQ(refused.code(), Code::exhausted);
  EXPECT_THAT(refused.status().to_string(), HasSubstr("backend picky refused"));
  EXPECT_EQ(good.memories, 0);
  EXPECT_EQ(picky.memories, 0);
  for (const auto& life : lives) EXPECT_TRUE(life.expired());
}

// While one of them looks through a long list, the other must not take it for looked through. Long:
// so that they meet, also on a machine that has other things to do.
TEST(RegionListsSharedTest, threads_that_share_a_list_leave_out_the_same_backends) {
  constexpr std::uint64_t kRegions = 32 * 1024, kApart = 64;
  sys::SystemClock clock;
  Script goes, stays;
  backend::Registry registry;
  ASSERT_TRUE(registry.add(scripted_type("goes", goes)).ok());
  ASSERT_TRUE(registry.add(scripted_type("stays", stays)).ok());
  const auto agent = *Agent::create({.name = "one", .registry = &registry, .clock = &clock});
  for (const char* backend : {"goes", "stays"}) ASSERT_TRUE(agent->add_backend(backend).ok());
  const memory::SharedRegion here = *memory::SystemRegion::allocate(kRegions * kApart);
  const memory::SharedRegion there = *memory::SystemRegion::allocate(kRegions * kApart);
  const auto extents_of = [&](const memory::Region& region) {
    DescriptorList list(MemoryKind::system);
    const std::uint64_t address = region.descriptor().address;
    EXPECT_TRUE(list.add(StridedDescriptor{address, 8, kApart, kRegions, 0}).ok());
    return list;
  };
  const auto register_with = [&](const std::string& backend) {
    std::vector<memory::SharedRegion> regions;
    for (std::uint64_t i = 0; i < kRegions; ++i)
      regions.push_back(*memory::BorrowedRegion::create(
          {.address = here->descriptor().address + i * kApart, .size_bytes = 8}));
    return *agent->register_regions(std::move(regions), {.backends = {backend}});
  };
  const auto pool = *agent->register_region(there);
  const PreparedList theirs = *agent->prepare_remote("one", extents_of(*there));
  const auto kept = register_with("stays");
  for (int round = 0; round < 4; ++round) {
    auto gone = register_with("goes");
    const PreparedList mine = *agent->prepare(extents_of(*here));
    ASSERT_TRUE(agent->release(gone).ok());
    std::atomic<bool> has_begun{false};
    const auto backend_of = [&] {
      const auto made = agent->make_transfer(TransferOp::write, mine, theirs);
      return made.ok() ? made->backend() : made.status().to_string();
    };
    std::thread other([&] {
      while (!has_begun) std::this_thread::yield();
      EXPECT_EQ(backend_of(), "stays");
    });
    has_begun = true;
    EXPECT_EQ(backend_of(), "stays");
    other.join();
  }
}

}  // namespace
}  // namespace towpath::agent
