#include <algorithm>
#include <cctype>

#include <towpath/core/memory_kind.h>
#include <towpath/core/transfer_state.h>

namespace towpath {

std::string_view name_of(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::system: return "system";
    case MemoryKind::pinned: return "pinned";
    case MemoryKind::device: return "device";
    case MemoryKind::disk: return "disk";
    case MemoryKind::object: return "object";
    case MemoryKind::block: return "block";
  }
  return "unknown";
}

std::optional<MemoryKind> memory_kind_from_name(std::string_view name) noexcept {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  for (MemoryKind kind : kMemoryKinds) {
    if (std::ranges::equal(name, name_of(kind), same)) return kind;
  }
  return std::nullopt;
}

std::optional<MemoryKind> memory_kind_from_number(std::uint64_t number) noexcept {
  if (number >= kMemoryKinds.size()) return std::nullopt;
  return static_cast<MemoryKind>(number);
}

std::string_view name_of(TransferOp op) noexcept {
  return op == TransferOp::read ? "read" : "write";
}

std::string_view name_of(TransferState state) noexcept {
  switch (state) {
    case TransferState::prepared: return "prepared";
    case TransferState::active: return "active";
    case TransferState::draining: return "draining";
    case TransferState::ended: return "ended";
  }
  return "unknown";
}

std::string_view name_of(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::none: return "none";
    case Outcome::done: return "done";
    case Outcome::failed: return "failed";
    case Outcome::cancelled: return "cancelled";
    case Outcome::timed_out: return "timed_out";
    case Outcome::peer_lost: return "peer_lost";
  }
  return "unknown";
}

}  // namespace towpath
