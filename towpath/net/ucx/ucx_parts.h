// UcxParts: one message after the other out of the parts in which UCX hands them out.
//
//   part at offset 0: | prefix | head, body ...      the next ones: | bytes ... |
//
// A message that comes in one part, as all do over TCP, is where it came: nothing is copied. The
// parts of another are gathered. A part comes from outside: nothing is believed of it.
// Thread: as its worker.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <towpath/net/ucx/ucx_worker.h>

namespace towpath::net {

class UcxParts {
 public:
  explicit UcxParts(std::size_t message_bytes) noexcept : message_bytes_(message_bytes) {}

  struct Whole {
    ConstByteSpan head;
    ConstByteSpan body;
  };
  /// The message that this part completes, which lives as long as `part` and until the next take().
  /// The part at offset 0 comes first, and begins a message whatever became of the last one. What
  /// does not begin with sizes that can be is handed out as it is, for its reader to refuse.
  std::optional<Whole> take(std::size_t offset, ConstByteSpan part);

 private:
  std::optional<Whole> begin(ConstByteSpan part);
  std::optional<Whole> gather(std::size_t offset, ConstByteSpan part);

  const std::size_t message_bytes_;
  MessagePrefix prefix_;
  std::unique_ptr<MessageBuffer> whole_;  ///< made for the first message that comes in parts
  std::size_t missing_ = 0;               ///< bytes of it that have not come, its prefix with them
};

}  // namespace towpath::net
