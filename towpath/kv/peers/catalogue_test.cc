#include <algorithm>
#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/peers/catalogue_journal.h>
#include <towpath/kv/peers/holder_fixture.h>
#include <towpath/rendezvous/in_process.h>
#include <towpath/run/eventually.h>

namespace towpath::kv {
namespace {

using blockcopy::testing::kBlocks;
using ::testing::Each;
using testing::Holder;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Hashes = std::unordered_set<BlockHash>;

CatalogueExchangeOptions again_after(Duration report_again) {
  return {.report_again = report_again};
}

/// A place as it is; counts what is asked for there.
struct CountedPlace : rendezvous::Rendezvous {
  CountedPlace(std::shared_ptr<rendezvous::Directory> directory, std::size_t& counter)
      : place(rendezvous::InProcess::open(std::move(directory)).value()), fetches(counter) {}
  Status publish(const rendezvous::MetadataName& name, ConstByteSpan metadata) override {
    return place->publish(name, metadata);
  }
  Status withdraw(const rendezvous::MetadataName& name) override { return place->withdraw(name); }
  Result<rendezvous::FetchId> fetch(const rendezvous::MetadataName& name, run::Deadline deadline,
                                    rendezvous::FetchDone done) override {
    ++fetches;
    return place->fetch(name, deadline, std::move(done));
  }
  void cancel(rendezvous::FetchId fetch) override { place->cancel(fetch); }
  void watch(rendezvous::ChangeSeen seen) override { place->watch(std::move(seen)); }
  std::size_t progress() override { return place->progress(); }
  int wait_fd() const noexcept override { return place->wait_fd(); }

  std::unique_ptr<rendezvous::Rendezvous> place;
  std::size_t& fetches;
};

/// Two at one place, who hear what the other says when the test lets them.
struct Pair {
  explicit Pair(const CatalogueExchangeOptions& options = again_after(std::chrono::hours(1)),
                const Clock* clock = nullptr)
      : far("far", {.clock = clock}),
        near("near", {.timeout = std::chrono::milliseconds(1), .clock = clock}) {
    for (Holder* each : {&far, &near}) join(*each, options);
    EXPECT_TRUE(run::eventually([&] {
      step();
      return agree() && near.node.agent->peer("far").ok() && far.node.agent->peer("near").ok();
    }));
  }
  void join(Holder& holder, CatalogueExchangeOptions options) {
    options.pace = Duration::zero();
    holder.keeper->peers()->join(std::make_unique<CountedPlace>(directory, fetches),
                                 std::move(options));
  }
  void step() {
    for (Holder* each : {&far, &near}) {
      (void)each->node.manager->progress();
      for (agent::Notification& note : each->node.agent->take_notifications()) pass(*each, note);
      (void)each->keeper->take_news();
      each->keeper->peers()->serve();
    }
  }
  void pass(Holder& to, const agent::Notification& note) {
    if (hinder && hinder(to, note)) return;
    const Status heard = to.keeper->peers()->hear(note);
    EXPECT_TRUE(heard.ok()) << heard.to_string();
  }
  /// To near.
  void say(AgentIdentity from, const CatalogueChanges& changes) {
    const PeerMessage message{.word = PeerMessage::Word::changes, .changes = changes};
    const agent::Notification note{.from = std::move(from), .message = encode(message).value()};
    EXPECT_TRUE(near.keeper->peers()->hear(note).ok());
  }
  const KnownPeers::Peer* known() { return near.keeper->peers()->known().find("far"); }
  bool agree() { return known() != nullptr && known()->hashes == here(); }
  Hashes here() {
    const std::vector<BlockHash> all = far.keeper->peers()->journal().here();
    return {all.begin(), all.end()};
  }
  bool come_to_agree() {
    return run::eventually([&] {
      step();
      return agree();
    });
  }

  std::shared_ptr<rendezvous::Directory> directory = std::make_shared<rendezvous::Directory>();
  std::size_t fetches = 0;
  Holder far, near;
  std::function<bool(Holder&, const agent::Notification&)> hinder;  // true: it does not come, now
};

TEST(CatalogueTest, a_block_that_a_full_catalogue_lacks_is_in_it_again_when_a_peer_keeps_it) {
  Pair pair;
  const CatalogueJournal& journal = pair.far.keeper->peers()->journal();
  pair.far.put(11);
  pair.step();
  ASSERT_TRUE(journal.is_here(11));
  for (BlockHash other = 1'000; journal.is_here(11); ++other) {
    ASSERT_LT(other, 2 * CatalogueJournal::kMostHere);
    (void)pair.far.block_directory->add(other, 0);
    if (other % 1'000 == 0) (void)pair.far.keeper->take_news();
  }
  ASSERT_TRUE(pair.far.keeper->has(11));
  pair.near.put(11);
  EXPECT_TRUE(run::eventually([&] {
    pair.step();
    return journal.is_here(11);
  }));
}

/// Hears at the pair's place what far publishes there.
struct Watcher {
  explicit Watcher(const Pair& pair) : place(rendezvous::InProcess::open(pair.directory).value()) {
    place->watch([this](const rendezvous::Change& change) {
      if (change.name.agent == "far" && change.metadata) wholes.push_back(*change.metadata);
    });
  }
  /// Of the last one.
  std::uint64_t edition() const { return decode_catalogue(wholes.back()).value().edition.value(); }

  std::unique_ptr<rendezvous::Rendezvous> place;
  std::vector<Bytes> wholes;
};

TEST(CatalogueTest, the_whole_is_published_again_as_it_is_while_changes_say_the_rest) {
  Pair pair(again_after(std::chrono::milliseconds(1)));
  Watcher watcher(pair);
  const auto hears_more = [&](auto&& is_enough) {
    return run::eventually([&, before = watcher.wholes.size()] {
      pair.step();
      (void)watcher.place->progress();
      return watcher.wholes.size() > before && is_enough();
    });
  };
  for (BlockHash hash = 1; hash <= 3; ++hash) {
    pair.far.put(hash);
    ASSERT_TRUE(pair.come_to_agree());
    ASSERT_TRUE(hears_more([] { return true; }));
  }
  EXPECT_THAT(watcher.wholes, Each(watcher.wholes.front()));
  (void)pair.far.node.add({"another"});
  EXPECT_TRUE(hears_more([&] { return watcher.wholes.back() != watcher.wholes.front(); }))
      << "changes do not say which layouts there are";
}

TEST(CatalogueTest, the_whole_lacks_nothing_for_a_newcomer_and_for_one_that_is_lost) {
  Pair pair(again_after(std::chrono::milliseconds(1)));
  const CatalogueJournal& journal = pair.far.keeper->peers()->journal();
  Watcher watcher(pair);
  const auto lacks_nothing = [&] {
    (void)watcher.place->progress();
    return !watcher.wholes.empty() && watcher.edition() == journal.edition();
  };
  pair.far.put(1);
  ASSERT_TRUE(pair.come_to_agree());
  Holder newcomer("newcomer", {});
  pair.join(newcomer, again_after(std::chrono::hours(1)));
  EXPECT_TRUE(run::eventually([&] {
    pair.step();
    (void)newcomer.keeper->take_news();
    return lacks_nothing();
  }));
  pair.far.put(2);
  ASSERT_TRUE(pair.far.node.agent->forget_peer("near").ok());
  EXPECT_TRUE(run::eventually([&] {
    pair.step();
    return lacks_nothing();
  }));
}

/// More than changes say, one behind the other.
void put_many(Pair& pair) {
  for (BlockHash hash = 1'000; hash < 1'000 + CatalogueJournal::kMostKept + 1'000; ++hash)
    (void)pair.far.block_directory->add(hash, 0);
  (void)pair.far.keeper->take_news();
  ASSERT_TRUE(pair.come_to_agree());
}

TEST(CatalogueTest, one_that_says_again_and_again_that_it_lacks_all_is_no_reason_for_more_wholes) {
  Pair pair({.report_again = std::chrono::hours(1), .report_to_missing = std::chrono::hours(1)});
  put_many(pair);
  Watcher watcher(pair);
  const PeerMessage behind{.word = PeerMessage::Word::behind,
                           .changes = {.layout = pair.known()->layout.id, .from = 0}};
  for (int i = 0; i < 10; ++i) {
    pair.pass(pair.far,
              {.from = pair.near.node.agent->identity(), .message = encode(behind).value()});
    pair.step();
    (void)watcher.place->progress();
  }
  EXPECT_THAT(watcher.wholes, SizeIs(::testing::Le(1U)));
}

TEST(CatalogueTest, one_that_failed_gets_the_whole_as_it_was_published_and_changes) {
  Pair pair({.report_again = std::chrono::hours(1), .report_to_missing = Duration::zero()});
  pair.far.put(11);
  put_many(pair);
  const Digest published = pair.known()->catalogue;
  Watcher watcher(pair);
  EXPECT_FALSE(pair.near.get(11).ok()) << "nobody drives the owner";
  ASSERT_THAT(pair.known()->hashes, IsEmpty());
  pair.far.put(1);
  EXPECT_TRUE(pair.come_to_agree());
  (void)watcher.place->progress();
  ASSERT_THAT(watcher.wholes, SizeIs(1));
  EXPECT_EQ(digest_of(watcher.wholes.front(), 0), published);
}

TEST(CatalogueTest, a_peer_that_reports_its_changes_is_not_asked_for_its_catalogue) {
  constexpr Duration kAgain = std::chrono::seconds(10);
  ManualClock clock;
  Pair pair({.others = {"far"}, .report_again = kAgain}, &clock);
  pair.far.put(1);
  ASSERT_TRUE(pair.come_to_agree());
  const std::size_t before = pair.fetches;
  for (BlockHash hash = 2; hash <= 4; ++hash) {
    clock.advance(kAgain);
    pair.far.put(hash);
    ASSERT_TRUE(pair.come_to_agree());
  }
  EXPECT_EQ(pair.fetches, before);
  pair.hinder = [&](Holder& to, const agent::Notification&) { return &to == &pair.near; };
  clock.advance(2 * kAgain);
  pair.step();
  EXPECT_EQ(pair.fetches, before + 1) << "it may have forgotten us";
  pair.hinder = {};
  ASSERT_TRUE(pair.come_to_agree());
  clock.advance(kAgain);
  pair.step();
  EXPECT_EQ(pair.fetches, before + 2) << "once a minute all are";
}

PeerMessage::Word word_of(const agent::Notification& note) {
  return decode_peer_message(note.message).value().word;
}

bool has_news(const agent::Notification& note) {
  return !decode_peer_message(note.message).value().changes.stored.empty();
}

TEST(CatalogueTest, who_has_been_met_is_reported_changes_and_no_catalogue) {
  Pair pair;
  const Digest first = pair.known()->catalogue;
  for (BlockHash hash = 1; hash <= kBlocks + 2; ++hash) pair.far.put(hash);
  EXPECT_TRUE(pair.come_to_agree());
  EXPECT_FALSE(pair.near.keeper->has(1)) << "it went for another";
  EXPECT_TRUE(pair.near.keeper->has(kBlocks + 2));
  EXPECT_EQ(pair.known()->catalogue, first);
}

/// Takes all, and brings nothing to anybody.
struct Troubled : rendezvous::Rendezvous {
  Status publish(const rendezvous::MetadataName&, ConstByteSpan) override { return {}; }
  Status withdraw(const rendezvous::MetadataName&) override { return {}; }
  rendezvous::Standing standing() const override {
    return {.pending = 1, .trouble = error(Code::denied, "nobody comes in")};
  }
  Result<rendezvous::FetchId> fetch(const rendezvous::MetadataName&, run::Deadline,
                                    rendezvous::FetchDone) override {
    return 1;
  }
  void cancel(rendezvous::FetchId) override {}
  void watch(rendezvous::ChangeSeen) override {}
  std::size_t progress() override { return 0; }
  int wait_fd() const noexcept override { return -1; }
};

TEST(CatalogueTest, a_catalogue_that_does_not_arrive_where_it_is_published_is_a_failure) {
  Holder alone("alone", {});
  alone.keeper->peers()->join(std::make_unique<Troubled>(), {});
  (void)alone.keeper->take_news();
  EXPECT_EQ(alone.granting().last_failure.code(), Code::denied);
}

/// What `waits` says of one that nobody has published.
Status failure_of(Holder& waits, Duration report_again) {
  const auto directory = std::make_shared<rendezvous::Directory>();
  waits.keeper->peers()->join(
      rendezvous::InProcess::open(directory).value(),
      {.others = {"nobody"}, .pace = Duration::zero(), .report_again = report_again});
  for (int asked = 0; asked < 100; ++asked) (void)waits.keeper->take_news();
  return waits.granting().last_failure;
}

TEST(CatalogueTest, one_that_is_not_there_is_a_failure_once_it_should_be) {
  Holder starting("starting", {}), alone("alone", {});
  const Status no_failure = failure_of(starting, std::chrono::hours(1));
  EXPECT_TRUE(no_failure.ok()) << no_failure.to_string();
  const Status missing = failure_of(alone, Duration::zero());
  EXPECT_EQ(missing.code(), Code::not_found);
  EXPECT_NE(missing.to_string().find("nobody"), std::string::npos) << missing.to_string();
}

TEST(CatalogueTest, a_lost_notification_is_asked_for_again) {
  Pair pair;
  std::size_t lost = 0, asked = 0;
  pair.hinder = [&](Holder&, const agent::Notification& note) {
    asked += word_of(note) == PeerMessage::Word::behind ? 1 : 0;
    return has_news(note) && lost++ == 0;
  };
  pair.far.put(1);
  EXPECT_TRUE(run::eventually([&] {
    pair.step();
    return lost > 0;
  }));
  EXPECT_FALSE(pair.agree());
  EXPECT_EQ(asked, 0U) << "nothing tells that it was lost";
  pair.far.put(2);
  EXPECT_TRUE(pair.come_to_agree());
  EXPECT_GT(asked, 0U);
}

TEST(CatalogueTest, where_the_last_was_lost_the_word_that_nothing_changed_reports_so) {
  Pair pair(again_after(std::chrono::milliseconds(1)));
  bool is_lost = false;
  pair.hinder = [&](Holder&, const agent::Notification& note) {
    return has_news(note) && !std::exchange(is_lost, true);
  };
  pair.far.put(1);
  EXPECT_TRUE(pair.come_to_agree());
}

TEST(CatalogueTest, an_older_catalogue_is_ignored_and_so_is_one_of_another_life) {
  Pair pair;
  pair.far.put(1);
  const Bytes older = pair.far.catalogue();
  pair.far.put(2);
  ASSERT_TRUE(pair.come_to_agree());
  EXPECT_TRUE(pair.near.learn(older).ok());
  Catalogue foreign = decode_catalogue(older).value();
  foreign.name_space = "another";
  EXPECT_TRUE(pair.near.learn(encode(foreign).value()).ok()) << "what is in it does not matter";
  EXPECT_TRUE(pair.agree());
  const AgentIdentity far = pair.far.node.agent->identity();
  const CatalogueChanges wrong{
      .layout = pair.known()->layout.id, .from = 0, .to = 99, .stored = {3}, .lost = {1, 2}};
  pair.say({"far", far.incarnation + 1}, wrong);
  pair.say({"other", far.incarnation}, wrong);
  EXPECT_TRUE(pair.agree());
  CatalogueChanges of_another_layout = wrong;
  ++of_another_layout.layout;
  pair.say(far, of_another_layout);
  EXPECT_TRUE(pair.agree());
  EXPECT_TRUE(pair.known()->is_behind()) << "there is a catalogue that is not known";
}

TEST(CatalogueTest, who_failed_has_blocks_again_when_it_reports_of_itself) {
  Pair pair;
  pair.far.put(1);
  ASSERT_TRUE(pair.come_to_agree());
  EXPECT_FALSE(pair.near.get(1).ok()) << "nobody drives the owner";
  EXPECT_FALSE(pair.near.keeper->has(1));
  pair.far.put(2);
  EXPECT_TRUE(pair.come_to_agree());
  EXPECT_TRUE(pair.near.keeper->has(1));
}

TEST(CatalogueTest, what_was_known_of_a_peer_before_it_failed_is_no_news) {
  Pair pair;
  pair.far.put(1);
  ASSERT_TRUE(pair.come_to_agree());
  const CatalogueChanges reported{
      .layout = pair.known()->layout.id, .to = *pair.known()->edition, .stored = {1}};
  EXPECT_FALSE(pair.near.get(1).ok()) << "nobody drives the owner";
  CatalogueChanges nothing_new{.layout = reported.layout, .from = reported.to, .to = reported.to};
  for (const CatalogueChanges& late : {reported, nothing_new}) {
    pair.say(pair.far.node.agent->identity(), late);
    EXPECT_FALSE(pair.near.keeper->has(1));
    EXPECT_FALSE(pair.known()->is_behind()) << "it would be asked for them";
  }
}

/// A catalogue that says no edition, as those of older releases.
TEST(CatalogueTest, who_reports_no_changes_is_reported_catalogues) {
  Pair pair;
  Catalogue plain = decode_catalogue(pair.near.catalogue()).value();
  plain.edition.reset();
  ASSERT_TRUE(pair.far.learn(encode(plain).value()).ok());
  const Digest first = pair.known()->catalogue;
  std::size_t notes = 0;
  pair.hinder = [&](Holder&, const agent::Notification& note) {
    notes += has_news(note) ? 1 : 0;
    return false;
  };
  pair.far.put(1);
  EXPECT_TRUE(pair.come_to_agree());
  EXPECT_EQ(notes, 0U);
  EXPECT_NE(pair.known()->catalogue, first);
}

/// Notifications are lost, come twice, late and in another order, and old catalogues come again: in
/// the end each knows what the other has.
class CatalogueFaultsTest : public ::testing::TestWithParam<unsigned> {};

TEST_P(CatalogueFaultsTest, what_is_known_becomes_what_is_there) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  std::mt19937 chance(GetParam());
  Pair pair;
  std::vector<std::pair<Holder*, agent::Notification>> late;
  std::vector<Bytes> old;
  const auto hinder = [&](Holder& to, const agent::Notification& note) {
    const unsigned fate = chance() % 4;
    if (fate == 1 || fate == 2) late.emplace_back(&to, note);  // later; or now, too
    return fate < 2;                                           // 0: never
  };
  for (int i = 0; i < 150; ++i) {
    pair.hinder = hinder;
    if (chance() % 2 == 0) pair.far.put(1 + chance() % (3 * kBlocks));
    if (chance() % 20 == 0) old.push_back(pair.far.catalogue());
    pair.step();
    pair.hinder = nullptr;
    std::shuffle(late.begin(), late.end(), chance);
    for (; !late.empty() && chance() % 2 == 0; late.pop_back())
      pair.pass(*late.back().first, late.back().second);
    if (!old.empty() && chance() % 4 == 0) {
      EXPECT_TRUE(pair.near.learn(old[chance() % old.size()]).ok());
    }
  }
  for (const auto& [to, note] : late) pair.pass(*to, note);
  BlockHash next = 1000;
  pair.far.put(next);  // the first that surely comes
  EXPECT_TRUE(pair.come_to_agree());
  for (BlockHash hash = 1; hash <= next; ++hash)
    EXPECT_EQ(pair.near.keeper->has(hash), pair.far.keeper->has(hash)) << hash;
}

INSTANTIATE_TEST_SUITE_P(Seeds, CatalogueFaultsTest, ::testing::Range(1U, 9U));

}  // namespace
}  // namespace towpath::kv
