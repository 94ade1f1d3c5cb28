// How sessions come up, what others on the wire may do meanwhile, and how they end.
#include <list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/session/sessions_fixture.h>

namespace towpath::net {
namespace {

using testing::FakeNetwork;

INSTANTIATE_TEST_SUITE_P(Ways, SessionsTest, ::testing::Values(Way::connection, Way::both_reach),
                         [](const auto& way) {
                           return way.param == Way::connection ? "connection" : "both_reach";
                         });

// ---- Coming up

TEST_P(SessionsTest, both_sides_come_up_and_are_heard) {
  meet();
  EXPECT_TRUE(near_.say("and there").ok());
  settle();
  EXPECT_EQ(near_.heard, std::vector<std::string>{"here"});
  EXPECT_EQ(far_.heard, std::vector<std::string>{"and there"});
  EXPECT_EQ(far_.session->peer().agent, (AgentIdentity{"near", 7}));
  EXPECT_EQ(far_.session->peer().instance, 11U);
  EXPECT_EQ(near_.session->numbers().theirs, far_.session->numbers().ours);
  EXPECT_EQ(near_.session->numbers().ours, far_.session->numbers().theirs);
  EXPECT_EQ(far_.sessions->half_open(), 0U);
  EXPECT_EQ(network_.admitted, 1) << "the side that dialled, by the other";
  EXPECT_EQ(near_.refused.value() + far_.refused.value(), 0U);
}

// Each session works by SipHash too, so nothing else shows which of the two makes the seals.
TEST_P(SessionsTest, sides_that_have_aes_seal_by_it) {
  if (!Mac::is_available(Mac::Algorithm::aes_cmac)) GTEST_SKIP() << "this processor has no AES";
  ASSERT_TRUE(near_.dial(far_).ok());
  far_.turn();
  ASSERT_EQ(to_near().size(), 1U);
  const SessionKeys keys = near_.session->prove(to_near().front().body).value().keys;
  settle();
  ASSERT_TRUE(far_.is_up());
  const auto proof_under = [](const SealKey& key) {
    const Mac bodies(Mac::Algorithm::aes_cmac, key.key.bytes().subspan(Mac::kKeyBytes));
    return bodies.prove(as_bytes("text"));
  };
  EXPECT_EQ(near_.session->sealer().prove_body(as_bytes("text")), proof_under(keys.sending));
  EXPECT_EQ(far_.session->sealer().prove_body(as_bytes("text")), proof_under(keys.receiving));
  EXPECT_TRUE(far_.session->proves_body(as_bytes("text"), proof_under(keys.sending)));
  EXPECT_TRUE(near_.session->proves_body(as_bytes("text"), proof_under(keys.receiving)));
}

// What is sent behind a confirmation may overtake it where there is no connection.
TEST_P(SessionsTest, dialler_is_up_when_it_is_known_that_both_have_the_keys) {
  ASSERT_TRUE(near_.dial(far_).ok());
  far_.turn();
  near_.turn();  // the answer; its confirmation is on the way
  EXPECT_EQ(near_.is_up(), has_connections());
  EXPECT_FALSE(far_.is_up());
  settle();
  EXPECT_TRUE(far_.is_up());
  EXPECT_EQ(near_.is_up(), has_connections());
  EXPECT_TRUE(far_.say("here").ok());
  settle();
  EXPECT_TRUE(near_.is_up());
}

TEST_P(SessionsTest, session_that_is_awaited_hears_nothing) {
  meet();
  Session awaited(far_.peer(), {}, clock_.now());
  const Bytes head(kHeadBytes + kSealBytes);
  EXPECT_FALSE(awaited.hear(0, head, clock_.now()).value());
  EXPECT_FALSE(awaited.is_up());
  EXPECT_EQ(awaited.unsent(), 0U);
  EXPECT_EQ(awaited.prove({}).code(), Code::denied);
}

// ---- What others on the wire may do

TEST_P(SessionsTest, replayed_hello_gets_answers_up_to_the_bound_of_one_and_no_session) {
  const FakeNetwork::Arrived recorded = hello();
  for (int i = 0; i < 10; ++i) send_to_far(recorded);
  far_.turn();
  EXPECT_EQ(far_.sessions->half_open(), 4U);
  EXPECT_FALSE(far_.is_up());
  if (has_connections()) {  // the oldest went
    EXPECT_EQ(far_.refused.value(), 0U);
  } else {
    EXPECT_EQ(far_.refused.value(), 6U);
    EXPECT_EQ(far_.last_refusal.message(), "near has begun and not confirmed, 4 times");
    EXPECT_EQ(to_near().size(), 4U);
  }
  settle();  // of its answers the dialler takes one
  EXPECT_TRUE(far_.is_up());
  far_.turn();
  EXPECT_EQ(far_.sessions->half_open(), 0U) << "one session has one way";
}

TEST_P(SessionsTest, replayed_session_leads_nowhere) {
  std::vector<FakeNetwork::Arrived> recorded;
  ASSERT_TRUE(near_.dial(far_).ok());
  for (int i = 0; i < 4; ++i) {
    for (const auto& message : to_far()) recorded.push_back(message);
    far_.turn();
    near_.turn();
  }
  ASSERT_TRUE(far_.say("here").ok());
  near_.turn();
  ASSERT_TRUE(near_.say("once").ok());
  recorded.push_back(to_far().back());
  settle();
  ASSERT_EQ(far_.heard, std::vector<std::string>{"once"});
  ASSERT_EQ(recorded.size(), 3U);
  far_.session.reset();
  network_.deaf = true;  // nobody answers
  for (const auto& message : recorded) send_to_far(message);
  far_.turn();
  EXPECT_FALSE(far_.is_up());
  EXPECT_EQ(far_.last_refusal.code(), Code::not_found) << far_.last_refusal.to_string();
  EXPECT_EQ(far_.heard.size(), 1U);
}

TEST_P(SessionsTest, answer_that_comes_again_changes_no_keys) {
  ASSERT_TRUE(near_.dial(far_).ok());
  far_.turn();
  ASSERT_EQ(to_near().size(), 1U);
  const FakeNetwork::Arrived answer = to_near().front();
  near_.turn();
  EXPECT_FALSE(near_.session->is_dialling());
  EXPECT_EQ(near_.session->prove(answer.body).code(), Code::denied);
  to_near().push_back(answer);
  settle();
  ASSERT_TRUE(far_.is_up());
  ASSERT_TRUE(far_.say("here").ok());
  ASSERT_TRUE(far_.say("and again").ok());
  settle();
  EXPECT_EQ(near_.heard.size(), 2U);
}

TEST_P(SessionsTest, what_is_sent_back_to_its_sender_proves_nothing) {
  const FakeNetwork::Arrived sent = hello();
  to_near().push_back(sent);  // over no connection of near's
  to_near().back().connection = 0;
  near_.turn();
  EXPECT_EQ(near_.last_refusal.code(), Code::denied) << near_.last_refusal.to_string();
  send_to_far(sent);
  far_.turn();
  ASSERT_EQ(to_near().size(), 1U);
  FakeNetwork::Arrived answer = to_near().front();
  std::swap_ranges(answer.head.begin() + 1, answer.head.begin() + 9, answer.head.begin() + 9);
  send_to_far(answer);
  far_.turn();
  EXPECT_FALSE(far_.is_up());
  EXPECT_EQ(far_.refused.value(), 1U);
  settle();
  EXPECT_TRUE(far_.is_up()) << "the peer's own confirmation still came";
}

TEST_P(SessionsTest, hello_that_is_brought_to_another_is_not_answered) {
  Engine third(network_, clock_, options(), party("third", 33));
  third.address_of_dialler = far_.address_of_dialler;
  network_.port(third.port).arrived.push_back(hello());
  third.turn();
  EXPECT_EQ(third.sessions->half_open(), 0U);
  EXPECT_EQ(third.last_refusal.code(), Code::denied);
  EXPECT_TRUE(to_near().empty());
}

TEST_P(SessionsTest, half_open_ones_are_bounded_in_all) {
  std::list<Engine> many;
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(many.emplace_back(network_, clock_, options(), party(cat("near ", i), 40 + i))
                    .dial(far_, 50 + i)
                    .ok());
    far_.turn();
    advance(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(far_.sessions->half_open(), 6U);
  many.back().turn();
  far_.turn();
  if (has_connections()) {  // the oldest went, for the newest
    EXPECT_TRUE(many.back().is_up());
    EXPECT_TRUE(far_.is_up());
  } else {
    EXPECT_EQ(far_.refused.value(), 2U);
    EXPECT_EQ(far_.last_refusal.message(), "6 peers have begun and not confirmed");
  }
}

// By one that recorded it, over its own connections, before the honest one's or between that and
// its confirmation, as many as it likes.
TEST_P(SessionsTest, repeated_hellos_bar_no_honest_dialler) {
  Engine recorder(network_, clock_, options(), party("near", 11));
  ASSERT_TRUE(recorder.dial(far_).ok());
  const FakeNetwork::Arrived recorded = to_far().front();
  for (int i = 0; i < 10; ++i) send_to_far(recorded);
  far_.turn();
  EXPECT_EQ(far_.sessions->half_open(), 4U);
  advance(std::chrono::milliseconds(1));
  ASSERT_TRUE(near_.dial(far_).ok());
  far_.turn();
  advance(std::chrono::milliseconds(1));
  for (int i = 0; i < 10; ++i) send_to_far(recorded);
  settle();
  EXPECT_EQ(far_.is_up(), has_connections()) << "without them, not before the timeout";
  EXPECT_EQ(near_.is_up(), has_connections());
}

TEST_P(SessionsTest, guessed_confirmation_is_refused_and_the_right_one_still_taken) {
  ASSERT_TRUE(near_.dial(far_).ok());
  far_.turn();
  near_.turn();
  ASSERT_EQ(to_far().size(), 1U);
  const FakeNetwork::Arrived right = to_far().front();
  to_far().clear();
  FakeNetwork::Arrived guessed = right;
  guessed.body.back() ^= std::byte{1};
  send_to_far(guessed);
  far_.turn();
  EXPECT_FALSE(far_.is_up());
  EXPECT_EQ(far_.last_refusal.code(), Code::denied);
  FakeNetwork::Arrived elsewhere = right;
  elsewhere.connection = 77;  // the right one, over another connection
  send_to_far(elsewhere);
  far_.turn();
  EXPECT_FALSE(far_.is_up());
  EXPECT_EQ(far_.last_refusal.code(), Code::not_found);
  FakeNetwork::Arrived other_number = right;
  other_number.head[9] ^= std::byte{1};
  send_to_far(other_number);
  far_.turn();
  EXPECT_FALSE(far_.is_up());
  send_to_far(right);
  far_.turn();
  EXPECT_TRUE(far_.is_up());
  EXPECT_EQ(far_.refused.value(), 3U);
}

TEST_P(SessionsTest, message_over_another_connection_is_not_heard_and_harms_nothing) {
  meet();
  ASSERT_TRUE(near_.say("right").ok());
  FakeNetwork::Arrived elsewhere = to_far().back();
  elsewhere.connection = 77;
  to_far().push_front(elsewhere);
  settle();
  EXPECT_EQ(far_.heard, std::vector<std::string>{"right"});
  EXPECT_TRUE(far_.ended.ok());
}

TEST_P(SessionsTest, altered_head_ends_the_session_by_name) {
  meet();
  ASSERT_TRUE(near_.say("pay 1").ok());
  to_far().back().head[9] ^= std::byte{1};
  settle();
  EXPECT_TRUE(far_.heard.empty());
  EXPECT_EQ(far_.ended.message(), "the session with near is not safe any more");
  EXPECT_EQ(far_.ended.code(), Code::peer_lost);
  EXPECT_EQ(far_.refused.value(), 1U);
  EXPECT_EQ(far_.sink.count_of("refused"), 1U);
}

TEST_P(SessionsTest, message_that_comes_again_or_is_left_out_is_noticed_as_the_way_allows) {
  meet();
  ASSERT_TRUE(near_.say("first").ok());
  to_far().push_back(to_far().back());
  settle();
  EXPECT_EQ(far_.heard, std::vector<std::string>{"first"});
  EXPECT_FALSE(far_.ended.ok());
  far_.ended = {};
  ASSERT_TRUE(near_.say("second").ok());
  to_far().clear();
  ASSERT_TRUE(near_.say("third").ok());
  settle();
  EXPECT_EQ(far_.ended.ok(), !has_connections()) << "in order there are no gaps";
}

// ---- Silence

TEST_P(SessionsTest, side_that_says_nothing_is_given_up_in_time) {
  meet();
  wait(std::chrono::milliseconds(4750));
  EXPECT_TRUE(far_.sessions->check_silence(*far_.session, clock_.now()).ok());
  EXPECT_TRUE(far_.sessions->is_silent_side(*far_.session, clock_.now()));
  wait(std::chrono::milliseconds(250));
  const Status silent = far_.sessions->check_silence(*far_.session, clock_.now());
  EXPECT_EQ(silent.code(), Code::peer_lost);
  EXPECT_EQ(silent.message(), "near was silent for 5000 ms");
}

TEST_P(SessionsTest, side_that_speaks_is_kept_and_need_not_speak_again_at_once) {
  meet();
  for (int i = 0; i < 10; ++i) {
    wait(std::chrono::seconds(1));
    EXPECT_TRUE(near_.sessions->is_silent_side(*near_.session, clock_.now()));
    ASSERT_TRUE(near_.say("alive").ok());
    EXPECT_FALSE(near_.sessions->is_silent_side(*near_.session, clock_.now()));
    settle();
    ASSERT_TRUE(far_.sessions->check_silence(*far_.session, clock_.now()).ok());
  }
}

TEST_P(SessionsTest, side_that_was_stopped_itself_does_not_blame_others) {
  meet();
  advance(std::chrono::minutes(1));
  EXPECT_TRUE(far_.turn());
  EXPECT_TRUE(far_.sessions->check_silence(*far_.session, clock_.now()).ok());
  advance(std::chrono::seconds(1));
  EXPECT_TRUE(far_.turn());
  EXPECT_TRUE(far_.sessions->check_silence(*far_.session, clock_.now()).ok()) << "only one second";
}

TEST_P(SessionsTest, checks_come_once_in_their_time) {
  EXPECT_FALSE(far_.turn());
  advance(std::chrono::milliseconds(999));
  EXPECT_FALSE(far_.turn());
  EXPECT_EQ(far_.sessions->next_check() - clock_.now(), std::chrono::milliseconds(1));
  advance(std::chrono::milliseconds(1));
  EXPECT_TRUE(far_.turn());
  EXPECT_FALSE(far_.turn());
}

TEST_P(SessionsTest, half_open_one_that_is_not_confirmed_in_time_makes_room) {
  const FakeNetwork::Arrived recorded = hello();
  for (int i = 0; i < 5; ++i) send_to_far(recorded);
  far_.turn();
  ASSERT_EQ(far_.sessions->half_open(), 4U);
  network_.port(near_.port).stopped = true;
  wait(std::chrono::milliseconds(4750));
  EXPECT_EQ(far_.sessions->half_open(), 4U);
  wait(std::chrono::milliseconds(500));
  EXPECT_EQ(far_.sessions->half_open(), 0U);
  send_to_far(recorded);
  far_.turn();
  EXPECT_EQ(far_.sessions->half_open(), 1U) << "it may begin anew";
}

// ---- Breakage, and no memory

TEST_P(SessionsTest, broken_way_is_noted_and_acted_on_outside_of_the_carrier) {
  meet();
  network_.cut(near_.port, far_.port);
  EXPECT_EQ(far_.session->broken().message(), "the connection to near broke");
  EXPECT_EQ(far_.session->broken().cause().message(), "cut");
  EXPECT_TRUE(far_.session->is_up());
  far_.session->close();
  EXPECT_FALSE(far_.session->is_up());
  EXPECT_EQ(far_.session->endpoint(), nullptr);
}

TEST_P(SessionsTest, half_open_one_that_broke_is_gone_after_the_turn) {
  ASSERT_TRUE(near_.dial(far_).ok());
  far_.turn();
  network_.cut(near_.port, far_.port);
  EXPECT_EQ(far_.half_open_in_carrier, 1U) << "no endpoint ends inside of its carrier";
  far_.turn();
  EXPECT_EQ(far_.sessions->half_open(), 0U);
}

TEST_P(SessionsTest, peer_for_whose_answer_there_is_no_memory_may_come_again) {
  const FakeNetwork::Arrived sent = hello();
  network_.has_no_memory = true;
  send_to_far(sent);
  far_.turn();
  EXPECT_EQ(far_.last_refusal, far_.sessions->no_memory());
  EXPECT_EQ(far_.sessions->half_open(), 0U);
  send_to_far(sent);
  settle();
  EXPECT_TRUE(far_.is_up());
}

TEST_P(SessionsTest, message_for_which_there_is_no_memory_is_an_error_of_the_session) {
  meet();
  network_.has_no_memory = true;
  EXPECT_EQ(far_.say("lost"), far_.sessions->no_memory());
}

TEST_P(SessionsTest, confirmed_one_that_its_engine_cannot_keep_goes_with_the_turn) {
  far_.keeps_none = true;
  ASSERT_TRUE(near_.dial(far_).ok());
  settle();
  EXPECT_EQ(far_.last_refusal.code(), Code::exhausted);
  EXPECT_EQ(far_.sessions->half_open(), 0U);
}

TEST_P(SessionsTest, confirmation_that_cannot_be_sent_leaves_it_dialling) {
  ASSERT_TRUE(near_.dial(far_).ok());
  far_.turn();
  for (const bool has_no_memory : {false, true}) {
    const FakeNetwork::Arrived answer = to_near().front();
    network_.refusal = has_no_memory ? Status() : error(Code::peer_lost, "the way is cut");
    network_.has_no_memory = has_no_memory;
    near_.turn();
    EXPECT_TRUE(near_.session->is_dialling());
    EXPECT_FALSE(near_.is_up());
    to_near().push_back(answer);
  }
  network_.refusal = {};
  settle();
  EXPECT_TRUE(far_.is_up()) << "the answer came again";
}

TEST_P(SessionsTest, answer_that_cannot_be_sent_leaves_nothing) {
  const FakeNetwork::Arrived sent = hello();
  network_.refusal = error(Code::peer_lost, "the way is cut");
  send_to_far(sent);
  far_.turn();
  EXPECT_EQ(far_.last_refusal.message(), "the way is cut");
  EXPECT_EQ(far_.sessions->half_open(), 0U);
}

}  // namespace
}  // namespace towpath::net
