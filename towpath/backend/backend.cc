#include <towpath/backend/backend.h>

namespace towpath::backend {

Status Backend::notify(Connection& connection, ConstByteSpan message) {
  (void)connection;
  (void)message;
  return error(Code::unsupported, "this backend carries no notifications",
               "add a backend that does; `towpath explain` lists them");
}

void Backend::import_memories(Connection& connection, std::span<Import> list) {
  for (Import& one : list) one.memory = import_memory(connection, *one.region, one.key);
}

Result<std::vector<std::optional<Params>>> Backend::query(
    std::span<const RegionDescriptor> descriptors) {
  (void)descriptors;
  return error(Code::unsupported, "this backend cannot be queried");
}

}  // namespace towpath::backend
