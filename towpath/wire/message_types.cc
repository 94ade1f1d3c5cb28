#include <towpath/wire/message_types.h>

namespace towpath::wire {

std::string_view name_of(MessageType type) noexcept {
  switch (type) {
    case MessageType::metadata: return "metadata";
    case MessageType::notification: return "notification";
    case MessageType::layout: return "layout";
    case MessageType::block_header: return "block_header";
    case MessageType::peer_hello: return "peer_hello";
    case MessageType::rendezvous_frame: return "rendezvous_frame";
    case MessageType::connection_info: return "connection_info";
    case MessageType::replay_control: return "replay_control";
    case MessageType::memory_key: return "memory_key";
    case MessageType::layout_package: return "layout_package";
    case MessageType::pe_exchange: return "pe_exchange";
    case MessageType::segment_header: return "segment_header";
    case MessageType::block_index: return "block_index";
    case MessageType::step_orders: return "step_orders";
    case MessageType::worker_report: return "worker_report";
    case MessageType::blob_header: return "blob_header";
    case MessageType::block_lease: return "block_lease";
    case MessageType::block_catalogue: return "block_catalogue";
    case MessageType::drive_label: return "drive_label";
    case MessageType::drive_table: return "drive_table";
  }
  return "unknown";
}

}  // namespace towpath::wire
