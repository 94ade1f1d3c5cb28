// TcpEndpoint: a connection that we opened to somebody, and the messages that wait to leave by it.
//
//   [ dialing ] --one of his addresses greets as himself--> [ open ] --> over
//
// A message leaves at once if it can: its buffer and the parts of its body by one call. What the
// socket does not take waits, in the order in which it was sent.
// Thread: one at a time.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <towpath/net/messages/message_worker.h>
#include <towpath/net/tcp/tcp_address.h>
#include <towpath/net/tcp/tcp_loop.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

class TcpEndpoint final : public MessageEndpoint, private TcpSocketOwner {
 public:
  /// What is given outlives it; `owner` is what the listener knows it by.
  TcpEndpoint(TcpLoop& loop, MessageBuffers& buffers, MessageListener& listener, void* owner)
      : loop_(loop), buffers_(buffers), listener_(listener), owner_(owner) {}
  ~TcpEndpoint() override;

  /// Errors: unavailable (no address can even be tried).
  Status dial(TcpPlace place);

  std::size_t unsent() const noexcept override { return unsent_.size(); }
  Status send(std::unique_ptr<MessageBuffer> buffer, BodySource* rest, std::uint64_t rest_bytes,
              std::optional<unsigned> into) override;
  void copy(BodySource& rest) override;

 private:
  struct Dial {
    std::unique_ptr<sys::ByteStream> stream;
    std::uint64_t tag = 0;
    std::string where;
    std::array<std::byte, kGreetingBytes> greeting;
    std::size_t heard = 0;  ///< bytes of it
  };
  struct Unsent {
    std::unique_ptr<MessageBuffer> buffer;
    ConstByteSpan left;  ///< of the buffer, its prefix too
    BodySource* rest = nullptr;
    std::uint64_t rest_left = 0;
    Bytes copied;  ///< instead of `rest`
    std::size_t copied_left = 0;

    bool has_left() const noexcept { return left.empty() && rest_left == 0 && copied_left == 0; }
    std::size_t parts(std::span<ConstByteSpan> into);
    void advance(std::uint64_t bytes);
  };

  void on_event(const run::PollEvent& event) override;
  void hear(std::size_t dial);
  Status open(Dial dial);
  void drop(std::size_t dial, const Status& why);
  void hang_up(Dial& dial);
  void hear_end();
  Status leave(Unsent& message);
  Status leave_all();
  void watch_room();
  void put_away(Unsent& message);
  void breaks(const Status& why);

  TcpLoop& loop_;
  MessageBuffers& buffers_;
  MessageListener& listener_;
  void* const owner_;

  TcpPlace place_;
  std::vector<Dial> dials_;  ///< none: it is open, or over
  std::string refusals_;     ///< why the others did not lead there
  Dial way_;                 ///< the one that led there
  std::deque<Unsent> unsent_;
  bool wants_writable_ = false;
  bool is_broken_ = false;
};

}  // namespace towpath::net
