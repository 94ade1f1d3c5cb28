// FakePe: a PE of another host that a test speaks as: it is dialled, proves itself, and then says
// whatever the test wants, with the right seals. Thread: loop.
#pragma once

#include <cstring>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/net/messages/testing/fake_network.h>
#include <towpath/shmem/messages/links.h>

namespace towpath::shmem::testing {

inline const std::string kJobSecret(32, 's');
inline constexpr std::uint64_t kInstanceOfFake = 77;

class FakePe final : private net::MessageListener {
 public:
  FakePe(net::testing::FakeNetwork& network, std::uint32_t pe) : network_(network), pe_(pe) {
    worker_ = network.open(2 * kMaxFramePayload, *this);
  }

  PeerPlace place() const {
    const ConstByteSpan address = worker_->address();
    return {.instance = kInstanceOfFake, .address = {address.begin(), address.end()}};
  }
  MessageNetwork network() {
    return {.make_worker = [this](net::MessageListener& listener, const Clock&) {
      return Result<std::unique_ptr<net::MessageWorker>>(
          network_.open(2 * kMaxFramePayload, listener));
    }};
  }
  /// From now on what this PE says goes to `links`.
  void look_for(const Links& links) { theirs_ = links.place(); }
  /// `links`, of PE 0, opens its link to this PE. Its secret is `secret`.
  void meet(Links& links, const std::string& secret = kJobSecret) {
    secret_ = secret;
    look_for(links);
    while (links.turn() || worker_->progress()) {
    }
  }
  /// With sender, and seals; the sequence too, where it is 0.
  void say(FrameHeader header, ConstByteSpan body = {}, ConstByteSpan arrival = {}) {
    send(sealed(header, arrival), body);
  }
  Bytes sealed(FrameHeader header, ConstByteSpan arrival = {}) {
    Bytes head = head_of(header, arrival);
    sealer_.seal(head);
    return head;
  }
  Bytes head_of(FrameHeader header, ConstByteSpan arrival = {}) {
    header.from = pe_;
    if (header.sequence == 0) header.sequence = ++said_;
    Bytes head(head_bytes(arrival.size()));
    encode_head(header, arrival, head);
    return head;
  }
  void send(ConstByteSpan head, ConstByteSpan body = {}) {
    std::uint64_t port = 0;
    std::memcpy(&port, theirs_.address.data(), sizeof port);
    network_.send(port, head, body);
  }
  /// As the other side sees them, by kind.
  const std::vector<FrameKind>& heard() const noexcept { return heard_; }

 private:
  struct Collector final : net::BodySink {
    FakePe* pe = nullptr;
    Bytes bytes;
    std::size_t came_bytes = 0;
    std::size_t room(std::span<ByteSpan> into) override {
      into.front() = ByteSpan(bytes).subspan(came_bytes);
      return 1;
    }
    void came(std::uint64_t more) override { came_bytes += more; }
    void done(bool) override { pe->take_handshake(bytes); }
  };

  net::BodySink* on_message(const net::Message& message) override {
    const Frame frame = *decode_frame(message.head, message.body_bytes);
    heard_.push_back(frame.header.kind);
    if (frame.header.kind != FrameKind::handshake) return nullptr;
    collector_.pe = this;
    collector_.bytes.assign(message.body_bytes, std::byte{});
    collector_.came_bytes = 0;
    return &collector_;
  }
  void on_broken(void*, const Status&) override {}

  void take_handshake(ConstByteSpan message) {
    if (accepting_) {
      const auto keys = accepting_->take(message);
      if (!keys.ok()) return;
      sealer_ = net::Sealer(keys->sending);
      return say({.kind = FrameKind::hello, .operand = 99});
    }
    auto accepting = net::AcceptHandshake::begin(
        {Secret(secret_), "shmem"},
        {.agent = {cat("PE ", pe_), kInstanceOfFake}, .instance = kInstanceOfFake, .data = {}},
        message);
    if (!accepting.ok()) return;
    accepting_.emplace(*std::move(accepting));
    FrameHeader header{.kind = FrameKind::handshake, .from = pe_};
    Bytes head(head_bytes(0));
    encode_head(header, {}, head);
    send(head, accepting_->answer());
  }

  net::testing::FakeNetwork& network_;
  const std::uint32_t pe_;
  std::unique_ptr<net::MessageWorker> worker_;
  std::string secret_;
  PeerPlace theirs_;
  std::optional<net::AcceptHandshake> accepting_;
  net::Sealer sealer_;
  std::uint64_t said_ = 0;
  std::vector<FrameKind> heard_;
  Collector collector_;
};

}  // namespace towpath::shmem::testing
