// TcpEndpoint: a connection to somebody, over which both sides speak.
//
//   dial()   [ dialling ] --an answer that its listener accepts----+--> [ open ] --> over
//   accept() [ one short message at a time ] --admit()-------------+
//
// What has come is heard before the endpoint breaks, also where nothing can be sent any more: a
// peer that ends says why, and closes.
//
// Thread: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/net/messages/message_worker.h>
#include <towpath/net/tcp/tcp_dialler.h>
#include <towpath/net/tcp/tcp_loop.h>
#include <towpath/net/tcp/tcp_receiver.h>
#include <towpath/net/tcp/tcp_sender.h>

namespace towpath::net {

/// What all endpoints of a worker share, and what outlives them.
struct TcpContext {
  TcpLoop& loop;
  MessageBuffers& buffers;
  MessageListener& listener;
  const TcpReceiver::Limits limits;
  const std::size_t first_bytes;  ///< of a message of a side that has not proven itself
};

class TcpEndpoint final : public MessageEndpoint,
                          private TcpSocketOwner,
                          private TcpDialler::Caller {
 public:
  /// `owner`: by what the listener knows it.
  TcpEndpoint(const TcpContext& context, void* owner)
      : context_(context),
        owner_(owner),
        from_(context.loop.reserve_tag()),
        sender_(context.buffers),
        first_(context.first_bytes) {}
  ~TcpEndpoint() override;

  /// `first` has its prefix. `tls`: what the peer speaks; null: none. Errors: unavailable (no
  /// address can even be tried).
  Status dial(const std::vector<Endpoint>& endpoints, Bytes first,
              std::shared_ptr<const TlsContext> tls);
  /// Errors: exhausted.
  Status accept(std::unique_ptr<sys::ByteStream> stream, std::uint64_t from);

  std::size_t unsent() const noexcept override { return sender_.unsent(); }
  std::uint64_t unsent_bytes() const noexcept override { return sender_.unsent_bytes(); }
  bool has_arrived() const noexcept override;
  Status send(std::unique_ptr<MessageBuffer> buffer, BodySource* rest, std::uint64_t rest_bytes,
              std::optional<unsigned> into) override;
  void copy(BodySource& rest) noexcept override;
  void admit() override;
  std::string path() const override { return path_; }
  std::string_view host() const noexcept override { return host_; }
  std::string trouble() const override { return dialler_ ? dialler_->trouble() : std::string(); }

 private:
  void on_event(const run::PollEvent& event) override;
  // TcpDialler::Caller
  Status judge(const Message& answer, ConstByteSpan body) override {
    return context_.listener.on_answer(
        owner_, {.head = answer.head, .body_bytes = answer.body_bytes, .from = from_}, body);
  }
  void on_reached(std::unique_ptr<sys::ByteStream> stream) override;
  void on_unreachable(const Status& why) override { breaks(why); }

  Status take_over(std::unique_ptr<sys::ByteStream> stream);
  void leave();
  void note_unsendable(Status why);
  Status hear();
  bool has_more() const noexcept;
  void note_rest();
  void watch_room();
  void hang_up();
  void breaks(const Status& why);

  const TcpContext& context_;
  void* const owner_;
  std::unique_ptr<TcpDialler> dialler_;  ///< while it dials
  std::unique_ptr<sys::ByteStream> stream_;
  std::uint64_t tag_ = 0;
  std::uint64_t from_;  ///< by which the listener knows the connection
  TcpSender sender_;
  TcpFirstMessage first_;                ///< until the other side is admitted
  std::optional<TcpReceiver> receiver_;  ///< from then on; reads `stream_`
  std::string path_;                     ///< that was dialled and reached
  std::string host_;                     ///< that opened it (unproven.h)
  Status unsendable_;                    ///< why nothing leaves any more
  bool wants_writable_ = false;
  bool is_broken_ = false;
};

}  // namespace towpath::net
