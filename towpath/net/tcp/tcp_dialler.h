// TcpDialler: tries the addresses of a peer until one of them leads to it.
//
//   [ waiting ] --its turn--> [ trying ] --an answer that is accepted--> that is the path
//        ^                        |
//        +----hung up, no answer--+--refused, unreachable, a wrong answer--> [ over ]
//
// The addresses get their turns one after the other, a quarter of a second apart, or at once when
// the one before has failed (RFC 8305); those that were tried are not given up for the next. Who
// connects and hangs up without an answer is too busy now: it gets another turn, later and later,
// for as long as the dialler exists; and to come in by its other addresses at once would help
// nobody. Its owner bounds that by a timeout of its own.
// Thread: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/net/endpoint.h>
#include <towpath/net/tcp/tcp_first_message.h>
#include <towpath/net/tcp/tcp_loop.h>
#include <towpath/net/tls/tls_context.h>

namespace towpath::net {

class TcpDialler final : private TcpSocketOwner, private TcpSleeper {
 public:
  /// Its owner, which may destroy it from inside of the last two.
  class Caller {
   public:
    virtual ~Caller() = default;
    virtual Status judge(const Message& answer, ConstByteSpan body) = 0;
    virtual void on_reached(std::unique_ptr<sys::ByteStream> stream) = 0;
    virtual void on_unreachable(const Status& why) = 0;
  };

  struct Options {
    Bytes first;                                 ///< what each address is sent, its prefix too
    std::size_t max_answer_bytes = 0;            ///< of an answer
    std::shared_ptr<const TlsContext> tls = {};  ///< that the peer speaks; null: none
  };
  /// `loop` and `caller` outlive it.
  TcpDialler(TcpLoop& loop, Caller& caller, Options options)
      : loop_(loop), caller_(caller), options_(std::move(options)) {}
  ~TcpDialler() override;
  TcpDialler(const TcpDialler&) = delete;
  TcpDialler& operator=(const TcpDialler&) = delete;

  /// Errors: unavailable (no address can even be tried).
  Status dial(const std::vector<Endpoint>& endpoints);
  /// Why the addresses that were tried did not lead to the peer.
  std::string trouble() const;

 private:
  struct Place {
    Place(const Endpoint& where, std::size_t max_answer) : endpoint(where), answer(max_answer) {}
    const Endpoint endpoint;
    std::unique_ptr<sys::ByteStream> stream;  ///< while it is tried
    std::uint64_t tag = 0;
    std::size_t sent = 0;
    TcpFirstMessage answer;
    bool is_over = false;
    Instant due;  ///< of its next turn
    Duration pause{};
    unsigned turns = 0;
    Status why;  ///< it failed last
  };

  void on_event(const run::PollEvent& event) override;
  void on_wake(Instant now) override;
  void start(Place& place);
  Status reach_out(Place& place);
  Status say(Place& place);
  Result<bool> hear(Place& place);
  void reach(Place& place);
  void fail(Place& place, Status why);
  void hang_up(Place& place);
  void sleep_or_end();

  TcpLoop& loop_;
  Caller& caller_;
  const Options options_;
  std::vector<std::unique_ptr<Place>> places_;
};

}  // namespace towpath::net
