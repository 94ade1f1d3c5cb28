#include <array>

#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/keys.h>
#include <towpath/standard/user_token.h>
#include <towpath/sys/private_file.h>
#include <towpath/sys/text_file.h>

namespace towpath::standard {

namespace {

bool is_own_directory(const std::string& path) {
  struct stat about {};
  return !path.empty() && ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) &&
         about.st_uid == ::geteuid();
}

}  // namespace

std::string shared_token_file(const Environment& environment) {
  const auto named = environment.find("XDG_RUNTIME_DIR");
  for (const std::string& parent :
       {named == environment.end() ? std::string() : named->second, cat("/run/user/", ::geteuid())})
    if (is_own_directory(parent)) return cat(parent, "/towpath/token");
  return cat("/tmp/towpath-", ::geteuid(), "/token");
}

Result<net::Token> find_shared_token(const std::string& path) {
  std::array<std::byte, 32> random;
  net::fill_random(random);
  TOWPATH_TRY(const std::string text,
              sys::find_or_make_private_file(path, net::to_hex(random) + "\n"));
  auto token = net::Token::from_text(sys::trimmed(text));
  if (token.ok()) return token;
  return error(Code::corrupt, cat(printable(path, 256), " holds no token"), "remove the file")
      .because(token.status());
}

Result<net::Token> read_token(const std::string& path) {
  TOWPATH_TRY(const std::string text, sys::read_text_file(path));
  auto token = net::Token::from_text(sys::trimmed(text));
  if (token.ok()) return token;
  return error(token.code(), cat("the token file ", printable(path, 256), " is of no use"),
               "write one with `openssl rand -hex 32`")
      .because(token.status());
}

bool is_of_this_host(const net::Address& address) {
  const auto* tcp = std::get_if<net::TcpAddress>(&address);
  if (tcp == nullptr || tcp->host == "localhost" || tcp->host == "::1") return true;
  in_addr four{};
  return tcp->host.starts_with("127.") && ::inet_pton(AF_INET, tcp->host.c_str(), &four) == 1;
}

}  // namespace towpath::standard
