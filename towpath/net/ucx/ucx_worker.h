// UcxWorker: whole messages between processes and machines over UCX, the one door to libucp.
//
// A worker has an address that others connect() to, and endpoints to others. A message goes out of
// a buffer that the worker lends, and comes in as a span that lives during on_message(): UCX's own
// segment, where the message came in one. What the messages say is others' business; memory of
// users is never given to UCX.
//
//   UcxBuffers::take() -> fill -> UcxEndpoint::send() -> on_message() of the other worker
//
// libucp is opened at run time by its soname, with symbols of its own (RTLD_LOCAL), and stays open;
// a copy that the process has loaded already is the one that is used.
//
// Invariants: on_message() and on_broken() come only from inside progress(). Messages over one
// endpoint usually arrive in order, but UCX does not promise it. An endpoint's destruction is
// abrupt: what was not sent is dropped, and the other side is told by on_broken().
// Thread: one at a time (the worker is made as UCS_THREAD_MODE_SERIALIZED).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/finding.h>
#include <towpath/core/result.h>

namespace towpath::net {

/// What travels before each message: its own length, little-endian. UCX hands a message out in
/// parts and does not tell of how many bytes.
inline constexpr std::size_t kUcxLengthBytes = 8;

/// Room for one message.
struct UcxBuffer {
  explicit UcxBuffer(std::size_t capacity_bytes)
      : bytes(std::make_unique_for_overwrite<std::byte[]>(kUcxLengthBytes + capacity_bytes)),
        capacity(capacity_bytes) {}
  ByteSpan room() noexcept { return {bytes.get() + kUcxLengthBytes, capacity}; }
  ConstByteSpan filled() const noexcept { return {bytes.get() + kUcxLengthBytes, size}; }
  /// The filled bytes behind their length.
  ConstByteSpan with_length() noexcept;

  std::unique_ptr<std::byte[]> bytes;
  std::size_t capacity;
  std::size_t size = 0;  ///< filled bytes, from the begin of room()
};

/// Buffers that were used once are used again. Thread: as its worker.
class UcxBuffers {
 public:
  explicit UcxBuffers(std::size_t message_bytes) : message_bytes_(message_bytes) {}

  std::size_t message_bytes() const noexcept { return message_bytes_; }
  std::unique_ptr<UcxBuffer> take();
  void give_back(std::unique_ptr<UcxBuffer> buffer);

 private:
  static constexpr std::size_t kMaxIdle = 64;

  const std::size_t message_bytes_;
  std::vector<std::unique_ptr<UcxBuffer>> idle_;
};

struct UcxOptions {
  std::string transports;  ///< as UCX_TLS: "tcp,cma"; empty: what UCX chooses
  /// As UCX_NET_DEVICES, which it takes the place of: "eth0"; empty: as that says (ucx_devices.h).
  std::string devices;
  /// The longest message. Each is one segment of a transport where that can be configured (TCP).
  std::size_t message_bytes = 136 * 1024;
  /// Further settings of UCX, named without "UCX_", those of a transport also without its name:
  /// "KEEPALIVE_INTERVAL", "TX_SEG_SIZE". UCX prints a warning about those that it does not know.
  std::map<std::string, std::string> settings;
};

class UcxListener {
 public:
  virtual ~UcxListener() = default;
  virtual void on_message(ConstByteSpan message) = 0;
  /// The endpoint made with this `owner` is of no use any more. Told once; destroy it later, not
  /// from inside.
  virtual void on_broken(void* owner, const Status& why) = 0;
};

class UcxEndpoint {
 public:
  virtual ~UcxEndpoint() = default;
  /// Messages that were handed over and have not left yet.
  virtual std::size_t unsent() const noexcept = 0;
  /// Takes the buffer in any case. Errors: peer_lost, exhausted (out of memory).
  virtual Status send(std::unique_ptr<UcxBuffer> buffer) = 0;
};

class UcxWorker {
 public:
  virtual ~UcxWorker() = default;
  virtual ConstByteSpan address() const noexcept = 0;
  virtual UcxBuffers& buffers() noexcept = 0;
  /// Does not block and need not reach the other yet. `address` should come from a worker: UCX
  /// itself trusts it. Errors: unsupported (no common transport), exhausted.
  virtual Result<std::unique_ptr<UcxEndpoint>> connect(ConstByteSpan address, void* owner) = 0;
  /// Some of what there is to do; false when there was nothing.
  virtual bool progress() = 0;
  /// Asks that fd() becomes readable when progress() has something to do. False: there is already.
  virtual bool arm() = 0;
  virtual int fd() const noexcept = 0;
};

/// `listener` must outlive the worker.
/// Errors: unsupported (built without UCX, libucp not found, no such transport), invalid_argument
/// (a value that UCX does not take, a device that it does not know), exhausted.
Result<std::unique_ptr<UcxWorker>> open_ucx_worker(const UcxOptions& options,
                                                   UcxListener& listener);

/// Whether UCX can be used here, and which.
Finding probe_ucx();

}  // namespace towpath::net
