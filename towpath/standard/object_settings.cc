#include <initializer_list>

#include <towpath/core/format.h>
#include <towpath/standard/object_settings.h>
#include <towpath/sys/text_file.h>

namespace towpath::standard {
namespace {

using Profile = std::map<std::string, std::string>;

/// The first of these that is set and not empty.
std::string first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = environment.find(name);
    if (found != environment.end() && !found->second.empty()) return found->second;
  }
  return {};
}

void put(backend::Params& params, const std::string& name, const std::string& value) {
  if (!value.empty()) params.emplace(name, value);
}

/// Of a file that need not be there.
Result<Profile> read_profile(const Environment& environment, const char* variable,
                             std::string_view usual, const std::string& profile) {
  std::string path = first_of(environment, {variable});
  if (path.empty()) {
    const std::string home = first_of(environment, {"HOME"});
    if (home.empty()) return Profile();
    path = cat(home, usual);
  }
  const auto text = sys::read_text_file(path);
  if (text.code() == Code::not_found) return Profile();
  if (!text.ok())
    return error(text.code(), cat("cannot read ", printable(path, 256)),
                 cat("mend it, or name another one in ", variable))
        .because(text.status());
  return profile_settings(*text, profile);
}

void add_credentials(backend::Params& params, const Profile& profile) {
  const auto setting = [&](const std::string& name) {
    const auto found = profile.find(name);
    return found == profile.end() ? std::string() : found->second;
  };
  put(params, "access_key", setting("aws_access_key_id"));
  put(params, "secret_key", setting("aws_secret_access_key"));
  put(params, "session_token", setting("aws_session_token"));
}

}  // namespace

std::map<std::string, std::string> profile_settings(std::string_view file,
                                                    std::string_view profile) {
  Profile settings;
  bool ours = false;
  while (!file.empty()) {
    const auto end = file.find('\n');
    const std::string_view line = sys::trimmed(file.substr(0, end));
    file.remove_prefix(end == std::string_view::npos ? file.size() : end + 1);
    if (line.empty() || line.starts_with('#') || line.starts_with(';')) continue;
    if (line.starts_with('[')) {
      constexpr std::string_view kWord = "profile ";
      std::string_view name = sys::trimmed(line.substr(1, line.find(']') - 1));
      if (name.starts_with(kWord)) name = sys::trimmed(name.substr(kWord.size()));
      ours = name == profile;
      continue;
    }
    const auto equals = line.find('=');
    if (!ours || equals == std::string_view::npos) continue;
    settings.emplace(lower(sys::trimmed(line.substr(0, equals))),
                     sys::trimmed(line.substr(equals + 1)));
  }
  return settings;
}

Result<backend::Params> object_params(const Environment& environment) {
  backend::Params params;
  put(params, "access_key", first_of(environment, {"AWS_ACCESS_KEY_ID"}));
  if (!params.empty()) {
    put(params, "secret_key", first_of(environment, {"AWS_SECRET_ACCESS_KEY"}));
    put(params, "session_token", first_of(environment, {"AWS_SESSION_TOKEN"}));
  }
  put(params, "bucket", first_of(environment, {"AWS_DEFAULT_BUCKET"}));
  put(params, "endpoint_override",
      first_of(environment, {"AWS_ENDPOINT_OVERRIDE", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}));
  put(params, "ca_bundle", first_of(environment, {"AWS_CA_BUNDLE"}));
  put(params, "region", first_of(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"}));

  const std::string asked = first_of(environment, {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  const std::string profile = asked.empty() ? "default" : asked;
  TOWPATH_TRY(const Profile credentials, read_profile(environment, "AWS_SHARED_CREDENTIALS_FILE",
                                                      "/.aws/credentials", profile));
  TOWPATH_TRY(const Profile configuration,
              read_profile(environment, "AWS_CONFIG_FILE", "/.aws/config", profile));
  if (!params.contains("access_key")) {
    if (!asked.empty() && credentials.empty() && configuration.empty())
      return error(Code::not_found, cat("no file has the profile '", printable(asked), "'"),
                   "write it to ~/.aws/credentials, or change AWS_PROFILE");
    add_credentials(params, credentials);
    if (!params.contains("access_key")) add_credentials(params, configuration);
  }
  if (const auto region = configuration.find("region"); region != configuration.end())
    put(params, "region", region->second);
  return params;
}

}  // namespace towpath::standard
