// UcxReceives: the receives of a worker, which wait for messages and hand them to its listener.
// Only files of this folder include it.
//
// UCX copies a message out of its segment into the memory that a receive names. These name none:
// they are of a datatype that unpacks by itself (ucp_dt_create_generic), whose callback is shown
// the segment, part for part (ucx_parts.h). Thread: as its worker.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <towpath/net/ucx/ucx_library.h>
#include <towpath/net/ucx/ucx_parts.h>
#include <towpath/net/ucx/ucx_worker.h>

namespace towpath::net {

/// All messages have this tag. Messages with tags, because UCX sends them one way: before the first
/// active message that does not fit in a header it asks for the other's endpoint and waits for the
/// reply, and UCX 1.13 aborts the process when either goes away in between.
inline constexpr ucp_tag_t kUcxTag = 0x7470;  // "tp"
/// All of a tag is examined.
inline constexpr ucp_tag_t kUcxWholeTag = ~ucp_tag_t{0};

class UcxReceives {
 public:
  UcxReceives(const UcxLibrary& ucx, std::size_t message_bytes, MessageListener& listener)
      : ucx_(ucx), message_bytes_(message_bytes), listener_(listener) {}
  ~UcxReceives();
  UcxReceives(const UcxReceives&) = delete;
  UcxReceives& operator=(const UcxReceives&) = delete;

  /// From now on messages arrive. Errors: exhausted.
  Status open(ucp_worker_h worker);
  /// Lets all wait that do not, until enough was done. False: nothing came meanwhile, and there is
  /// nothing to try again.
  bool renew();
  /// Work is counted anew: of one call of the worker's progress().
  void begin_call() noexcept { work_ = 0; }
  /// What came was answered with so many bytes.
  void note_answered(std::uint64_t bytes) noexcept { work_ += bytes; }
  /// Of this call, or the last one, in bytes.
  std::uint64_t work() const noexcept { return work_; }
  /// None waits any more. Before the worker is destroyed.
  void cancel();

  /// One that waits for a message, or has begun to take one.
  struct Receive {
    UcxReceives& owner;
    UcxParts parts;
    void* request = nullptr;  ///< while it waits
  };
  /// What UCX's callbacks gets.
  void on_part(Receive& receive, std::size_t offset, ConstByteSpan part);
  void on_done(Receive& receive, void* request);
  /// The longest that may arrive.
  std::size_t most_bytes() const noexcept { return MessagePrefix::kBytes + message_bytes_; }

 private:
  void add();
  bool post(Receive& receive);
  bool post_idle();
  bool grow_if_starved();

  const UcxLibrary& ucx_;
  const std::size_t message_bytes_;
  MessageListener& listener_;
  ucp_worker_h worker_ = nullptr;
  ucp_datatype_t shown_in_parts_ = 0;
  std::vector<std::unique_ptr<Receive>> all_;
  std::vector<Receive*> idle_;  ///< those of them that do not wait
  std::uint64_t work_ = 0;
};

}  // namespace towpath::net
