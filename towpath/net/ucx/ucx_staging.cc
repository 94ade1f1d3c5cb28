#include <algorithm>
#include <utility>

#include <towpath/core/bytes.h>
#include <towpath/core/format.h>
#include <towpath/net/ucx/ucx_staging.h>

namespace towpath::net {
namespace {

/// A room on its way through UCX.
struct Posted {
  UcxStaging& owner;
  DeviceStagingBuffer& room;
};

// Also of what was too long, and is not from one of us, or was cancelled.
extern "C" void towpath_ucx_staging_filled(void* request, ucs_status_t status,
                                           const ucp_tag_recv_info_t* info, void* user) {
  const std::unique_ptr<Posted> posted(static_cast<Posted*>(user));
  posted->owner.on_filled(request, posted->room, status == UCS_OK ? info->length : 0);
}

}  // namespace

Status UcxStaging::add(DeviceStagingBuffer& room) {
  auto posted = std::make_unique<Posted>(Posted{*this, room});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.memory_type = UCS_MEMORY_TYPE_CUDA;
  param.cb.recv = towpath_ucx_staging_filled;
  param.user_data = posted.get();
  waiting_.push_back({&room, nullptr});
  void* const request =
      ucx_.ucp_tag_recv_nbx(worker_, bytes_at(room.address, room.bytes).data(), room.bytes,
                            ucx_tag(room.device), kUcxWholeTag, &param);
  if (UCS_PTR_IS_ERR(request)) {
    waiting_.pop_back();
    return error(Code::exhausted, cat("UCX does not receive into device ", room.device, ": ",
                                      ucx_.say(UCS_PTR_STATUS(request))));
  }
  (void)posted.release();  // the callback has it now, or had it: a message that had come already
  if (!waiting_.empty() && waiting_.back().room == &room) waiting_.back().request = request;
  return {};
}

// Reported later: the caller that is told gives the room back to us, and the next message may be
// there already.
void UcxStaging::on_filled(void* request, DeviceStagingBuffer& room, std::uint64_t bytes) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.room == &room; });
  filled_.push_back({&room, bytes});
  ucx_.ucp_request_free(request);
}

bool UcxStaging::deliver() {
  if (filled_.empty()) return false;
  for (const Filled& one : std::exchange(filled_, {}))
    listener_.on_staging_filled(*one.room, one.bytes);
  return true;
}

void UcxStaging::cancel() {
  for (const Waiting& one : std::vector(waiting_)) ucx_.ucp_request_cancel(worker_, one.request);
}

}  // namespace towpath::net
