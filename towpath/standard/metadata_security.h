// MetadataSecurity: how the two sides of metadata over TCP prove themselves, what keeps metadata in
// an etcd from others, and where the token comes from that nobody configured.
//
// On one host nothing is configured: the processes of a user find, or the first of them makes, a
// token in a directory that only this user can enter. Other hosts, and containers that share no
// files, are given a token file, or certificates, by name.
// Thread: any.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <towpath/net/tls/tls_context.h>
#include <towpath/net/token.h>
#include <towpath/standard/environment.h>

namespace towpath::standard {

struct MetadataSecurity {
  std::optional<net::Token> token;
  net::TlsCertificates certificates;   ///< instead of a token
  std::string shared_token_file = {};  ///< without both; empty: shared_token_file(environment)

  /// Whether only processes of this user on this host can know the token.
  bool is_of_this_host() const noexcept { return !token && certificates.empty(); }
};

/// Made at the first call and kept. Errors: those of the files; invalid_argument (a token and
/// certificates).
net::TlsProvider tls_provider(MetadataSecurity security);

/// The token in a file that somebody named. Errors: not_found, denied, invalid_argument.
Result<net::Token> read_token(const std::string& path);

/// The token that encrypts metadata in an etcd (etcd_cipher.h): the one in `token_file`; without
/// it, none where all `endpoints` are https://, and this user's own where all are of this host.
/// Errors: denied (another host's, without TLS and without a token), those of the file.
Result<std::optional<net::Token>> etcd_token(const std::optional<std::string>& token_file,
                                             std::span<const std::string> endpoints,
                                             const std::string& shared_token_file);

/// "token" in the first of $XDG_RUNTIME_DIR/towpath, /run/user/UID/towpath and /tmp/towpath-UID of
/// which the parent is this user's own; /tmp always is taken last.
std::string shared_token_file(const Environment& environment);

}  // namespace towpath::standard
