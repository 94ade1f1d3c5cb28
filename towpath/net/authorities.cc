#include <array>

#include <curl/curl.h>
#include <unistd.h>

#include <towpath/net/authorities.h>

namespace towpath::net {

std::span<const char* const> known_authority_files() {
  static constexpr std::array<const char*, 4> kFiles{"/etc/ssl/certs/ca-certificates.crt",
                                                     "/etc/pki/tls/certs/ca-bundle.crt",
                                                     "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
  return kFiles;
}

std::string first_authority_file(std::span<const char* const> files) {
  for (const char* file : files)
    if (::access(file, R_OK) == 0) return file;
  return {};
}

std::string system_authorities() {
  const curl_version_info_data* built = curl_version_info(CURLVERSION_NOW);
  const bool knows =
      built->age >= CURLVERSION_SEVENTH && (built->cainfo != nullptr || built->capath != nullptr);
  return knows ? std::string() : first_authority_file();
}

}  // namespace towpath::net
