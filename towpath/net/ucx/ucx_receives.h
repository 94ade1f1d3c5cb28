// UcxReceives: the receives of a worker, which wait for messages and hand them to its listener.
// Only files of this folder include it. Thread: as its worker.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <towpath/net/ucx/ucx_library.h>
#include <towpath/net/ucx/ucx_worker.h>

namespace towpath::net {

/// All messages have this tag. Messages with tags, because UCX sends them one way: before the first
/// active message that does not fit in a header it asks for the other's endpoint and waits for the
/// reply, and UCX 1.13 aborts the process when either goes away in between.
inline constexpr ucp_tag_t kUcxTag = 0x7470;  // "tp"

class UcxReceives {
 public:
  UcxReceives(const UcxLibrary& ucx, std::size_t message_bytes, UcxListener& listener)
      : ucx_(ucx), message_bytes_(message_bytes), listener_(listener) {}
  UcxReceives(const UcxReceives&) = delete;
  UcxReceives& operator=(const UcxReceives&) = delete;

  /// From now on messages arrive.
  void open(ucp_worker_h worker);
  /// Lets all wait that do not. False: nothing came meanwhile, and there is nothing to try again.
  bool renew();
  /// None waits any more. Before the worker is destroyed.
  void cancel();

  /// Room where UCX may place a message.
  struct Receive {
    UcxReceives& owner;
    UcxBuffer buffer;
    void* request = nullptr;  ///< while it waits
  };
  /// What UCX's callback is told.
  struct Arrival {
    void* request;
    ucs_status_t status;
    std::size_t size_bytes;
  };
  void on_arrived(Receive& receive, const Arrival& arrival);

 private:
  void add();
  bool post(Receive& receive);
  bool post_idle();
  bool grow_if_starved();

  const UcxLibrary& ucx_;
  const std::size_t message_bytes_;
  UcxListener& listener_;
  ucp_worker_h worker_ = nullptr;
  std::vector<std::unique_ptr<Receive>> all_;
  std::vector<Receive*> idle_;  ///< those of them that do not wait
};

}  // namespace towpath::net
