#include <gtest/gtest.h>

#include <towpath/backend/sealed_record.h>

namespace towpath::backend {
namespace {

constexpr wire::Tag kNumber = wire::required(1);
constexpr wire::FieldRule kRules[] = {{kNumber, "number", wire::Kind::number, wire::kOne, 9}};
constexpr wire::Schema kSchema("test record", kRules);
constexpr RecordForm kForm{{wire::MessageType::peer_hello, 2}, kSchema};

Result<Bytes> sealed(std::uint64_t number) {
  return seal_record(kForm, [&](wire::Encoder& out) { out.put_number(kNumber, number); });
}
Status opened(ConstByteSpan bytes, std::uint64_t* number = nullptr) {
  return open_record(kForm, bytes, [&](const wire::Field& field) -> Status {
    if (number != nullptr) *number = field.number();
    return field.number() == 8 ? field.refuse("not this one") : Status();
  });
}
/// The same payload under another kind.
Bytes sealed_as(wire::MessageKind kind) {
  const Bytes good = *sealed(7);
  return wire::seal(kind, ConstByteSpan(good).subspan(wire::kHeaderBytes));
}

TEST(SealedRecordTest, a_record_survives_the_way) {
  std::uint64_t number = 0;
  ASSERT_TRUE(opened(*sealed(7), &number).ok());
  EXPECT_EQ(number, 7u);
}

TEST(SealedRecordTest, what_the_schema_does_not_allow_cannot_be_sealed) {
  EXPECT_EQ(sealed(10).code(), Code::out_of_range);
}

TEST(SealedRecordTest, all_that_cannot_be_read_is_corrupt_or_newer) {
  EXPECT_EQ(opened({}).code(), Code::corrupt);
  EXPECT_EQ(opened(*sealed(8)).code(), Code::corrupt);
  EXPECT_EQ(opened(sealed_as({wire::MessageType::metadata, 2})).code(), Code::corrupt);
  EXPECT_EQ(opened(sealed_as({wire::MessageType::peer_hello, 1})).code(), Code::ok);
  const Status newer = opened(sealed_as({wire::MessageType::peer_hello, 3}));
  EXPECT_EQ(newer.code(), Code::unsupported);
  EXPECT_FALSE(newer.hint().empty());
  EXPECT_NE(newer.to_string().find("test record"), std::string::npos);
  EXPECT_EQ(opened(wire::seal(kForm.kind, Bytes(kMaxRecordBytes + 1))).code(), Code::corrupt);
}

}  // namespace
}  // namespace towpath::backend
