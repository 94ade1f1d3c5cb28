#include <towpath/backend/self_connection.h>
#include <towpath/core/format.h>

namespace towpath::backend {
namespace {

class SelfConnection final : public Connection {};

}  // namespace

Result<std::unique_ptr<Connection>> connect_to_self(const SelfOnly& what, const AgentIdentity& self,
                                                    const AgentIdentity& peer, ConstByteSpan info) {
  if (peer != self)
    return error(
        Code::unsupported,
        cat(what.backend, " moves to and from ", what.things, " of the agent itself, not of ",
            to_string(peer)),
        "let the agent that reaches the storage read it, and move the bytes by shm or ucx");
  if (!info.empty())
    return error(Code::corrupt,
                 cat(what.backend, " has no connection info; ", info.size(), " bytes came"));
  return std::make_unique<SelfConnection>();
}

}  // namespace towpath::backend
