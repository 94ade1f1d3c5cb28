// InboundBody: what of a frame is not in its head, while it comes.
//
// In its turn a frame's body goes straight to where it belongs, which is asked for anew before each
// part of it. One that comes before its turn, and a handshake, is kept.
// Thread: as Links.
#pragma once

#include <towpath/net/messages/message_worker.h>
#include <towpath/shmem/messages/frames.h>

namespace towpath::shmem {

class InboundBody final : public net::BodySink {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Where the body of a frame in its turn belongs, all of it; empty: nowhere any more.
    virtual ByteSpan room_for(const Frame& frame) = 0;
    /// It has come, whole.
    virtual void on_body(InboundBody& body) = 0;
  };

  explicit InboundBody(Owner& owner) : owner_(owner) {}
  InboundBody(const InboundBody&) = delete;
  InboundBody& operator=(const InboundBody&) = delete;

  /// Both borrow the message's head, which lives until done().
  Frame frame;
  ConstByteSpan head;
  std::uint64_t from = 0;  ///< the connection over which it comes
  bool is_kept = false;
  Bytes kept;

  void begin(const Frame& its_frame, ConstByteSpan its_head, std::uint64_t its_from, bool keeps) {
    frame = its_frame;
    head = its_head;
    from = its_from;
    is_kept = keeps;
    kept.resize(keeps ? frame.body_bytes : 0);
    came_ = 0;
  }

  std::size_t room(std::span<ByteSpan> into) override {
    const ByteSpan all = is_kept ? ByteSpan(kept) : owner_.room_for(frame);
    if (all.size() <= came_) return 0;
    into.front() = all.subspan(came_);
    return 1;
  }
  void came(std::uint64_t bytes) override { came_ += bytes; }
  void done(bool whole) override {
    if (whole) owner_.on_body(*this);
  }

 private:
  Owner& owner_;
  std::uint64_t came_ = 0;
};

}  // namespace towpath::shmem
