#include <atomic>

#include <towpath/core/check.h>
#include <towpath/core/status.h>

namespace towpath {

std::string_view name_of(Code code) noexcept {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid_argument";
    case Code::out_of_range: return "out_of_range";
    case Code::not_found: return "not_found";
    case Code::already_exists: return "already_exists";
    case Code::not_ready: return "not_ready";
    case Code::unsupported: return "unsupported";
    case Code::unavailable: return "unavailable";
    case Code::exhausted: return "exhausted";
    case Code::denied: return "denied";
    case Code::timed_out: return "timed_out";
    case Code::cancelled: return "cancelled";
    case Code::peer_lost: return "peer_lost";
    case Code::corrupt: return "corrupt";
    case Code::io_error: return "io_error";
    case Code::no_telemetry: return "no_telemetry";
    case Code::internal: return "internal";
  }
  return "unknown";
}

struct Status::Rep {
  std::atomic<int> references{1};
  Code code;
  std::string message;
  std::string hint;
  Status cause;
  std::source_location where;
};

void Status::hold() const noexcept {
  // Relaxed: a new reference is only made from one that is held already.
  rep_->references.fetch_add(1, std::memory_order_relaxed);
}

void Status::let_go() noexcept {
  // acq_rel: pairs with the other owners' decrements, so the last one sees all their reads done.
  if (rep_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete rep_;
}

Code Status::code() const noexcept { return rep_ == nullptr ? Code::ok : rep_->code; }

std::string_view Status::message() const noexcept {
  return rep_ == nullptr ? std::string_view() : rep_->message;
}

std::string_view Status::hint() const noexcept {
  return rep_ == nullptr ? std::string_view() : rep_->hint;
}

Status Status::cause() const noexcept { return rep_ == nullptr ? Status() : rep_->cause; }

std::source_location Status::where() const noexcept {
  return rep_ == nullptr ? std::source_location() : rep_->where;
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  std::string text(name_of(rep_->code));
  text.append(": ").append(rep_->message);
  if (!rep_->hint.empty()) text.append(" (hint: ").append(rep_->hint).append(")");
  if (!rep_->cause.ok()) text.append(" <- ").append(rep_->cause.to_string());
  return text;
}

Status Status::because(Status cause) && {
  TOWPATH_CHECK(rep_ != nullptr, "an ok status has no cause");
  return Status(new Rep{.code = rep_->code,
                        .message = rep_->message,
                        .hint = rep_->hint,
                        .cause = std::move(cause),
                        .where = rep_->where});
}

bool operator==(const Status& a, const Status& b) noexcept {
  return a.code() == b.code() && a.message() == b.message();
}

Status error(Code code, std::string message, std::string hint, std::source_location where) {
  TOWPATH_CHECK(code != Code::ok, "a failure needs a code");
  return Status(new Status::Rep{.code = code,
                                .message = std::move(message),
                                .hint = std::move(hint),
                                .cause = {},
                                .where = where});
}

}  // namespace towpath
