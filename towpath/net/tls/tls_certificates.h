// TlsCertificates: by which a side of TLS connections proves itself, and whom it believes.
// Thread: immutable.
#pragma once

#include <string>

namespace towpath::net {

/// Files in PEM. The client also checks that the certificate names the host that it dialled.
struct TlsCertificates {
  std::string certificate_file;  ///< our own, with those between it and the authority's
  std::string key_file;          ///< not encrypted: nobody is asked for a pass phrase
  std::string authority_file;    ///< whose certificates are trusted, of the other side

  bool empty() const noexcept {
    return certificate_file.empty() && key_file.empty() && authority_file.empty();
  }
};

}  // namespace towpath::net
