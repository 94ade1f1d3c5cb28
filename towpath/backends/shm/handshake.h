// What two shm backends exchange: the connection info and the keys of memories (parts of a
// metadata), and the hello on a socket. Sealed records by schema: docs/formats/shm.md.
//
// Everything that is read here comes from outside. A value that decodes has possible fields;
// whether they are true is found out where they are used. Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <towpath/backends/shm/host_facts.h>
#include <towpath/backends/shm/registration_table.h>
#include <towpath/core/bytes.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/device/values.h>

namespace towpath::backends::shm {

using SocketToken = std::array<std::uint64_t, 2>;

struct ShmInfo {
  HostFacts host;
  SocketToken socket_token{};
  FileRef registrations;
  FileRef pieces;
  std::optional<FileRef> door = {};  ///< of the mailbox: a socket without a name
  std::uint64_t incarnation = 0;
  std::uint64_t token_address = 0;  ///< of its socket token in its memory; 0: it does not say

  friend bool operator==(const ShmInfo&, const ShmInfo&) = default;
};

/// An extent of a memfd: the bytes of a region, or the begin of them.
struct FileExtent {
  FileRef file;
  std::uint64_t offset = 0;

  friend bool operator==(const FileExtent&, const FileExtent&) = default;
};

/// A device's memory, for that device's driver in another process.
struct DeviceExtent {
  device::ExportedMemory memory;
  std::string pci_address;  ///< of the device; empty: on no PCI bus

  friend bool operator==(const DeviceExtent&, const DeviceExtent&) = default;
};

struct ShmKey {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::optional<FileExtent> shared;    ///< where a sealed memfd holds the bytes, if one does
  std::optional<DeviceExtent> device;  ///< of a device's memory that can be exported
  bool is_read_only = false;

  friend bool operator==(const ShmKey&, const ShmKey&) = default;
};

/// The bytes that a key is of, as the owner's table has to say of them.
RegisteredBytes registered_bytes_of(const ShmKey& key) noexcept;
/// What it has to say of its backend: the process, and the piece table. Of no address, so that no
/// key agrees with it.
RegisteredBytes registered_bytes_of(const ShmInfo& info) noexcept;

/// The first message on a socket.
struct Hello {
  AgentIdentity from;
  std::optional<FileRef> ring;  ///< of the sender (message_ring.h), if it has one

  friend bool operator==(const Hello&, const Hello&) = default;
};

Bytes encode(const ShmInfo& info);
Bytes encode(const ShmKey& key);
/// Errors: out_of_range (a name of more than kMaxAgentName bytes).
Result<Bytes> encode_hello(const Hello& hello);

// Errors: corrupt, unsupported (of a newer version).
Result<ShmInfo> decode_info(ConstByteSpan bytes);
Result<ShmKey> decode_key(ConstByteSpan bytes);
Result<Hello> decode_hello(ConstByteSpan bytes);

/// The abstract address of a backend's socket: no file, gone with its last descriptor.
std::string socket_name(const SocketToken& token);

}  // namespace towpath::backends::shm
