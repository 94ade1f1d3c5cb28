// The connection of a backend that reaches storage and no other agent (files, drives, objects): the
// only peer it accepts is its own agent. Thread: any.
#pragma once

#include <memory>
#include <string_view>

#include <towpath/backend/backend.h>

namespace towpath::backend {

/// What the refusal of another agent says: "`backend` moves to and from `things` of the agent
/// itself".
struct SelfOnly {
  std::string_view backend;
  std::string_view things;
};

/// The answer to Backend::connect() of such a backend. Errors: unsupported (`peer` is not `self`),
/// corrupt (`info` is not empty: it publishes none).
Result<std::unique_ptr<Connection>> connect_to_self(const SelfOnly& what, const AgentIdentity& self,
                                                    const AgentIdentity& peer, ConstByteSpan info);

}  // namespace towpath::backend
