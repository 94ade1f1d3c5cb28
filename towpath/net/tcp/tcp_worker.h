// Messages over TCP, by sockets alone: bodies go from the memory of one side to the kernel and from
// the kernel to the memory of the other, and are copied nowhere else.
//
// A worker listens at one port of all its addresses. Whoever connects shows the secret of the
// worker's address first (tcp_address.h); who does not know it is not heard, and costs a descriptor
// at most. An endpoint is a connection that its side has opened, and only that side sends over it:
//
//   endpoint --connect--> listener        all addresses at once; the first that answers is taken
//            <--greeting-- who I am       so that the secret goes to nobody else
//            --secret-->
//            --messages-->
//
// docs/formats/tcp_stream.md has the bytes. A lost connection is told: by the kernel when the other
// process ends; a cut link is silence, which others must notice.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <towpath/core/finding.h>
#include <towpath/net/messages/message_worker.h>

namespace towpath::net {

struct TcpOptions {
  /// Network interfaces by which others may come, as "eth0"; empty: all, and the loopback.
  std::vector<std::string> devices;
  std::size_t head_bytes = 16 * 1024;  ///< of a message, at most
  std::size_t body_bytes = 1024 * 1024;
};

/// `listener` must outlive the worker.
/// Errors: not_found (a device that is none, or has no address), exhausted, denied.
Result<std::unique_ptr<MessageWorker>> open_tcp_worker(const TcpOptions& options,
                                                       MessageListener& listener);

/// Where others could reach this machine.
Finding probe_tcp();

}  // namespace towpath::net
