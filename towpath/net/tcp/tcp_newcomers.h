// TcpNewcomers: connections that others opened and that have proven nothing so far.
//
// They are bounded in number, by source and altogether; in age; and in bytes: each may say one
// short message, which the listener answers (MessageWorker::answer()) or not, and then it is hung
// up on. Where a source has too many, its oldest goes for its newest, and no other source's; and
// not before kMinAge, in which an honest one has sent what it has to send. So nobody puts out a
// newcomer of another host, and hardly one of its own. Thread: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include <towpath/net/messages/message_worker.h>
#include <towpath/net/tcp/tcp_first_message.h>
#include <towpath/net/tcp/tcp_loop.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/sys/fd.h>

namespace towpath::net {

class TcpNewcomers final : private TcpSocketOwner, private TcpSleeper {
 public:
  static constexpr std::size_t kMost = 512;  ///< or a quarter of the descriptors that there may be
  static constexpr std::size_t kMostPerSource = 64;
  static constexpr Duration kMinAge = std::chrono::milliseconds(100);
  /// The same of one that has a TLS handshake to make: many that come at once must not put each
  /// other out before any of them is through.
  static constexpr Duration kMinTlsAge = std::chrono::seconds(1);
  static constexpr Duration kMaxAge = std::chrono::seconds(2);

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
  /// An address of IPv4, or 64 bits of one of IPv6: who has one of those has all.
  using Source = std::array<std::byte, 16>;
  struct Newcomer {
    std::unique_ptr<sys::ByteStream> stream;
    Source source;
    std::string where;
    Instant since;
    TcpFirstMessage first;
  };
  using All = std::map<std::uint64_t, Newcomer>;

  void on_event(const run::PollEvent& event) override { hear(event.tag); }
  void on_wake(Instant now) override;
  void hear(std::uint64_t tag);
  Status make_room(const Source& source, Instant now);
  Status displace(std::uint64_t tag, Instant now);
  void drop(All::iterator newcomer, const Status& why);
  std::unique_ptr<sys::ByteStream> remove(All::iterator newcomer);
  void set_alarm();

  TcpLoop& loop_;
  MessageListener& listener_;
  const Options options_;
  const std::size_t most_;
  All all_;  ///< by tag, the oldest first
  std::map<Source, std::set<std::uint64_t>> by_source_;
  std::uint64_t delivering_ = 0;
};

}  // namespace towpath::net
