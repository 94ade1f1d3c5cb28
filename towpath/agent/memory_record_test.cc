#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/agent/memory_record.h>

namespace towpath::agent {
namespace {

TEST(MemoryRecordTest, keys_of_any_length_are_kept_in_their_order) {
  InstanceKeys keys;
  std::vector<std::pair<std::size_t, std::string>> added;
  for (const std::size_t size : {0, 30, 58, 20, 200, 1}) {
    const std::size_t instance = added.size() + 3;
    added.emplace_back(instance, std::string(size, static_cast<char>('a' + instance)));
    keys.add(instance, as_bytes(added.back().second));
    std::vector<std::pair<std::size_t, std::string>> kept;
    keys.each(
        [&](std::size_t whose, ConstByteSpan key) { kept.emplace_back(whose, as_text(key)); });
    EXPECT_EQ(kept, added);
    for (const auto& [whose, key] : added) EXPECT_EQ(as_text(keys.of(whose)), key);
  }
  EXPECT_TRUE(keys.of(1).empty());
}

TEST(MemoryRecordTest, a_key_that_goes_leaves_the_others_in_their_order) {
  for (const std::size_t size : {20, 100}) {  // in place, and not
    InstanceKeys keys;
    std::vector<std::pair<std::size_t, std::string>> stay;
    for (const std::size_t instance : {4, 2, 9}) {
      stay.emplace_back(instance, std::string(size + instance, static_cast<char>('a' + instance)));
      keys.add(instance, as_bytes(stay.back().second));
    }
    for (const std::size_t goes : {3, 2, 4, 9}) {
      keys.remove(goes);
      std::erase_if(stay, [&](const auto& one) { return one.first == goes; });
      std::vector<std::pair<std::size_t, std::string>> kept;
      keys.each(
          [&](std::size_t whose, ConstByteSpan key) { kept.emplace_back(whose, as_text(key)); });
      EXPECT_EQ(kept, stay);
    }
    keys.add(2, as_bytes("again"));
    EXPECT_EQ(as_text(keys.of(2)), "again");
  }
}

struct Counted final : backend::Memory {
  explicit Counted(int& standing) : count(standing) { ++count; }
  ~Counted() override { --count; }
  int& count;
};

TEST(MemoryRecordTest, memories_of_every_backend_are_held_and_dropped_one_by_one) {
  int standing = 0;
  InstanceMemories memories;
  for (std::size_t instance = 0; instance < kMaxInstances; ++instance) memories.drop(instance);
  EXPECT_FALSE(memories.any());
  for (std::size_t instance = 0; instance < kMaxInstances; ++instance)
    memories[instance] = std::make_unique<Counted>(standing);
  EXPECT_EQ(standing, static_cast<int>(kMaxInstances));
  for (std::size_t instance = 0; instance < kMaxInstances; ++instance) {
    EXPECT_TRUE(memories.any());
    memories.drop(instance);
    EXPECT_EQ(memories[instance], nullptr);
    EXPECT_EQ(standing, static_cast<int>(kMaxInstances - instance) - 1);
  }
  EXPECT_FALSE(memories.any());
}

}  // namespace
}  // namespace towpath::agent
