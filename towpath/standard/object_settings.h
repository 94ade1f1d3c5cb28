// What an environment says of an object store, under the names that every S3 client reads: the
// variables AWS_*, and the files of credentials that they, or the home directory, lead to.
//
//   AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN    who we are; else
//   ~/.aws/credentials, profile AWS_PROFILE                      (AWS_SHARED_CREDENTIALS_FILE)
//   AWS_REGION AWS_DEFAULT_REGION; else ~/.aws/config            (AWS_CONFIG_FILE)
//   AWS_ENDPOINT_OVERRIDE AWS_ENDPOINT_URL_S3 AWS_ENDPOINT_URL   where the store is
//   AWS_DEFAULT_BUCKET AWS_CA_BUNDLE
//
// It asks no service for credentials (instance metadata, SSO, roles): write them where it looks.
// Thread: any.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <towpath/backend/backend.h>
#include <towpath/standard/settings.h>

namespace towpath::standard {

/// As parameters of the backend `object`. Errors: not_found (AWS_PROFILE names a profile that no
/// file has), denied, corrupt (a file that is there and cannot be read).
Result<backend::Params> object_params(const Environment& environment);

/// The settings of one profile in a file of credentials or configuration, where it is called
/// "[name]" or "[profile name]"; empty when it has none.
std::map<std::string, std::string> profile_settings(std::string_view file,
                                                    std::string_view profile);

}  // namespace towpath::standard
