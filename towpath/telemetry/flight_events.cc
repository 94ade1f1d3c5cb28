#include <towpath/telemetry/flight_recorder.h>

namespace towpath::telemetry {

std::string_view name_of(FlightEvent event) noexcept {
  switch (event) {
    case FlightEvent::agent_opened: return "agent_opened";
    case FlightEvent::agent_closed: return "agent_closed";
    case FlightEvent::transfer_posted: return "transfer_posted";
    case FlightEvent::transfer_ended: return "transfer_ended";
    case FlightEvent::peer_met: return "peer_met";
    case FlightEvent::peer_lost: return "peer_lost";
    case FlightEvent::registered: return "registered";
    case FlightEvent::deregistered: return "deregistered";
    case FlightEvent::notification_sent: return "notification_sent";
    case FlightEvent::notification_received: return "notification_received";
    case FlightEvent::notification_refused: return "notification_refused";
    case FlightEvent::blocks_found: return "blocks_found";
  }
  return "unknown";
}

std::uint64_t FlightFlow::packed() const noexcept {
  const auto byte = [](auto value, unsigned place) {
    return static_cast<std::uint64_t>(value) << (8 * place);
  };
  return byte(op, 0) | byte(local, 1) | byte(remote, 2) | byte(outcome, 3) | byte(code, 4) |
         byte(backend, 5);
}

FlightFlow FlightFlow::unpacked(std::uint64_t argument) noexcept {
  const auto byte = [argument](unsigned place) {
    return static_cast<std::uint8_t>(argument >> (8 * place));
  };
  return {.op = static_cast<TransferOp>(byte(0)),
          .local = static_cast<MemoryKind>(byte(1)),
          .remote = static_cast<MemoryKind>(byte(2)),
          .outcome = static_cast<Outcome>(byte(3)),
          .code = static_cast<Code>(byte(4)),
          .backend = static_cast<std::uint16_t>(byte(5) | (byte(6) << 8U))};
}

}  // namespace towpath::telemetry
