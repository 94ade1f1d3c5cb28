#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/agent/memory_record.h>

namespace towpath::agent {
namespace {

TEST(MemoryRecordTest, keys_of_any_length_are_kept_in_their_order) {
  SlotKeys keys;
  std::vector<std::pair<std::size_t, std::string>> added;
  for (const std::size_t size : {0, 30, 58, 20, 200, 1}) {
    const std::size_t slot = added.size() + 3;
    added.emplace_back(slot, std::string(size, static_cast<char>('a' + slot)));
    keys.add(slot, as_bytes(added.back().second));
    std::vector<std::pair<std::size_t, std::string>> kept;
    keys.each(
        [&](std::size_t whose, ConstByteSpan key) { kept.emplace_back(whose, as_text(key)); });
    EXPECT_EQ(kept, added);
    for (const auto& [whose, key] : added) EXPECT_EQ(as_text(keys.of(whose)), key);
  }
  EXPECT_TRUE(keys.of(1).empty());
}

struct Counted final : backend::Memory {
  explicit Counted(int& standing) : count(standing) { ++count; }
  ~Counted() override { --count; }
  int& count;
};

TEST(MemoryRecordTest, memories_of_every_backend_are_held_and_dropped_one_by_one) {
  int standing = 0;
  SlotMemories memories;
  for (std::size_t slot = 0; slot < kMaxSlots; ++slot) memories.drop(slot);
  EXPECT_FALSE(memories.any());
  for (std::size_t slot = 0; slot < kMaxSlots; ++slot)
    memories[slot] = std::make_unique<Counted>(standing);
  EXPECT_EQ(standing, static_cast<int>(kMaxSlots));
  for (std::size_t slot = 0; slot < kMaxSlots; ++slot) {
    EXPECT_TRUE(memories.any());
    memories.drop(slot);
    EXPECT_EQ(memories[slot], nullptr);
    EXPECT_EQ(standing, static_cast<int>(kMaxSlots - slot) - 1);
  }
  EXPECT_FALSE(memories.any());
}

}  // namespace
}  // namespace towpath::agent
