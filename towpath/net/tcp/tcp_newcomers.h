// TcpNewcomers: connections that others opened and that have proven nothing so far.
//
// They are bounded in number, by source and altogether; in time; and in bytes: each may say one
// short message, which the listener answers (MessageWorker::answer()) or not, and then it is hung
// up on. Where there are too many, unproven.h says which one goes for a newer one.
//
// Silence is counted from our last answer, and nobody is hung up on whose words have arrived: the
// time that a handshake of TLS takes on this side is nobody else's fault.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <towpath/net/messages/message_worker.h>
#include <towpath/net/tcp/tcp_first_message.h>
#include <towpath/net/tcp/tcp_loop.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/net/unproven.h>
#include <towpath/sys/fd.h>

namespace towpath::net {

class TcpNewcomers final : private TcpSocketOwner, private TcpSleeper {
 public:
  static constexpr std::size_t kMost = 512;  ///< or a quarter of the descriptors that there may be
  static constexpr std::size_t kMostPerSource = 64;
  /// How long one may be silent before it goes for another of its source, and how long at most.
  struct Silence {
    Duration at_least, at_most;
  };
  static constexpr Silence kSaidNothing{std::chrono::milliseconds(100), std::chrono::seconds(5)};
  /// Many that come at once to speak TLS must not put each other out before any of them is through.
  static constexpr Silence kSaidNothingInTls{std::chrono::seconds(2), std::chrono::seconds(5)};
  /// In the midst of a handshake or a message: hosts may be busy.
  static constexpr Silence kSpeaks{std::chrono::seconds(5), std::chrono::seconds(10)};
  /// How often one that speaks is waited for again: a handshake takes two flights, and each may
  /// come in pieces. So nobody stays longer than 45 s.
  static constexpr unsigned kMostPieces = 4;

  struct Options {
    std::size_t first_bytes = 0;                 ///< of a message before anything is proven
    std::shared_ptr<const TlsContext> tls = {};  ///< null: none is spoken
  };
  /// `loop` and `listener` outlive it.
  TcpNewcomers(TcpLoop& loop, MessageListener& listener, Options options);
  ~TcpNewcomers() override;
  TcpNewcomers(const TcpNewcomers&) = delete;
  TcpNewcomers& operator=(const TcpNewcomers&) = delete;

  /// Takes the connection in, and what it has said already; or hangs up.
  void let_in(sys::Fd socket);
  /// The connection whose message is being delivered, from now on the caller's. Null: it is none.
  std::unique_ptr<sys::ByteStream> take(std::uint64_t from);
  std::size_t size() const noexcept { return all_.size(); }

 private:
  struct Newcomer {
    std::unique_ptr<sys::ByteStream> stream;
    Source source;
    std::string where;
    Instant silent_since;
    unsigned pieces = 0;  ///< that have come of what it says
    TcpFirstMessage first;
  };
  using All = std::map<std::uint64_t, Newcomer>;

  void on_event(const run::PollEvent& event) override { hear(event.tag); }
  void on_wake(Instant now) override;
  void hear(std::uint64_t tag);
  Status make_room(const Source& source, Instant now);
  const Silence& allowed_silence(const Newcomer& newcomer) const noexcept;
  void drop(All::iterator newcomer, const Status& why);
  std::unique_ptr<sys::ByteStream> remove(All::iterator newcomer);

  TcpLoop& loop_;
  MessageListener& listener_;
  const Options options_;
  const std::size_t most_;
  All all_;  ///< by tag
  std::uint64_t delivering_ = 0;
};

}  // namespace towpath::net
