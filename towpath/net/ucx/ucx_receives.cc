#include <towpath/core/format.h>
#include <towpath/net/ucx/ucx_receives.h>

namespace towpath::net {
namespace {

/// Receives that wait for messages; those that come while all are taken are kept by UCX.
constexpr std::size_t kReceives = 16;
/// Of one call, bytes that came and bytes of answers: then what UCX keeps waits for the next. A
/// request of a hundred bytes may ask for half a million.
constexpr std::uint64_t kWorkPerCall = 1024 * 1024;
/// What a message is worth in bytes beside its own.
constexpr std::uint64_t kWorkPerMessage = 4096;

UcxReceives::Receive& receive_of(void* state) { return *static_cast<UcxReceives::Receive*>(state); }

extern "C" void* towpath_ucx_begin(void*, void* receive, std::size_t) { return receive; }

extern "C" std::size_t towpath_ucx_most_bytes(void* state) {
  return receive_of(state).owner.most_bytes();
}

extern "C" ucs_status_t towpath_ucx_part(void* state, std::size_t offset, const void* from,
                                         std::size_t length) {
  UcxReceives::Receive& receive = receive_of(state);
  receive.owner.on_part(receive, offset, {static_cast<const std::byte*>(from), length});
  return UCS_OK;
}

extern "C" void towpath_ucx_end(void*) {}

// Also of what was too long, and is not from one of us, or was cancelled.
extern "C" void towpath_ucx_done(void* request, ucs_status_t, const ucp_tag_recv_info_t*,
                                 void* user) {
  UcxReceives::Receive& receive = receive_of(user);
  receive.owner.on_done(receive, request);
}

constexpr ucp_generic_dt_ops_t kShownInParts{.start_pack = nullptr,
                                             .start_unpack = towpath_ucx_begin,
                                             .packed_size = towpath_ucx_most_bytes,
                                             .pack = nullptr,
                                             .unpack = towpath_ucx_part,
                                             .finish = towpath_ucx_end};

}  // namespace

// ---- Messages

void UcxReceives::on_part(Receive& receive, std::size_t offset, ConstByteSpan part) {
  work_ += part.size();
  if (const auto whole = receive.parts.take(offset, part))
    deliver({.head = whole->head, .body_bytes = whole->body.size()}, whole->body, listener_);
}

void UcxReceives::on_done(Receive& receive, void* request) {
  receive.request = nullptr;
  work_ += kWorkPerMessage;
  idle_.push_back(&receive);
  ucx_.ucp_request_free(request);
}

// ---- Receives

Status UcxReceives::open(ucp_worker_h worker) {
  const ucs_status_t made = ucx_.ucp_dt_create_generic(&kShownInParts, nullptr, &shown_in_parts_);
  if (made != UCS_OK) return error(Code::exhausted, cat("UCX makes no datatype: ", ucx_.say(made)));
  worker_ = worker;
  for (std::size_t i = 0; i < kReceives; ++i) add();
  post_idle();
  return {};
}

UcxReceives::~UcxReceives() {
  if (worker_ != nullptr) ucx_.ucp_dt_destroy(shown_in_parts_);
}

void UcxReceives::cancel() {
  for (const auto& receive : all_) {
    if (receive->request != nullptr) ucx_.ucp_request_cancel(worker_, receive->request);
  }
}

bool UcxReceives::renew() {
  const bool some = post_idle();
  return grow_if_starved() || some;
}

void UcxReceives::add() {
  all_.push_back(std::make_unique<Receive>(Receive{*this, UcxParts(message_bytes_)}));
  idle_.push_back(all_.back().get());
}

// False when UCX has no memory for it.
bool UcxReceives::post(Receive& receive) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.datatype = shown_in_parts_;
  param.cb.recv = towpath_ucx_done;
  param.user_data = &receive;
  const std::size_t idle_before = idle_.size();
  void* const request = ucx_.ucp_tag_recv_nbx(worker_, &receive, 1, kUcxTag, kUcxWholeTag, &param);
  if (UCS_PTR_IS_ERR(request)) return false;
  // A message that had come already was taken inside of the call.
  if (idle_.size() == idle_before) receive.request = request;
  return true;
}

bool UcxReceives::post_idle() {
  bool some = false;
  while (!idle_.empty()) {
    if (work_ >= kWorkPerCall) return true;
    Receive& receive = *idle_.back();
    idle_.pop_back();
    if (!post(receive)) {
      idle_.push_back(&receive);
      return true;
    }
    some |= receive.request == nullptr;
  }
  return some;
}

// A peer that dies in the midst of a message keeps the receive that it had begun to fill. If all
// are gone this way, messages would wait for ever: then there is one more.
bool UcxReceives::grow_if_starved() {
  ucp_tag_recv_info_t info{};
  if (!idle_.empty() || ucx_.ucp_tag_probe_nb(worker_, kUcxTag, kUcxWholeTag, 0, &info) == nullptr)
    return false;
  add();
  return post_idle();
}

}  // namespace towpath::net
