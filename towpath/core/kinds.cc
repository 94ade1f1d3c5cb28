#include <algorithm>
#include <cctype>

#include <towpath/core/memory_kind.h>
#include <towpath/core/transfer_state.h>

namespace towpath {
namespace {

bool is_same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char left, unsigned char right) {
    return std::tolower(left) == std::tolower(right);
  });
}

}  // namespace

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
  for (MemoryKind kind : kMemoryKinds) {
    if (is_same_name(name, name_of(kind))) return kind;
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

std::optional<TransferOp> transfer_op_from_name(std::string_view name) noexcept {
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    if (is_same_name(name, name_of(op))) return op;
  }
  return std::nullopt;
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
