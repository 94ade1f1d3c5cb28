#include <cstdint>

#include <towpath/core/text.h>
#include <towpath/rendezvous/scope.h>

namespace towpath::rendezvous {

namespace {

constexpr std::size_t kMaxAddress = 107;  // unix(7), without the zero in front

// FNV-1a: tells names apart, and is not meant to resist anyone (the reply carries the name).
std::uint64_t digest_of(std::string_view text) {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (char letter : text) digest = (digest ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return digest;
}

}  // namespace

Result<sys::LocalAddress> address_in_scope(std::string_view scope, std::string_view agent) {
  if (scope.size() > kMaxScope)
    return error(Code::invalid_argument, cat("a scope of ", scope.size(), " bytes"),
                 cat("use at most ", kMaxScope, " bytes"));
  sys::LocalAddress address{.name = cat("towpath/", scope, "/", path_safe(agent)),
                            .abstract = true};
  // '=' is never in a path_safe name, so a short name cannot pose as a digest.
  if (address.name.size() > kMaxAddress)
    address.name = cat("towpath/", scope, "/=", hex(digest_of(agent)), "-", agent.size());
  return address;
}

}  // namespace towpath::rendezvous
