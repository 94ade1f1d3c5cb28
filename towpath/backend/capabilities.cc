#include <towpath/backend/capabilities.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::backend {

std::vector<SupportedPair> host_pairs() {
  std::vector<SupportedPair> pairs;
  for (const MemoryKind local : kHostKinds) {
    for (const MemoryKind remote : kHostKinds)
      pairs.push_back({.local = local, .remote = remote, .to_self = true, .to_peer = true});
  }
  return pairs;
}

Status check_region(std::string_view backend, const Capabilities& can,
                    const RegionDescriptor& region) {
  if (!can.takes(region.kind)) {
    return error(Code::unsupported, cat(backend, " cannot move ", name_of(region.kind), " memory"),
                 "use a backend for this kind; `towpath explain` lists them");
  }
  if (region.address == 0 || region.length == 0 || !checked_add(region.address, region.length))
    return error(Code::invalid_argument, cat("no such region: ", to_string(region)));
  return {};
}

Status check_message(const Capabilities& can, ConstByteSpan message) {
  if (message.size() <= can.max_notification_bytes) return {};
  return error(
      Code::invalid_argument,
      cat("a notification of ", message.size(), " bytes; at most ", can.max_notification_bytes),
      "send the bytes by a transfer");
}

}  // namespace towpath::backend
