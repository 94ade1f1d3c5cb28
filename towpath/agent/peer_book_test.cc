// PeerBook without an agent around it. What an agent's user sees of it: agent_test,
// peer_regions_test, races_test.
#include <initializer_list>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/agent/metadata.h>
#include <towpath/agent/testing/agent_parts.h>

namespace towpath::agent {
namespace {

struct Both {
  Bytes metadata_of_right() { return *right.registrations->metadata({}); }

  Script script;
  AgentParts left{"left", script};
  AgentParts right{"right", script};
};

TEST(PeerBookTest, a_peer_is_known_from_its_metadata_until_it_is_forgotten) {
  Both both;
  PeerBook& book = *both.left.peers;
  EXPECT_EQ(book.find("right").code(), Code::not_found);
  EXPECT_EQ(book.load(both.metadata_of_right())->name, "right");
  EXPECT_EQ(book.all().size(), 1U);
  EXPECT_EQ(book.info("right")->backends, std::vector<std::string>{"scripted"});
  EXPECT_TRUE(book.forget("right").ok());
  EXPECT_EQ(book.forget("right").code(), Code::not_found);
  EXPECT_TRUE(book.all().empty());
}

TEST(PeerBookTest, its_own_metadata_and_that_of_a_namesake_are_refused) {
  Both both;
  EXPECT_EQ(both.right.peers->load(both.metadata_of_right()).code(), Code::invalid_argument);
  AgentParts namesake("left", both.script, 2);
  EXPECT_EQ(both.left.peers->load(*namesake.registrations->metadata({})).code(),
            Code::invalid_argument);
}

TEST(PeerBookTest, damaged_metadata_changes_nothing) {
  Both both;
  Bytes metadata = both.metadata_of_right();
  metadata.back() ^= std::byte{1};
  EXPECT_FALSE(both.left.peers->load(metadata).ok());
  EXPECT_TRUE(both.left.peers->all().empty());
}

TEST(PeerBookTest, metadata_that_names_a_backend_twice_is_refused_before_anything_is_opened) {
  Both both;
  const AgentMetadata twice{.identity = {"far", 1},
                            .generation = 1,
                            .backends = {{"scripted", Bytes(1)}, {"scripted", Bytes(1)}},
                            .regions = {}};
  const std::size_t before = both.script.connected.size();
  EXPECT_EQ(both.left.peers->load(*encode(twice)).code(), Code::corrupt);
  EXPECT_EQ(both.script.connected.size(), before);
  EXPECT_TRUE(both.left.peers->all().empty());
}

TEST(PeerBookTest, regions_are_imported_when_somebody_asks_for_them) {
  Both both;
  const memory::SharedRegion region = *memory::SystemRegion::allocate(4096);
  const memory::Registration pool = both.right.add(region);
  ASSERT_TRUE(both.left.peers->load(both.metadata_of_right()).ok());
  EXPECT_TRUE(both.script.imports.empty());
  const Descriptor extent = extent_of(region);
  for (int turn = 0; turn < 2; ++turn) {
    PreparedSide side;
    ASSERT_TRUE(
        both.left.peers->resolve("right", {MemoryKind::system, std::span(&extent, 1)}, side).ok());
    EXPECT_EQ(side.list.size(), 1U);
  }
  EXPECT_EQ(both.script.imports.size(), 1U);
}

TEST(PeerBookTest, nothing_is_imported_of_a_peer_that_was_forgotten_meanwhile) {
  Both both;
  const memory::SharedRegion region = *memory::SystemRegion::allocate(4096);
  const memory::Registration pool = both.right.add(region);
  ASSERT_TRUE(both.left.peers->load(both.metadata_of_right()).ok());
  ASSERT_TRUE(both.left.peers->forget("right").ok());
  const Descriptor extent = extent_of(region);
  PreparedSide side;
  EXPECT_EQ(
      both.left.peers->resolve("right", {MemoryKind::system, std::span(&extent, 1)}, side).code(),
      Code::not_found);
}

/// One that its peer knows by metadata of some of its regions, or of all.
struct Parted : Both {
  Bytes metadata_of(std::initializer_list<memory::SharedRegion> regions) {
    DescriptorList list(MemoryKind::system);
    for (const memory::SharedRegion& region : regions)
      EXPECT_TRUE(list.add(extent_of(region)).ok());
    return *right.registrations->metadata({.only = &list});
  }
  void load(const Bytes& metadata) {
    const auto loaded = left.peers->load(metadata);
    EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
  }
  bool knows(const memory::SharedRegion& region) {
    DescriptorList list(MemoryKind::system);
    EXPECT_TRUE(list.add(extent_of(region)).ok());
    return left.peers->check_covers(*left.peers->find("right"), list).ok();
  }

  const memory::SharedRegion one = *memory::SystemRegion::allocate(4096);
  const memory::SharedRegion other = *memory::SystemRegion::allocate(4096);
};

// First how to connect, then some, then all: as programs for NIXL do.
TEST(PeerBookTest, a_full_metadata_counts_after_partial_ones_of_its_generation) {
  Parted s;
  const memory::Registration first = s.right.add(s.one);
  const memory::Registration second = s.right.add(s.other);
  s.load(s.metadata_of({}));
  EXPECT_FALSE(s.knows(s.one));
  s.load(s.metadata_of({s.one}));
  EXPECT_TRUE(s.knows(s.one));
  EXPECT_FALSE(s.knows(s.other));
  s.load(s.metadata_of_right());
  EXPECT_TRUE(s.knows(s.one));
  EXPECT_TRUE(s.knows(s.other));
  for (const Bytes& again : {s.metadata_of({}), s.metadata_of({s.one}), s.metadata_of_right()})
    s.load(again);
  EXPECT_EQ(s.left.peers->info("right")->regions, 2U);
}

TEST(PeerBookTest, a_partial_metadata_that_is_older_than_a_full_one_brings_nothing_back) {
  Parted s;
  memory::Registration first = s.right.add(s.one);
  const memory::Registration second = s.right.add(s.other);
  const Bytes older = s.metadata_of({s.one});
  const Bytes older_full = s.metadata_of_right();
  EXPECT_TRUE(s.right.registrations->release(std::span(&first, 1)).ok());
  s.load(s.metadata_of_right());
  for (const Bytes& late : {older, older_full}) {
    s.load(late);
    EXPECT_FALSE(s.knows(s.one));
    EXPECT_TRUE(s.knows(s.other));
  }
}

TEST(PeerBookTest, a_full_metadata_that_is_older_than_a_partial_one_takes_nothing_away) {
  Parted s;
  const memory::Registration first = s.right.add(s.one);
  const Bytes older_full = s.metadata_of_right();
  const memory::Registration second = s.right.add(s.other);
  s.load(s.metadata_of({s.other}));
  s.load(older_full);
  EXPECT_TRUE(s.knows(s.other));
  EXPECT_FALSE(s.knows(s.one));
  s.load(s.metadata_of_right());
  EXPECT_TRUE(s.knows(s.one));
  EXPECT_TRUE(s.knows(s.other));
}

}  // namespace
}  // namespace towpath::agent
