#include <towpath/core/format.h>
#include <towpath/rendezvous/name_digest.h>
#include <towpath/rendezvous/scope.h>

namespace towpath::rendezvous {

namespace {

constexpr std::size_t kMaxAddress = 107;  // unix(7), without the zero in front

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
