// The token that nobody configured: the processes of a user find it, or the first of them makes it,
// in a directory that only this user can enter (docs/security.md). It proves nothing to other
// hosts. Thread: any.
#pragma once

#include <string>

#include <towpath/net/address.h>
#include <towpath/net/token.h>
#include <towpath/standard/settings.h>

namespace towpath::standard {

/// "token" in the first of $XDG_RUNTIME_DIR/towpath, /run/user/UID/towpath and /tmp/towpath-UID of
/// which the parent is this user's own; /tmp always is taken last.
std::string shared_token_file(const Environment& environment);

/// The one in that file, which is made if it is not there. Errors: denied (another user's, or open
/// to others), corrupt, those of the file system.
Result<net::Token> find_shared_token(const std::string& path);

/// The token in a file that somebody named. Errors: not_found, denied, invalid_argument.
Result<net::Token> read_token(const std::string& path);

/// Whether only processes of this host can be met there: a Unix socket, or the loopback. By what is
/// written, without asking for names.
bool is_of_this_host(const net::Address& address);

}  // namespace towpath::standard
