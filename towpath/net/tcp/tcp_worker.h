// Messages over TCP, by sockets alone: bodies go from the memory of one side to the kernel and from
// the kernel to the memory of the other, and are copied nowhere else.
//
// A worker listens at one port of all its addresses. A connection carries messages both ways:
//
//   endpoint --connect--> listener     the addresses in turn; the first over which comes an answer
//            --first message-->        that the dialler's side accepts is taken
//            <--answer--               only if the listener's side has one to give
//            <--messages--> both ways, once each side has admitted the other
//
// What a first message and an answer prove is others' business (net/session); who proves nothing
// costs a descriptor for some seconds, and never that of another host (tcp_newcomers.h).
//
// docs/formats/tcp_stream.md has the bytes. That a process ended is known from the kernel; a cut
// link is silence, which others must notice.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/finding.h>
#include <towpath/core/identity.h>
#include <towpath/net/messages/message_worker.h>
#include <towpath/net/tls/tls_certificates.h>

namespace towpath::net {

struct TcpOptions {
  /// Network interfaces by which others may come, as "eth0"; empty: all, and the loopback.
  std::vector<std::string> devices;
  std::size_t head_bytes = 16 * 1024;  ///< of a message, at most
  std::size_t body_bytes = 1024 * 1024;
  /// Of a message of a side that has not proven itself: it says its name.
  std::size_t first_bytes = 4096 + kMaxAgentName;
  /// Whether all bytes travel in TLS 1.3, by a key that the address has in it. Peers that do not
  /// speak it are refused; a dialler of one that does speaks it too.
  bool tls = false;
  /// Of TLS: instead of that key both sides show certificates, which name the addresses that are
  /// dialled. Peers without are refused. Empty: by the key.
  TlsCertificates certificates = {};
  /// Whether the kernel makes and opens the records of TLS, this side's and those of ports that it
  /// dials. Errors: unsupported (it cannot).
  bool kernel_tls = false;
};

/// `listener` and `clock`, which is the kernel's, must outlive the worker.
/// Errors: not_found (a device that is none, or has no address), invalid_argument (certificates
/// that cannot be used), exhausted, denied, unsupported (kernel TLS).
Result<std::unique_ptr<MessageWorker>> open_tcp_worker(const TcpOptions& options,
                                                       MessageListener& listener,
                                                       const Clock& clock);

/// Where others could reach this machine.
Finding probe_tcp();

}  // namespace towpath::net
