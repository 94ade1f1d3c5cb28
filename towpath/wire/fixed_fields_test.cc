#include <gtest/gtest.h>

#include <towpath/wire/encoder.h>
#include <towpath/wire/fixed_fields.h>

namespace towpath::wire {
namespace {

constexpr Tag kSize = required(1), kSlot = required(2), kToken = optional(3), kMany = optional(4);
constexpr FieldRule kRules[] = {
    {kSize, "size", Kind::number, kOne},
    {kSlot, "slot", Kind::number, kOne, UINT32_MAX},
    {kToken, "token", Kind::bytes, kAtMostOne, 8},
    {kMany, "many", Kind::number, {2, 2}},
};
constexpr Schema kAll("all", kRules);
constexpr FieldRule kUsualRules[] = {kRules[0], kRules[1], kRules[2]};
constexpr Schema kUsual("usual", kUsualRules);

using Size = NumberField<kSize>;
using Slot = NumberField<kSlot, std::uint32_t>;
using Token = BytesField<kToken, 8>;

TEST(FixedFieldsTest, have_the_bytes_of_an_encoder) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128},
                                   std::uint64_t{1} << 47U, UINT64_MAX}) {
    Token token;
    token.value.fill(static_cast<std::byte>(size));
    std::array<std::byte, kMostBytes<Size, Slot, Token>> room;
    const std::byte* const end =
        put_fields<kUsual>(room.data(), Size{size}, Slot{UINT32_MAX}, token);
    ASSERT_LE(end, room.data() + room.size());
    Encoder same(kUsual);
    same.put_number(kSize, size);
    same.put_number(kSlot, UINT32_MAX);
    same.put_bytes(kToken, token.value);
    EXPECT_EQ(Bytes(room.data(), static_cast<std::byte*>(room.data()) + (end - room.data())),
              *std::move(same).finish());
  }
}

TEST(FixedFieldsTest, are_held_against_the_schema_by_the_compiler) {
  using internal::are_whole;
  static_assert(are_whole<Size, Slot>(kUsual), "the token may be missing");
  static_assert(are_whole<Slot, Token, Size>(kUsual));
  static_assert(!are_whole<Size>(kUsual), "the slot is missing");
  static_assert(!are_whole<Size, Slot, Slot>(kUsual), "twice");
  static_assert(!are_whole<Size, NumberField<kSlot>>(kUsual), "it may be too large");
  static_assert(!are_whole<Size, Slot, BytesField<kToken, 9>>(kUsual), "too long");
  static_assert(!are_whole<Size, Slot, NumberField<kToken>>(kUsual), "another kind");
  static_assert(!are_whole<Size, Slot, NumberField<kMany>>(kUsual), "no rule");
  static_assert(!are_whole<Size, Slot>(kAll), "two of those are missing");
  static_assert(!are_whole<Size, Slot, NumberField<kMany>>(kAll), "one of them is");
}

}  // namespace
}  // namespace towpath::wire
