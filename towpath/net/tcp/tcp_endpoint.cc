#include <new>
#include <utility>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_endpoint.h>
#include <towpath/net/unproven.h>

namespace towpath::net {
namespace {

/// So that a connection whose other end is gone without a word is not kept indefinitely.
void keep_alive(int fd) {
  const int yes = 1;
  const int idle_s = 60;
  (void)::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
}

/// Whether the other side's kernel has all that was written. Source: SIOCOUTQ, tcp(7).
bool is_acknowledged(int fd) noexcept {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) != 0 || bytes == 0;
}

}  // namespace

TcpEndpoint::~TcpEndpoint() { hang_up(); }

// ---- Opening

Status TcpEndpoint::dial(const std::vector<Endpoint>& endpoints, Bytes first,
                         std::shared_ptr<const TlsContext> tls) {
  dialler_ =
      std::make_unique<TcpDialler>(context_.loop, static_cast<TcpDialler::Caller&>(*this),
                                   TcpDialler::Options{.first = std::move(first),
                                                       .max_answer_bytes = context_.first_bytes,
                                                       .tls = std::move(tls)});
  return dialler_->dial(endpoints);
}

Status TcpEndpoint::accept(std::unique_ptr<sys::ByteStream> stream, std::uint64_t from) {
  from_ = from;
  host_ = as_text(host_of(source_of(peer_of(stream->fd()))));
  return take_over(std::move(stream));
}

Status TcpEndpoint::take_over(std::unique_ptr<sys::ByteStream> stream) {
  TOWPATH_TRY(tag_, context_.loop.add(stream->fd(), *this));
  keep_alive(stream->fd());
  stream_ = std::move(stream);
  note_rest();
  return {};
}

void TcpEndpoint::on_reached(std::unique_ptr<sys::ByteStream> stream) {
  dialler_.reset();
  path_ = to_string(to_address(peer_of(stream->fd())));  // as TcpWorker::paths() has it
  if (const Status open = take_over(std::move(stream)); !open.ok()) return breaks(open);
  admit();
  leave();
  watch_room();
}

void TcpEndpoint::admit() {
  if (stream_ && !receiver_) receiver_.emplace(*stream_, from_, context_.limits, context_.listener);
}

// ---- Events

void TcpEndpoint::on_event(const run::PollEvent& event) {
  if (event.writable) leave();
  Status went;
  if (event.readable || event.broken || !unsendable_.ok()) went = hear();
  if (!unsendable_.ok() && (!went.ok() || !has_more())) went = unsendable_;
  if (!went.ok()) return breaks(went);
  note_rest();
  watch_room();
}

void TcpEndpoint::leave() {
  if (!unsendable_.ok()) return;
  const std::uint64_t before = sender_.left_bytes();
  note_unsendable(sender_.leave_all(*stream_));
  context_.loop.note_work(sender_.left_bytes() - before);
}

// It breaks in the next turns, when what has come was heard.
void TcpEndpoint::note_unsendable(Status why) {
  if (why.ok()) return;
  unsendable_ = std::move(why);
  context_.loop.note_rest(tag_);
}

// A kernel that decrypts does not count (FIONREAD) what it holds of a record that was read in part.
bool TcpEndpoint::has_more() const noexcept {
  return (receiver_ && (receiver_->has_rest() || receiver_->has_done_enough())) ||
         stream_->buffered_bytes() > 0 || has_input(stream_->fd());
}

void TcpEndpoint::note_rest() {
  if (!stream_) return;
  const bool has_rest = receiver_ ? receiver_->has_rest() : stream_->buffered_bytes() > 0;
  if (has_rest || !unsendable_.ok()) context_.loop.note_rest(tag_);
}

Status TcpEndpoint::hear() {
  if (receiver_) {
    Status taken = receiver_->take();
    context_.loop.note_work(receiver_->work());
    return taken;
  }
  TOWPATH_TRY(const bool is_whole, first_.read(*stream_));
  if (!is_whole) return {};
  const TcpFirstMessage first = std::exchange(first_, TcpFirstMessage(context_.first_bytes));
  deliver({.head = first.head(), .body_bytes = first.body().size(), .from = from_}, first.body(),
          context_.listener);
  return receiver_ ? Status() : error(Code::denied, "the other side has not proven itself");
}

void TcpEndpoint::watch_room() {
  const bool wants = !sender_.is_empty() && unsendable_.ok();
  if (wants_writable_ == wants || !stream_) return;
  wants_writable_ = wants;
  context_.loop.want_writable(stream_->fd(), tag_, wants_writable_);
}

void TcpEndpoint::hang_up() {
  receiver_.reset();
  if (stream_) context_.loop.remove(stream_->fd(), std::exchange(tag_, 0));
  stream_.reset();
}

void TcpEndpoint::breaks(const Status& why) {
  if (std::exchange(is_broken_, true)) return;
  hang_up();
  context_.listener.on_broken(
      owner_, error(Code::peer_lost, std::string(why.message()), std::string(why.hint())));
}

// ---- Messages

// A socket that is closed with input unread, or to which something comes afterwards, sends no more
// of what it has (RFC 1122, 4.2.2.13). What the other side's kernel has, its reader gets.
bool TcpEndpoint::has_arrived() const noexcept {
  if (is_broken_ || !unsendable_.ok()) return true;
  return sender_.unsent() == 0 && (!stream_ || is_acknowledged(stream_->fd()));
}

Status TcpEndpoint::send(std::unique_ptr<MessageBuffer> buffer, BodySource* rest,
                         std::uint64_t rest_bytes, std::optional<unsigned>) {
  if (is_broken_) {
    sender_.drop(std::move(buffer), rest);
    return error(Code::peer_lost, "the connection is broken");
  }
  if (!unsendable_.ok()) {  // on_broken() comes
    sender_.drop(std::move(buffer), rest);
    return {};
  }
  if (receiver_) receiver_->note_answered(buffer->size + rest_bytes);
  Status sent = sender_.send(stream_.get(), std::move(buffer), rest, rest_bytes);
  if (sent.code() == Code::exhausted) return sent;
  note_unsendable(std::move(sent));
  watch_room();
  return {};
}

void TcpEndpoint::copy(BodySource& rest) noexcept {
  try {
    note_unsendable(sender_.copy(rest));
  } catch (const std::bad_alloc&) {  // it breaks with the next event
  }
}

}  // namespace towpath::net
