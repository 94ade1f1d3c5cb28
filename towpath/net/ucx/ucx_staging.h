// UcxStaging: rooms in the memory of devices that wait for messages, each into a device of ours.
// Only files of this folder include it.
//
// UCX itself brings the bytes there, by a network adapter that writes to the device where it can,
// else by copies of its own. It takes the whole room, so nothing of a user's is in its hands.
// Thread: as its worker.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <towpath/net/ucx/ucx_library.h>
#include <towpath/net/ucx/ucx_receives.h>

namespace towpath::net {

/// Of messages into the receiver's host memory, or into this device of his.
constexpr ucp_tag_t ucx_tag(std::optional<unsigned> into) {
  return into ? kUcxTag | (ucp_tag_t{*into} + 1) << 32U : kUcxTag;
}

class UcxStaging {
 public:
  UcxStaging(const UcxLibrary& ucx, MessageListener& listener) : ucx_(ucx), listener_(listener) {}
  UcxStaging(const UcxStaging&) = delete;
  UcxStaging& operator=(const UcxStaging&) = delete;

  void open(ucp_worker_h worker) noexcept { worker_ = worker; }
  /// Errors: exhausted.
  Status add(DeviceStagingBuffer& room);
  /// Whether the listener is to be notified of some.
  bool has_filled() const noexcept { return !filled_.empty(); }
  /// Reports it. False: of none.
  bool deliver();
  /// None waits any more. Before the worker is destroyed; the listener is not notified.
  void cancel();

  /// What UCX's callback gets.
  void on_filled(void* request, DeviceStagingBuffer& room, std::uint64_t bytes);

 private:
  struct Waiting {
    DeviceStagingBuffer* room;
    void* request;
  };
  struct Filled {
    DeviceStagingBuffer* room;
    std::uint64_t bytes;
  };

  const UcxLibrary& ucx_;
  MessageListener& listener_;
  ucp_worker_h worker_ = nullptr;
  std::vector<Waiting> waiting_;
  std::vector<Filled> filled_;
};

}  // namespace towpath::net
