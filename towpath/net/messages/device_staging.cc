#include <towpath/net/messages/message_worker.h>

namespace towpath::net {
namespace {

Status no_devices() {
  return error(Code::unsupported, "this carrier takes no messages in the memory of a device");
}

}  // namespace

Status MessageEndpoint::send_room(DeviceStagingBuffer&, std::uint64_t, std::uint64_t,
                                  std::optional<unsigned>) {
  return no_devices();
}

Status MessageWorker::receive_into(DeviceStagingBuffer&) { return no_devices(); }

Result<std::unique_ptr<MessageEndpoint>> MessageWorker::answer(std::uint64_t, void*) {
  return error(Code::unsupported, "this carrier has no connections to answer over");
}

}  // namespace towpath::net
