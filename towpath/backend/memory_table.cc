#include <towpath/backend/memory_table.h>
#include <towpath/core/format.h>
#include <towpath/wire/little_endian.h>

namespace towpath::backend {

Bytes key_of(const RegisteredRegion& record) {
  Bytes key(sizeof record.id);
  wire::store<std::uint64_t>(key, record.id);
  return key;
}

Result<std::uint64_t> id_of_key(ConstByteSpan key) {
  if (key.size() != sizeof(std::uint64_t))
    return error(Code::corrupt, cat("a memory key has 8 bytes, not ", key.size()));
  return wire::load<std::uint64_t>(key);
}

Status check_inside(const RegionDescriptor& part, const RegionDescriptor& whole) {
  if (part.kind == whole.kind && whole.covers({part.address, part.length, part.device_id}))
    return {};
  return error(Code::corrupt,
               cat(to_string(part), " is not inside of what was registered: ", to_string(whole)));
}

Status no_such_memory(std::uint64_t id, const AgentIdentity& owner) {
  return error(Code::not_found,
               cat("registration ", id, " of ", to_string(owner), " does not exist (any more)"),
               "load the peer's newest metadata");
}

}  // namespace towpath::backend
