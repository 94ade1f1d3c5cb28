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
#include <towpath/standard/user_token.h>

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

/// The token that encrypts metadata in an etcd (etcd_cipher.h): the one in `token_file`; without
/// it, none where all `endpoints` are https://, and this user's own where all are of this host.
/// Errors: denied (another host's, without TLS and without a token), those of the file.
Result<std::optional<net::Token>> etcd_token(const std::optional<std::string>& token_file,
                                             std::span<const std::string> endpoints,
                                             const std::string& shared_token_file);

}  // namespace towpath::standard
