#include <cstring>
#include <limits>

#include <sys/uio.h>

#include <towpath/core/format.h>
#include <towpath/sys/uring_state.h>

namespace towpath::sys {
namespace {

using internal::kOwnId;
using internal::RingState;

static_assert(sizeof(IoPart) == sizeof(iovec) &&
              offsetof(IoPart, size_bytes) == offsetof(iovec, iov_len));

constexpr std::size_t kMaxParts = 1024;  // UIO_MAXIOV

/// One operation as the kernel wants it, but for what is particular to its kind.
struct Operation {
  std::uint8_t opcode;
  std::uint64_t id;
  RingFile file;
  const void* data = nullptr;
  std::size_t length = 0;
  std::uint64_t offset = 0;
  int buffer = -1;
};

Status check(const RingState& state, const Operation& operation) {
  if (operation.id == kOwnId)
    return error(Code::invalid_argument, cat("id ", operation.id, " is the ring's own"),
                 "use any other id");
  if (operation.length > std::numeric_limits<std::uint32_t>::max())
    return error(
        Code::invalid_argument,
        cat("one operation of ", operation.length, " bytes; the kernel counts to 2^32 - 1"),
        "split it");
  if (operation.buffer > std::numeric_limits<std::uint16_t>::max())
    return error(Code::invalid_argument, cat("registered buffer ", operation.buffer));
  if (state.in_flight + state.own_in_flight >= state.depth)
    return error(Code::exhausted,
                 cat(state.in_flight, " operations are in flight, the depth is ", state.depth),
                 "poll completions, then try again");
  return {};
}

Result<io_uring_sqe*> prepare(RingState& state, const Operation& operation) {
  TOWPATH_TRY(check(state, operation));
  io_uring_sqe* slot = state.next_slot();
  if (slot == nullptr)
    return error(Code::exhausted,
                 cat("all ", state.options.entries, " submissions are prepared and wait"),
                 "submit, then try again");
  slot->opcode = operation.opcode;
  slot->fd = operation.file.number;
  if (operation.file.registered) slot->flags |= IOSQE_FIXED_FILE;
  slot->addr = address_of(operation.data);
  slot->len = static_cast<std::uint32_t>(operation.length);
  slot->off = operation.offset;
  if (operation.buffer >= 0) slot->buf_index = static_cast<std::uint16_t>(operation.buffer);
  slot->user_data = operation.id;
  ++state.in_flight;
  return slot;
}

Status prepare_vector(RingState& state, std::uint8_t opcode, std::uint64_t id,
                      const RingVector& request) {
  if (request.parts.size() > kMaxParts)
    return error(Code::invalid_argument,
                 cat(request.parts.size(), " parts in one operation, at most ", kMaxParts),
                 "split it");
  return prepare(state, {.opcode = opcode,
                         .id = id,
                         .file = request.file,
                         .data = request.parts.data(),
                         .length = request.parts.size(),
                         .offset = request.offset})
      .status();
}

}  // namespace

Status Ring::nop(std::uint64_t id) {
  return prepare(*state_, {.opcode = IORING_OP_NOP, .id = id}).status();
}

Status Ring::read(std::uint64_t id, const RingRead& request) {
  const bool fixed = request.buffer >= 0;
  return prepare(*state_, {.opcode = static_cast<std::uint8_t>(fixed ? IORING_OP_READ_FIXED
                                                                     : IORING_OP_READ),
                           .id = id,
                           .file = request.file,
                           .data = request.into.data(),
                           .length = request.into.size(),
                           .offset = request.offset,
                           .buffer = request.buffer})
      .status();
}

Status Ring::write(std::uint64_t id, const RingWrite& request) {
  const bool fixed = request.buffer >= 0;
  return prepare(*state_, {.opcode = static_cast<std::uint8_t>(fixed ? IORING_OP_WRITE_FIXED
                                                                     : IORING_OP_WRITE),
                           .id = id,
                           .file = request.file,
                           .data = request.from.data(),
                           .length = request.from.size(),
                           .offset = request.offset,
                           .buffer = request.buffer})
      .status();
}

Status Ring::read_vector(std::uint64_t id, const RingVector& request) {
  return prepare_vector(*state_, IORING_OP_READV, id, request);
}

Status Ring::write_vector(std::uint64_t id, const RingVector& request) {
  return prepare_vector(*state_, IORING_OP_WRITEV, id, request);
}

Status Ring::sync(std::uint64_t id, RingFile file) {
  TOWPATH_TRY(io_uring_sqe * slot,
              prepare(*state_, {.opcode = IORING_OP_FSYNC, .id = id, .file = file}));
  slot->fsync_flags = IORING_FSYNC_DATASYNC;
  return {};
}

Status Ring::command(std::uint64_t id, const RingCommand& request) {
  if (!state_->options.sqe128)
    return error(Code::unsupported, "a command needs a ring of 128-byte submissions",
                 "open the ring with sqe128");
  TOWPATH_TRY(io_uring_sqe * slot, prepare(*state_, {.opcode = IORING_OP_URING_CMD,
                                                     .id = id,
                                                     .file = request.file,
                                                     .buffer = request.buffer}));
  slot->cmd_op = request.operation;
  if (request.buffer >= 0) slot->uring_cmd_flags = 1;  // IORING_URING_CMD_FIXED, Linux 6.2
  std::memcpy(slot->cmd, request.area.data(), request.area.size());
  return {};
}

}  // namespace towpath::sys
