// What is said of a catalogue and of changes of it, and how that travels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/peers/catalogue_journal.h>
#include <towpath/rendezvous/rendezvous.h>

namespace towpath::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(CatalogueJournalTest, changes_are_the_last_of_each_block_and_no_news_is_none) {
  CatalogueJournal journal;
  journal.note(1, true);
  journal.note(1, true);
  journal.note(2, false);
  EXPECT_EQ(journal.edition(), 1U);
  journal.note(2, true);
  journal.note(1, false);
  const auto reported = journal.since(0);
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_THAT(reported.front().stored, ElementsAre(2U));
  EXPECT_THAT(reported.front().lost, ElementsAre(1U));
  EXPECT_EQ(reported.front().to, 3U);
  journal.settle({2, 3});
  EXPECT_THAT(journal.since(3).front().stored, ElementsAre(3U));
  EXPECT_THAT(journal.since(3).front().lost, IsEmpty());
  EXPECT_EQ(journal.since(4).front(), (CatalogueChanges{.from = 4, .to = 4, .stored = {}}));
}

TEST(CatalogueJournalTest, what_is_not_kept_or_is_more_than_the_whole_is_not_covered) {
  CatalogueJournal journal;
  for (BlockHash hash = 1; hash <= CatalogueJournal::kMostKept + 1; ++hash)
    journal.note(hash, true);
  EXPECT_FALSE(journal.covers(0));
  EXPECT_TRUE(journal.covers(1));
  EXPECT_FALSE(journal.covers(journal.edition() + 1)) << "of another life";
  EXPECT_THAT(journal.since(1), SizeIs(CatalogueJournal::kMostKept / kMaxChangesReported));
  journal.settle({});
  EXPECT_FALSE(journal.covers(journal.edition() - kMaxChangesReported - 1)) << "nothing is there";
  EXPECT_TRUE(journal.covers(journal.edition() - kMaxChangesReported));
}

TEST(CatalogueJournalTest, the_whole_of_too_many_blocks_can_be_published_all_the_same) {
  CatalogueJournal journal;
  for (BlockHash hash = 0; hash < kMaxHashesListed + 10; ++hash) journal.note(hash, true);
  const Catalogue whole{.name_space = std::string(1000, 'm'),
                        .package = Bytes(256 * kKiB),
                        .hashes = journal.here(),
                        .edition = journal.edition()};
  EXPECT_TRUE(rendezvous::check_metadata(encode(whole).value()).ok());
}

TEST(CatalogueJournalTest, beyond_the_most_the_one_that_came_first_is_reported_no_more) {
  CatalogueJournal journal;
  for (BlockHash hash = 0; hash < CatalogueJournal::kMostHere; ++hash) journal.note(hash, true);
  journal.note(0, false);
  journal.note(0, true);  // it is the last now
  const BlockHash newest = CatalogueJournal::kMostHere;
  journal.note(newest, true);
  EXPECT_TRUE(journal.is_here(newest) && journal.is_here(0) && !journal.is_here(1));
  const CatalogueChanges last = journal.since(journal.edition() - 2).front();
  EXPECT_THAT(last.stored, ElementsAre(newest));
  EXPECT_THAT(last.lost, ElementsAre(1U));
  const auto before = journal.edition();
  std::unordered_set<BlockHash> all = {1};
  for (const BlockHash hash : journal.here()) all.insert(hash);
  journal.settle(all);
  EXPECT_EQ(journal.edition(), before) << "a settled journal changes nothing";
}

TEST(CatalogueJournalTest, a_hundred_changes_of_many_blocks_are_reported_in_a_kilobyte) {
  CatalogueJournal journal;
  for (BlockHash hash = 0; hash < 100'000; ++hash) journal.note(hash, true);
  const Catalogue whole{.hashes = journal.here(), .edition = journal.edition()};
  for (BlockHash hash = 0; hash < 50; ++hash) {
    journal.note(hash, false);
    journal.note(100'000 + hash, true);
  }
  const auto changes = journal.since(*whole.edition);
  ASSERT_THAT(changes, SizeIs(1));
  const PeerMessage reported{.word = PeerMessage::Word::changes, .changes = changes.front()};
  EXPECT_LT(encode(reported).value().size(), 1024U);
  EXPECT_GT(encode(whole).value().size(), 800'000U);
  RecordProperty("whole_bytes", std::to_string(encode(whole).value().size()));
  RecordProperty("changes_bytes", std::to_string(encode(reported).value().size()));
}

TEST(CatalogueJournalTest, tenants_travel_with_their_blocks_and_no_more_of_them_than_blocks) {
  const Catalogue whole{
      .name_space = "m", .hashes = {1, 2, 3, 4}, .tenants = {0, 7, 7, UINT64_MAX}};
  EXPECT_EQ(decode_catalogue(encode(whole).value()).value(), whole);
  PeerMessage reported{.word = PeerMessage::Word::changes,
                       .changes = {.from = 1, .to = 4, .stored = {1, 2, 3}, .tenants = {7, 7, 8}}};
  EXPECT_EQ(decode_peer_message(encode(reported).value()).value(), reported);
  reported.changes.tenants = {7};
  EXPECT_THAT(decode_peer_message(encode(reported).value()).value().changes.tenants,
              ElementsAre(7U, 0U, 0U));
  reported.changes.tenants.assign(4, 7);
  EXPECT_EQ(decode_peer_message(encode(reported).value()).code(), Code::corrupt);
  reported.changes.tenants.assign(kMaxChangesReported + 1, 7);
  EXPECT_FALSE(decode_peer_message(encode(reported).value()).ok());
  Catalogue many{.name_space = "m"};
  for (BlockHash hash = 1; hash <= 2 * kMaxTenantRuns; ++hash) {
    many.hashes.push_back(hash);
    many.tenants.push_back(hash);
  }
  const Catalogue read = decode_catalogue(encode(many).value()).value();
  EXPECT_EQ(read.tenants[kMaxTenantRuns - 1], kMaxTenantRuns);
  EXPECT_EQ(read.tenants[kMaxTenantRuns], 0U) << "nobody's";
}

TEST(PeerMessageTest, parents_travel_with_their_blocks_and_are_as_many) {
  PeerMessage ask{.word = PeerMessage::Word::ask, .hashes = {1, 2, 3}, .parents = {0, 1, 2}};
  EXPECT_EQ(decode_peer_message(encode(ask).value()).value(), ask);
  ask.parents.pop_back();
  EXPECT_EQ(decode_peer_message(encode(ask).value()).code(), Code::corrupt);
  ask.parents = {0, 0, 0};
  EXPECT_TRUE(decode_peer_message(encode(ask).value()).value().parents.empty());
  const PeerMessage grant{.word = PeerMessage::Word::grant,
                          .granted = {{1, 4, {DigestAlgorithm::crc32c, 5, 6}},
                                      {2, 5, {DigestAlgorithm::crc32c, 5, 6}, BlockHash{1}}}};
  EXPECT_EQ(decode_peer_message(encode(grant).value()).value(), grant);
}

TEST(PeerMessageTest, messages_travel_and_what_is_cut_is_refused) {
  const PeerMessage message{.word = PeerMessage::Word::grant,
                            .session = 7,
                            .hashes = {1, 2},
                            .granted = {{3, 4, {DigestAlgorithm::crc32c, 5, 6}}},
                            .lease = std::chrono::seconds(9)};
  const Bytes bytes = encode(message).value();
  EXPECT_EQ(decode_peer_message(bytes).value(), message);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_peer_message(ConstByteSpan(bytes).first(size)).ok()) << size;
  EXPECT_FALSE(encode(PeerMessage{.hashes = std::vector<BlockHash>(kMaxBlocksAsked + 1)}).ok());
}

}  // namespace
}  // namespace towpath::kv
