// Inbound frames: those of peers whose payload is still coming, each held by a carrier until it is
// done. What was said when its head came holds for the head; whether its bytes may land is asked
// until the last of them.
//
//   write  ->  registered memory, while its grant is fresh (link.h)
//   data   ->  the memory of the operation that asked, while it waits
//   note, hello  ->  a buffer
//
// Invariant: a frame's records live as long as its payload is coming (net::Message::head).
// Thread: loop.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <towpath/backends/messages/exchange.h>
#include <towpath/backends/messages/receive_sink.h>
#include <towpath/backends/messages/target.h>

namespace towpath::backends::messages {

/// Reported once of each arrival, whole or not; the arrival may be used again from then on.
template <typename InboundFrame>
using Arrived = std::function<void(InboundFrame&, bool whole)>;

/// Arrivals of one kind; those that are done are used again.
template <typename InboundFrame>
class InboundFramePool {
 public:
  explicit InboundFramePool(Arrived<InboundFrame> arrived) : arrived_(std::move(arrived)) {}

  /// One that is under way until its done().
  InboundFrame& take() {
    if (idle_.empty()) {
      all_.push_back(std::make_unique<InboundFrame>([this](InboundFrame& inbound, bool whole) {
        arrived_(inbound, whole);
        idle_.push_back(&inbound);
      }));
      idle_.reserve(all_.capacity());
      return *all_.back();
    }
    InboundFrame& inbound = *idle_.back();
    idle_.pop_back();
    return inbound;
  }

 private:
  const Arrived<InboundFrame> arrived_;
  std::vector<std::unique_ptr<InboundFrame>> all_;
  std::vector<InboundFrame*> idle_;
};

class InboundWrite final : public ReceiveSink<FramePieceIterator> {
 public:
  using Done = Arrived<InboundWrite>;
  explicit InboundWrite(Done arrived) : arrived_(std::move(arrived)) {
    refusals_.reserve(kMaxPieces);  // as its base's: in the middle of a body nothing may throw
  }

  /// `may_land`: whether the grant that the frame came under still holds; as `owner`, it outlives
  /// the arrival.
  void begin(const Frame& its_frame, const Target& target, std::function<bool()> may_land);
  /// What the answer says.
  const std::vector<Refusal>& refusals() const noexcept { return refusals_; }
  bool is_stale() const noexcept { return is_barred(); }

  void done(bool whole) override { arrived_(*this, whole); }

  Frame frame;

 private:
  bool is_wanted() const override { return true; }
  PieceVerdict verdict(const FramePieceIterator& at) const override;
  bool may_land() override { return may_land_(); }
  void refuse(const FramePieceIterator& at, Code why) override;

  const Done arrived_;
  const Target* target_ = nullptr;
  std::function<bool()> may_land_;
  std::vector<Refusal> refusals_;
};

class InboundData final : public ReceiveSink<RequestPieceIterator> {
 public:
  using Done = Arrived<InboundData>;
  explicit InboundData(Done arrived) : arrived_(std::move(arrived)) {}

  /// `exchange`: null: nobody knows it, so nothing will land. `is_wanted`: whether its operation
  /// still waits.
  void begin(const Frame& its_frame, const Exchange* exchange, std::function<bool()> is_wanted,
             sys::GuardedCopy& guard);
  void done(bool whole) override { arrived_(*this, whole); }
  /// Whether memory of this side did not take all of its bytes.
  bool is_refused() const noexcept { return is_refused_; }
  /// The pieces of the request that the peer could not read after all.
  const Trailer& trailer() const noexcept { return trailer_; }

  Frame frame;

 private:
  bool is_wanted() const override { return is_wanted_(); }
  PieceVerdict verdict(const RequestPieceIterator& at) const override {
    return {.window = window_, .may_fault = window_ == nullptr && at.may_fault()};
  }
  bool may_land() override { return is_wanted_(); }
  void refuse(const RequestPieceIterator&, Code) override { is_refused_ = true; }

  const Done arrived_;
  DeviceWindow* window_ = nullptr;
  bool is_refused_ = false;
  Trailer trailer_{};
  std::function<bool()> is_wanted_;
};

/// Of a payload that is read as a whole.
class InboundText final : public net::BodySink {
 public:
  using Done = Arrived<InboundText>;
  explicit InboundText(Done arrived) : arrived_(std::move(arrived)) {}

  void begin(const Frame& its_frame, std::uint64_t its_from);
  std::size_t room(std::span<ByteSpan> into) override;
  void came(std::uint64_t bytes) override { filled_ += bytes; }
  void done(bool whole) override { arrived_(*this, whole); }

  Frame frame;
  std::uint64_t from = 0;  ///< the connection over which it comes
  Bytes text;

 private:
  const Done arrived_;
  std::size_t filled_ = 0;
};

}  // namespace towpath::backends::messages
