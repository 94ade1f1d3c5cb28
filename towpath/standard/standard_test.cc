#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/layout/builder.h>
#include <towpath/layout/plan.h>
#include <towpath/memory/disk_region.h>
#include <towpath/memory/registered.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/file.h>

namespace towpath::standard {
namespace {

TEST(StandardTest, knows_the_built_in_backends_under_their_usual_names) {
  const auto registry = make_registry();
  EXPECT_THAT(registry.names(), testing::ElementsAre("loopback", "shm", "posix", "gds", "nvme",
                                                     "tcp", "ucx", "ucx_device", "object"));
  EXPECT_TRUE(registry.find("POSIX").ok());
}

TEST(StandardTest, a_node_moves_bytes_while_its_user_does_something_else) {
  auto node = Node::open({.name = "alone", .backends = {"shm"}});
  ASSERT_TRUE(node.ok()) << node.status().to_string();
  agent::Agent& agent = (*node)->agent();
  memory::SharedRegion region = *memory::SystemRegion::allocate(64 << 20);
  auto pool = agent.register_region(region);
  ASSERT_TRUE(pool.ok());
  const std::uint64_t half = region->size() / 2;
  std::memset(region->bytes().data(), 7, half);
  DescriptorList from(MemoryKind::system);
  DescriptorList to(MemoryKind::system);
  ASSERT_TRUE(from.add(Descriptor{region->descriptor().address, half, 0}).ok());
  ASSERT_TRUE(to.add(Descriptor{region->descriptor().address + half, half, 0}).ok());
  auto copy = agent.create_transfer(TransferOp::write, from, "alone", to);
  ASSERT_TRUE(copy.ok()) << copy.status().to_string();
  ASSERT_TRUE(copy->post().ok());
  EXPECT_EQ(copy->wait(), Outcome::done);
  EXPECT_EQ(region->bytes().back(), std::byte{7});
}

TEST(StandardTest, of_backends_that_stand_in_for_one_another_one_is_enough) {
  auto node = Node::open({.name = "x", .backends = {"shm", "posix"}});
  ASSERT_TRUE(node.ok()) << node.status().to_string();
  const std::vector<std::string> both = {"shm", "posix"};
  sys::SystemFileSystem files;
  auto disk = memory::DiskRegion::open({.path = "/tmp/", .size_bytes = 4096}, files);
  ASSERT_TRUE(disk.ok()) << disk.status().to_string();
  EXPECT_FALSE((*node)->agent().register_region(*disk, {.backends = both}).ok());
  const auto held =
      (*node)->agent().register_region(*disk, {.backends = both, .any_of_named = true});
  ASSERT_TRUE(held.ok()) << held.status().to_string();
  EXPECT_THAT(held->backends(), testing::ElementsAre("posix"));
  EXPECT_FALSE(
      (*node)->agent().register_region(*disk, {.backends = {"shm"}, .any_of_named = true}).ok());
}

TEST(StandardTest, an_unknown_backend_is_refused_with_those_that_exist) {
  const auto node = Node::open({.name = "x", .backends = {"carrier-pigeon"}});
  EXPECT_EQ(node.code(), Code::not_found);
  EXPECT_THAT(std::string(node.status().hint()), testing::HasSubstr("shm"));
}

layout::LayoutConfig small_cache() {
  layout::LayoutConfig config;
  config.num_blocks = 2;
  config.num_layers = 3;
  config.outer_dim = 2;
  config.page_size = 4;
  config.inner_dim = 8;
  return config;
}

// What the layout's own tests do with a recording registrar, through the agent that users have.
TEST(StandardTest, layouts_are_built_on_what_the_real_agent_registered) {
  auto node = Node::open({.name = "builder", .backends = {"shm", "posix"}});
  ASSERT_TRUE(node.ok()) << node.status().to_string();
  agent::Agent& agent = (*node)->agent();
  const auto registered = [&](std::uint64_t size) -> memory::SharedRegion {
    auto made = memory::register_with(*memory::SystemRegion::allocate(size), agent);
    return std::make_shared<memory::Registered<memory::SystemRegion>>(*std::move(made));
  };
  auto whole = layout::PhysicalLayoutBuilder(agent)
                   .with_config(small_cache())
                   .fully_contiguous()
                   .with_registered_regions({registered(768)});
  auto contiguous = std::move(*whole).build();
  ASSERT_TRUE(contiguous.ok()) << contiguous.status().to_string();
  EXPECT_TRUE(contiguous->is_fully_contiguous());
  EXPECT_EQ(contiguous->metadata(), (layout::LayoutMetadata{"builder", MemoryKind::system, 0}));
  auto layers = layout::PhysicalLayoutBuilder(agent)
                    .with_config(small_cache())
                    .layer_separate(layout::BlockDimension::first)
                    .with_registered_regions({registered(256), registered(256), registered(256)});
  auto separate = std::move(*layers).build();
  ASSERT_TRUE(separate.ok()) << separate.status().to_string();
  EXPECT_FALSE(separate->is_fully_contiguous());
  EXPECT_EQ(separate->config().num_layers, 3U);
  // Both are known to the agent: a copy between them is a transfer like any other.
  const std::vector<layout::BlockPair> pairs{{0, 1}, {1, 0}};
  auto plan = layout::plan(contiguous->layout(), separate->layout(), pairs);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  auto lists = layout::describe(*plan, contiguous->layout(), separate->layout());
  (*contiguous->bytes({0, 2, 1}))[5] = std::byte{9};
  auto copy = agent.create_transfer(TransferOp::write, lists->source, "builder", lists->target);
  ASSERT_TRUE(copy.ok()) << copy.status().to_string();
  ASSERT_TRUE(copy->post().ok());
  ASSERT_EQ(copy->wait(), Outcome::done);
  EXPECT_EQ((*separate->bytes({1, 2, 1}))[5], std::byte{9});
}

}  // namespace
}  // namespace towpath::standard
