#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/channel.h>

namespace towpath::agent {
namespace {

TEST(EnvelopeTest, goes_there_and_back) {
  const Bytes bytes = encode({Envelope::Kind::message, 7, 0x0102030405060708, as_bytes("hello")});
  ASSERT_EQ(bytes.size(), kEnvelopeBytes + 5);
  EXPECT_EQ(bytes[wire::kHeaderBytes + 8], std::byte{8}) << "little-endian";
  const auto envelope = decode_envelope(bytes);
  ASSERT_TRUE(envelope.ok());
  EXPECT_EQ(envelope->stream, 7U);
  EXPECT_EQ(envelope->number, 0x0102030405060708U);
  EXPECT_EQ(as_text(envelope->payload), "hello");
}

TEST(EnvelopeTest, refuses_what_is_none) {
  const auto code_of = [](ConstByteSpan inner) {
    return decode_envelope(wire::seal({wire::MessageType::notification, 1}, inner)).code();
  };
  EXPECT_EQ(decode_envelope({}).code(), Code::corrupt);
  Bytes inner(16);
  inner[0] = std::byte{1};
  EXPECT_EQ(code_of(inner), Code::ok);
  EXPECT_EQ(code_of(ConstByteSpan(inner).first(15)), Code::corrupt);
  inner[3] = std::byte{1};
  EXPECT_EQ(code_of(inner), Code::corrupt);
  inner[3] = std::byte{0};
  inner[0] = std::byte{9};
  EXPECT_EQ(code_of(inner), Code::corrupt);
}

TEST(EnvelopeTest, torn_message_is_no_message) {
  const Bytes whole = encode({Envelope::Kind::message, 1, 1, as_bytes("the whole truth")});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    EXPECT_FALSE(decode_envelope(ConstByteSpan(whole).first(at)).ok()) << at;
    Bytes changed = whole;
    changed[at] ^= std::byte{0x10};
    EXPECT_FALSE(decode_envelope(changed).ok()) << at;
  }
}

TEST(SendWindowTest, is_bounded_by_bytes_of_which_each_message_takes_some) {
  SendWindow window({.lossy = true}, {.bytes = 2 * SendWindow::kPieceCost + 10});
  EXPECT_TRUE(window.push(as_bytes("012345678")).ok());
  EXPECT_EQ(window.push(as_bytes("ab")).code(), Code::exhausted);
  EXPECT_TRUE(window.push(as_bytes("9")).ok());
  EXPECT_EQ(window.push({}).code(), Code::exhausted);
  EXPECT_EQ(window.size(), 2U);
  window.next();
  window.sent({1});
  window.acknowledged({Envelope::Kind::acknowledgement, 2, 1, {}});
  EXPECT_EQ(window.push({}).code(), Code::exhausted) << "that was another stream";
  window.acknowledged({Envelope::Kind::acknowledgement, 1, 1, {}});
  EXPECT_TRUE(window.push({}).ok());
}

TEST(SendWindowTest, one_message_fits_an_empty_window_always) {
  SendWindow window({}, {.bytes = 1});
  EXPECT_TRUE(window.push(as_bytes("long")).ok());
  EXPECT_EQ(window.push({}).code(), Code::exhausted);
}

TEST(SendWindowTest, room_of_a_message_in_pieces_comes_back_whole) {
  SendWindow window({.piece_bytes = 3}, {.bytes = 3 * SendWindow::kPieceCost + 7});
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(window.reserve(7).ok());
    window.release(7);
    ASSERT_TRUE(window.push(as_bytes("0123456")).ok());
    EXPECT_EQ(window.size(), 1U);
    std::string kinds;
    while (const Bytes* piece = window.next()) {
      kinds += std::to_string(static_cast<int>(decode_envelope(*piece)->kind));
      window.sent({1});
    }
    EXPECT_EQ(kinds, "331");
    EXPECT_TRUE(window.empty());
    EXPECT_EQ(window.size(), 0U);
  }
}

TEST(SendWindowTest, reliable_messages_leave_as_they_are_sent) {
  SendWindow window({}, {});
  ASSERT_TRUE(window.push(as_bytes("a")).ok());
  ASSERT_NE(window.next(), nullptr);
  window.sent({1});
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.next_repeat(Duration(5)), Instant::never());
}

TEST(SendWindowTest, message_goes_at_once_where_nothing_waits_and_takes_a_number_when_it_has_gone) {
  SendWindow window({.piece_bytes = 8}, {});
  Bytes now;
  ASSERT_TRUE(window.encode_at_once(as_bytes("refused"), now));  // by the backend: it has no number
  ASSERT_TRUE(window.encode_at_once(as_bytes("first"), now));
  EXPECT_EQ(decode_envelope(now)->number, 1U);
  window.sent_at_once();
  EXPECT_FALSE(window.encode_at_once(as_bytes("in pieces"), now));
  ASSERT_TRUE(window.push(as_bytes("second")).ok());
  EXPECT_FALSE(window.encode_at_once(as_bytes("third"), now)) << "it would overtake the second";
  EXPECT_EQ(decode_envelope(*window.next())->number, 2U);
  window.sent({});
  ASSERT_TRUE(window.encode_at_once(as_bytes("third"), now));
  EXPECT_EQ(decode_envelope(now)->number, 3U);
  EXPECT_FALSE(SendWindow({.lossy = true}, {}).encode_at_once(as_bytes("kept"), now));
}

TEST(SendWindowTest, lost_message_comes_again_while_others_are_sent) {
  constexpr Duration kTimeout(10);
  SendWindow window({.lossy = true}, {});
  const auto send = [&](std::int64_t now) {
    EXPECT_TRUE(window.push(as_bytes("x")).ok());
    window.repeat_overdue({now}, kTimeout);
    ASSERT_NE(window.next(), nullptr);
    window.sent({now});
    EXPECT_EQ(window.next(), nullptr) << "at " << now << " more was repeated";
  };
  send(1);
  send(8);
  EXPECT_EQ(window.next_repeat(kTimeout), Instant{11});
  window.acknowledged({Envelope::Kind::acknowledgement, 1, 1, {}});
  EXPECT_EQ(window.next_repeat(kTimeout), Instant{18}) << "that of the second";
  send(17);
  window.repeat_overdue({18}, kTimeout);
  ASSERT_NE(window.next(), nullptr) << "those that follow put it off";
  EXPECT_EQ(decode_envelope(*window.next())->number, 2U);
  window.sent({18});
  EXPECT_EQ(window.next_repeat(kTimeout), Instant{28});
}

TEST(ReceiveWindowTest, new_stream_begins_anew_and_ends_the_old_one) {
  using Verdict = ReceiveWindow::Verdict;
  const auto message = [](std::uint32_t stream, std::uint64_t number) {
    return Envelope{Envelope::Kind::message, stream, number, {}};
  };
  ReceiveWindow window;
  for (std::uint64_t number = 1; number <= 3; ++number) {
    ASSERT_EQ(window.judge(message(1, number)), Verdict::deliver);
    window.delivered();
  }
  EXPECT_EQ(window.judge(message(2, 2)), Verdict::too_early);
  EXPECT_EQ(window.judge(message(2, 1)), Verdict::deliver);
  EXPECT_EQ(window.judge(message(1, 4)), Verdict::seen_before) << "that stream is over";
}

TEST(ReceiveWindowTest, pieces_are_one_message_that_comes_again_until_it_is_delivered) {
  ReceiveWindow window;
  EXPECT_EQ(as_text(*window.finish(as_bytes("alone"))), "alone");
  window.settle(true, 5);
  ASSERT_TRUE(window.collect(as_bytes("ab")) && window.collect(as_bytes("cd")));
  for (const bool is_delivered : {false, false, true}) {
    EXPECT_EQ(as_text(*window.finish(as_bytes("e"))), "abcde");
    window.settle(is_delivered, 1);
  }
  EXPECT_FALSE(window.is_collecting());
  EXPECT_EQ(as_text(*window.finish({})), "");
}

TEST(ReceiveWindowTest, message_that_is_too_long_is_dropped_and_the_next_one_comes) {
  const Bytes half(kMaxMessageBytes / 2);
  ReceiveWindow window;
  ASSERT_TRUE(window.collect(half) && window.collect(half));
  EXPECT_FALSE(window.finish(as_bytes("x")));
  EXPECT_EQ(as_text(*window.finish(as_bytes("next"))), "next");
  ASSERT_TRUE(window.collect(half) && window.collect(half));
  EXPECT_FALSE(window.collect(as_bytes("x")));
  window.refuse_message();
  EXPECT_FALSE(window.is_collecting());
  EXPECT_FALSE(window.collect(as_bytes("the rest")));
  EXPECT_FALSE(window.finish(as_bytes("its end")));
  EXPECT_EQ(as_text(*window.finish(as_bytes("next"))), "next");
}

// Every network that a seed can think of: each message arrives once and in order all the same.
TEST(ChannelTest, delivers_once_and_in_order_over_a_network_that_drops_repeats_and_reorders) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    SendWindow sender({.lossy = true}, {.bytes = 8 * (SendWindow::kPieceCost + 2)});
    ReceiveWindow receiver;
    std::vector<Bytes> there;
    std::vector<std::uint64_t> back;
    std::vector<std::string> delivered;
    std::int64_t now = 1;
    int pushed = 0;
    for (int step = 0; step < 20000 && delivered.size() < 50; ++step) {
      now += 3;
      if (pushed < 50 && sender.push(as_bytes(std::to_string(pushed))).ok()) ++pushed;
      sender.repeat_overdue({now}, Duration(40));
      if (const Bytes* message = sender.next()) {
        if (random() % 3 != 0) there.push_back(*message);
        if (random() % 5 == 0) there.push_back(*message);
        sender.sent({now});
      }
      if (!there.empty() && random() % 2 == 0) {
        const auto pick = static_cast<std::ptrdiff_t>(random() % there.size());
        const Bytes message = there[static_cast<std::size_t>(pick)];
        there.erase(there.begin() + pick);
        const auto envelope = decode_envelope(message);
        ASSERT_TRUE(envelope.ok());
        if (receiver.judge(*envelope) == ReceiveWindow::Verdict::deliver) {
          delivered.emplace_back(as_text(envelope->payload));
          receiver.delivered();
        }
        if (random() % 3 != 0) back.push_back(receiver.last());
      }
      if (!back.empty() && random() % 2 == 0) {
        sender.acknowledged({Envelope::Kind::acknowledgement, 1, back.front(), {}});
        back.erase(back.begin());
      }
    }
    ASSERT_EQ(delivered.size(), 50U) << "seed " << seed;
    for (int i = 0; i < 50; ++i)
      ASSERT_EQ(delivered[static_cast<std::size_t>(i)], std::to_string(i)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace towpath::agent
