// The certificate authorities that this machine trusts, as a file. A libcurl of a distribution
// knows its own file; one that is linked into a wheel does not, and each distribution keeps the
// file elsewhere. Thread: any.
#pragma once

#include <span>
#include <string>

namespace towpath::net {

/// Where distributions keep them: Debian and Alpine, Fedora, SUSE, others.
std::span<const char* const> known_authority_files();

/// The first of `files` that can be read; empty when there is none.
std::string first_authority_file(std::span<const char* const> files = known_authority_files());

/// What libcurl is to be given: empty when it knows a file or a folder itself, or no file is known.
std::string system_authorities();

}  // namespace towpath::net
