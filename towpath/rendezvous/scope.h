// Scope: the agents of one machine that find each other by name alone (a job, a user, a test).
// Thread: any.
#pragma once

#include <string_view>

#include <towpath/core/result.h>
#include <towpath/sys/local_socket.h>

namespace towpath::rendezvous {

inline constexpr std::size_t kMaxScope = 64;

/// The abstract address of `agent` among the agents of `scope`. Names that are too long are
/// shortened to a digest: the one who asks compares the name in the reply.
/// Errors: invalid_argument (the scope is too long).
Result<sys::LocalAddress> address_in_scope(std::string_view scope, std::string_view agent);

}  // namespace towpath::rendezvous
