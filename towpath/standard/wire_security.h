// TOWPATH_SECURITY, as a variable or in the file (configuration.h): what is asked of every data
// wire that this process opens, no matter for what.
//
//   tls            `tcp` encrypts all, by the certificates that TOWPATH_TLS_CERT_FILE, _KEY_FILE
//                  and _CA_FILE name, if they do; `ucx` and `ucx_device`, which cannot, are
//                  refused by name
//   authenticated  both sides are proven, heads are sealed, payload is not: the default
//
// A parameter `security` of the backend itself has precedence. Thread: immutable.
#pragma once

#include <towpath/backend/registry.h>
#include <towpath/standard/configuration.h>
#include <towpath/standard/settings.h>

namespace towpath::standard {

inline constexpr Setting kSecuritySetting{
    "SECURITY", "tls, authenticated", "authenticated",
    "tls: what goes between hosts is encrypted (of PEs, as a variable); UCX is refused then", true};

/// `type` (tcp), which asks for what the environment asks for, with its certificates. The
/// environment is read when the backend is opened.
backend::BackendType with_wire_security(
    backend::BackendType type,
    std::function<Result<Environment>()> environment = read_environment_and_file);

/// `type` (ucx, ucx_device), which is refused where the environment asks for encryption, or for
/// what has no meaning: that may be a misspelt tls.
backend::BackendType refused_where_encrypted(
    backend::BackendType type,
    std::function<Result<Environment>()> environment = read_environment_and_file);

}  // namespace towpath::standard
