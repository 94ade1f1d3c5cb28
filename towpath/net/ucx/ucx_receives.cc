#include <towpath/net/ucx/ucx_receives.h>

namespace towpath::net {
namespace {

constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};
/// Receives that wait for messages; those that come while all are taken are kept by UCX.
constexpr std::size_t kReceives = 16;

extern "C" void towpath_ucx_arrived(void* request, ucs_status_t status,
                                    const ucp_tag_recv_info_t* info, void* user) {
  auto& receive = *static_cast<UcxReceives::Receive*>(user);
  receive.owner.on_arrived(receive, {request, status, info->length});
}

}  // namespace

void UcxReceives::on_arrived(Receive& receive, const Arrival& arrival) {
  receive.request = nullptr;
  // What is too long is not from one of us; what was cancelled is nothing.
  if (arrival.status == UCS_OK)
    listener_.on_message(receive.buffer.room().first(arrival.size_bytes));
  idle_.push_back(&receive);
  ucx_.ucp_request_free(arrival.request);
}

void UcxReceives::open(ucp_worker_h worker) {
  worker_ = worker;
  for (std::size_t i = 0; i < kReceives; ++i) add();
  post_idle();
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
  all_.push_back(std::make_unique<Receive>(Receive{*this, UcxBuffer(message_bytes_)}));
  idle_.push_back(all_.back().get());
}

// False when UCX has no memory for it.
bool UcxReceives::post(Receive& receive) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.cb.recv = towpath_ucx_arrived;
  param.user_data = &receive;
  const std::size_t idle_before = idle_.size();
  void* const request = ucx_.ucp_tag_recv_nbx(worker_, receive.buffer.bytes.get(),
                                              receive.buffer.capacity, kUcxTag, kWholeTag, &param);
  if (UCS_PTR_IS_ERR(request)) return false;
  // A message that had come already was taken inside of the call.
  if (idle_.size() == idle_before) receive.request = request;
  return true;
}

bool UcxReceives::post_idle() {
  bool some = false;
  while (!idle_.empty()) {
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
  if (!idle_.empty() || ucx_.ucp_tag_probe_nb(worker_, kUcxTag, kWholeTag, 0, &info) == nullptr)
    return false;
  add();
  return post_idle();
}

}  // namespace towpath::net
