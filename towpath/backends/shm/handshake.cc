#include <algorithm>

#include <towpath/backend/sealed_record.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::backends::shm {
namespace {

using namespace backend;
using namespace wire;

// docs/formats/shm.md
constexpr Tag kDescriptor = required(1), kDevice = required(2), kInode = required(3);
constexpr FieldRule kFileRules[] = {
    {kDescriptor, "descriptor", Kind::number, kOne, kMaxFd - 1},
    {kDevice, "device", Kind::number, kOne},
    {kInode, "inode", Kind::number, kOne},
};
constexpr Schema kFileSchema("file", kFileRules);
constexpr std::uint64_t kMaxFileBytes = 128;

constexpr Tag kBootId = required(1), kPid = required(2), kStartTime = required(3),
              kPidNamespace = required(4), kNetworkNamespace = required(5), kUid = required(6);
constexpr FieldRule kHostRules[] = {
    {kBootId, "boot id", Kind::bytes, kOne, sizeof HostFacts::boot_id},
    {kPid, "pid", Kind::number, kOne, kMaxPid},
    {kStartTime, "start time", Kind::number, kOne},
    {kPidNamespace, "pid namespace", Kind::number, kOne},
    {kNetworkNamespace, "network namespace", Kind::number, kOne},
    {kUid, "uid", Kind::number, kOne, UINT32_MAX},
};
constexpr Schema kHostSchema("host", kHostRules);
constexpr std::uint64_t kMaxHostBytes = 256;

constexpr Tag kHost = required(1), kSocketToken = required(2), kRegistrationTable = required(3),
              kInfoIncarnation = required(4), kPieces = required(5), kTokenAddress = optional(6),
              kDoor = optional(7);
constexpr FieldRule kInfoRules[] = {
    {kHost, "host", Kind::nested, kOne, kMaxHostBytes, &kHostSchema},
    {kSocketToken, "socket token", Kind::number, {2, 2}},
    {kRegistrationTable, "registration table", Kind::nested, kOne, kMaxFileBytes, &kFileSchema},
    {kInfoIncarnation, "incarnation", Kind::number, kOne},
    {kPieces, "pieces", Kind::nested, kOne, kMaxFileBytes, &kFileSchema},
    {kTokenAddress, "token address", Kind::number, kAtMostOne},
    {kDoor, "door", Kind::nested, kAtMostOne, kMaxFileBytes, &kFileSchema},
};
constexpr Schema kInfoSchema("shm connection info", kInfoRules);
// Peers of version 1 do not say which piece they are in: release() could not wait for them.
constexpr RecordForm kInfoForm{{MessageType::connection_info, 2}, kInfoSchema, 2};

constexpr Tag kHandle = required(1), kExtentOffset = required(2), kExtentSize = required(3),
              kPci = required(4);
constexpr std::uint64_t kMaxPciBytes = 32;
constexpr FieldRule kDeviceRules[] = {
    {kHandle, "handle", Kind::bytes, kOne, sizeof device::IpcHandle::bytes},
    {kExtentOffset, "offset", Kind::number, kOne},
    {kExtentSize, "size", Kind::number, kOne},
    {kPci, "PCI address", Kind::bytes, kOne, kMaxPciBytes},
};
constexpr Schema kDeviceSchema("device memory", kDeviceRules);
constexpr std::uint64_t kMaxDeviceBytes = 256;

constexpr Tag kAddress = required(1), kLength = required(2), kSlot = required(3),
              kGeneration = required(4), kFile = required(5), kOffset = required(6),
              kDeviceMemory = required(7), kReadOnly = optional(8);
constexpr FieldRule kKeyRules[] = {
    {kAddress, "address", Kind::number, kOne},
    {kLength, "length", Kind::number, kOne},
    {kSlot, "slot", Kind::number, kOne, UINT32_MAX},
    {kGeneration, "generation", Kind::number, kOne, UINT32_MAX},
    {kFile, "file", Kind::nested, kAtMostOne, kMaxFileBytes, &kFileSchema},
    {kOffset, "offset", Kind::number, kAtMostOne},
    {kDeviceMemory, "device memory", Kind::nested, kAtMostOne, kMaxDeviceBytes, &kDeviceSchema},
    {kReadOnly, "read-only", Kind::number, kAtMostOne, 1},
};
constexpr Schema kKeySchema("shm memory key", kKeyRules);
constexpr RecordForm kKeyForm{{MessageType::memory_key, 1}, kKeySchema};

constexpr Tag kIncarnation = required(1), kName = required(2), kRing = optional(3);
constexpr FieldRule kHelloRules[] = {
    {kIncarnation, "incarnation", Kind::number, kOne},
    {kName, "name", Kind::bytes, kOne, kMaxAgentName},
    {kRing, "ring", Kind::nested, kAtMostOne, kMaxFileBytes, &kFileSchema},
};
constexpr Schema kHelloSchema("shm hello", kHelloRules);
constexpr RecordForm kHelloForm{
    {MessageType::peer_hello, 1}, kHelloSchema, 1, kMaxRecordBytes + kMaxAgentName};

// ---- Files and hosts

void put_file(Encoder& out, Tag tag, const FileRef& file) {
  out.put_nested(tag, [&](Encoder& inner) {
    inner.put_number(kDescriptor, static_cast<std::uint64_t>(file.fd));
    inner.put_number(kDevice, file.device);
    inner.put_number(kInode, file.inode);
  });
}

Status take_file(const Field& outer, FileRef& file) {
  return wire::decode(outer.nested(), [&](const Field& field) -> Status {
    if (field.tag() == kDescriptor) file.fd = static_cast<std::int32_t>(field.number());
    if (field.tag() == kDevice) file.device = field.number();
    if (field.tag() == kInode) file.inode = field.number();
    return {};
  });
}

void put_device(Encoder& out, const DeviceExtent& what) {
  out.put_nested(kDeviceMemory, [&](Encoder& inner) {
    inner.put_bytes(kHandle, what.memory.handle.bytes);
    inner.put_number(kExtentOffset, what.memory.offset);
    inner.put_number(kExtentSize, what.memory.size_bytes);
    inner.put_text(kPci, what.pci_address);
  });
}

Status take_device_field(const Field& field, DeviceExtent& what) {
  switch (field.tag()) {
    case kHandle: {
      auto& bytes = what.memory.handle.bytes;
      if (field.bytes().size() != bytes.size()) return field.refuse("no handle");
      std::ranges::copy(field.bytes(), bytes.begin());
      return {};
    }
    case kExtentOffset: what.memory.offset = field.number(); return {};
    case kExtentSize: what.memory.size_bytes = field.number(); return {};
    default: what.pci_address = field.text(); return {};
  }
}

void put_host(Encoder& out, const HostFacts& host) {
  out.put_nested(kHost, [&](Encoder& inner) {
    inner.put_text(kBootId, {host.boot_id.data(), host.boot_id.size()});
    inner.put_number(kPid, host.pid);
    inner.put_number(kStartTime, host.start_time);
    inner.put_number(kPidNamespace, host.pid_namespace);
    inner.put_number(kNetworkNamespace, host.network_namespace);
    inner.put_number(kUid, host.uid);
  });
}

Status take_host_field(const Field& field, HostFacts& host) {
  switch (field.tag()) {
    case kBootId:
      if (field.text().size() != host.boot_id.size()) return field.refuse("no boot id");
      std::ranges::copy(field.text(), host.boot_id.begin());
      return {};
    case kPid:
      host.pid = static_cast<std::uint32_t>(field.number());
      return host.pid != 0 ? Status() : field.refuse("no process id");
    case kStartTime: host.start_time = field.number(); return {};
    case kPidNamespace: host.pid_namespace = field.number(); return {};
    case kNetworkNamespace: host.network_namespace = field.number(); return {};
    default: host.uid = static_cast<std::uint32_t>(field.number()); return {};
  }
}

Status check_key(const ShmKey& key) {
  if (key.address == 0 || key.length == 0 || !checked_add(key.address, key.length))
    return error(Code::corrupt, cat("no region: ", hex(key.address), " +", key.length));
  if (key.shared && !checked_add(key.shared->offset, key.length)) {
    return error(Code::corrupt, cat("no extent of a file: ", key.shared->offset, " +", key.length));
  }
  if (key.device &&
      !range_fits(key.device->memory.offset, key.length, key.device->memory.size_bytes)) {
    return error(Code::corrupt, cat("no extent of a device's memory: ", key.device->memory.offset,
                                    " +", key.length, " of ", key.device->memory.size_bytes));
  }
  return {};
}

}  // namespace

// ---- Connection info

Bytes encode(const ShmInfo& info) {
  return *seal_record(kInfoForm, [&](Encoder& out) {
    put_host(out, info.host);
    for (const std::uint64_t part : info.socket_token) out.put_number(kSocketToken, part);
    put_file(out, kRegistrationTable, info.registrations);
    out.put_number(kInfoIncarnation, info.incarnation);
    put_file(out, kPieces, info.pieces);
    if (info.token_address != 0) out.put_number(kTokenAddress, info.token_address);
    if (info.door) put_file(out, kDoor, *info.door);
  });
}

Result<ShmInfo> decode_info(ConstByteSpan bytes) {
  ShmInfo info;
  auto token = info.socket_token.begin();
  TOWPATH_TRY(open_record(kInfoForm, bytes, [&](const Field& field) -> Status {
    switch (field.tag()) {
      case kHost:
        return wire::decode(field.nested(),
                            [&](const Field& fact) { return take_host_field(fact, info.host); });
      case kSocketToken: *token++ = field.number(); return {};  // two: the schema has counted
      case kRegistrationTable: return take_file(field, info.registrations);
      case kPieces: return take_file(field, info.pieces);
      case kTokenAddress: info.token_address = field.number(); return {};
      case kDoor: return take_file(field, info.door.emplace());
      default: info.incarnation = field.number(); return {};
    }
  }));
  return info;
}

// ---- Keys

Bytes encode(const ShmKey& key) {
  if (!key.shared && !key.device && !key.is_read_only)  // as most of a pool's
    return seal_fields<kKeyForm>(NumberField<kAddress>{key.address},
                                 NumberField<kLength>{key.length},
                                 NumberField<kSlot, std::uint32_t>{key.slot},
                                 NumberField<kGeneration, std::uint32_t>{key.generation});
  return *seal_record(kKeyForm, [&](Encoder& out) {
    out.put_number(kAddress, key.address);
    out.put_number(kLength, key.length);
    out.put_number(kSlot, key.slot);
    out.put_number(kGeneration, key.generation);
    if (key.shared) {
      put_file(out, kFile, key.shared->file);
      out.put_number(kOffset, key.shared->offset);
    }
    if (key.device) put_device(out, *key.device);
    if (key.is_read_only) out.put_number(kReadOnly, 1);
  });
}

Result<ShmKey> decode_key(ConstByteSpan bytes) {
  ShmKey key;
  std::optional<FileRef> file;
  std::optional<std::uint64_t> offset;
  TOWPATH_TRY(open_record(kKeyForm, bytes, [&](const Field& field) -> Status {
    switch (field.tag()) {
      case kAddress: key.address = field.number(); return {};
      case kLength: key.length = field.number(); return {};
      case kSlot: key.slot = static_cast<std::uint32_t>(field.number()); return {};
      case kGeneration: key.generation = static_cast<std::uint32_t>(field.number()); return {};
      case kFile: return take_file(field, file.emplace());
      case kReadOnly: key.is_read_only = field.number() == 1; return {};
      case kDeviceMemory: {
        DeviceExtent& device = key.device.emplace();
        return wire::decode(field.nested(),
                            [&](const Field& inner) { return take_device_field(inner, device); });
      }
      default: offset = field.number(); return {};
    }
  }));
  if (file.has_value() != offset.has_value())
    return error(Code::corrupt, "an shm memory key with a file or an offset, not both");
  if (file) key.shared = {.file = *file, .offset = *offset};
  TOWPATH_TRY(check_key(key));
  return key;
}

RegisteredBytes registered_bytes_of(const ShmKey& key) noexcept {
  RegisteredBytes bytes{
      .address = key.address, .length = key.length, .is_read_only = key.is_read_only};
  if (key.shared) {
    bytes.source = {key.shared->file.device, key.shared->file.inode};
    bytes.offset = key.shared->offset;
  }
  if (key.device) {
    // FNV-1a of what a driver made: a handle that it takes is not to be had by trying.
    std::uint64_t handle = 0xcbf29ce484222325;
    for (const std::byte byte : key.device->memory.handle.bytes)
      handle = (handle ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
    bytes.source = {handle, key.device->memory.size_bytes};
    bytes.offset = key.device->memory.offset;
  }
  return bytes;
}

RegisteredBytes registered_bytes_of(const ShmInfo& info) noexcept {
  return {.length = info.host.start_time,
          .source = {info.pieces.device, info.pieces.inode},
          .offset = info.host.pid};
}

// ---- Hello

Result<Bytes> encode_hello(const Hello& hello) {
  return seal_record(kHelloForm, [&](Encoder& out) {
    out.put_number(kIncarnation, hello.from.incarnation);
    out.put_text(kName, hello.from.name);
    if (hello.ring) put_file(out, kRing, *hello.ring);
  });
}

Result<Hello> decode_hello(ConstByteSpan bytes) {
  Hello hello;
  AgentIdentity& from = hello.from;
  TOWPATH_TRY(open_record(kHelloForm, bytes, [&](const Field& field) -> Status {
    if (field.tag() == kName) {
      from.name = field.text();
      return from.name.empty() ? field.refuse("no name") : Status();
    }
    if (field.tag() == kRing) return take_file(field, hello.ring.emplace());
    from.incarnation = field.number();
    return from.incarnation == 0 ? field.refuse("no incarnation") : Status();
  }));
  return hello;
}

std::string socket_name(const SocketToken& token) {
  return cat("towpath-shm-", hex(token[0]), "-", hex(token[1]));
}

}  // namespace towpath::backends::shm
