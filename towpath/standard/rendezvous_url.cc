#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/rendezvous/etcd_rendezvous.h>
#include <towpath/rendezvous/file_rendezvous.h>
#include <towpath/rendezvous/hosted_rendezvous.h>
#include <towpath/rendezvous/peer_rendezvous.h>
#include <towpath/standard/metadata_security.h>
#include <towpath/standard/rendezvous_url.h>
#include <towpath/sys/text_file.h>

namespace towpath::standard {

namespace {

using rendezvous::Rendezvous;
using Opened = Result<std::unique_ptr<Rendezvous>>;

constexpr std::string_view kEtcdPort = ":2379";

// Without what stands where a password may, in the wrong place.
std::string shown(std::string_view url) {
  const std::size_t begin = url.find("//"), at = url.rfind('@');
  if (begin == std::string_view::npos || at == std::string_view::npos || at < begin)
    return printable(url, 200);
  return printable(cat(url.substr(0, begin + 2), "...", url.substr(at)), 200);
}

Status not_a_url(std::string_view url, std::string_view why) {
  return error(
      Code::invalid_argument, cat("'", shown(url), "' is no rendezvous: ", why),
      "write scope:NAME, file:/path, unix:/path, tcp://host:port or etcd://host:port/namespace");
}

// What stands before `mark`, which is taken off `text` with it; all of it without a mark.
std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

std::span<const std::string_view> options_of(std::string_view scheme) {
  static constexpr std::array<std::string_view, 4> kTcp = {"token-file", "ca", "cert", "key"};
  static constexpr std::array<std::string_view, 6> kEtcds = {"token-file", "password-file", "ttl",
                                                             "ca",         "cert",          "key"};
  static constexpr auto kEtcd = std::span(kEtcds).first<3>();
  static constexpr std::array<std::string_view, 1> kFile = {"ttl"};
  if (scheme == "tcp") return kTcp;
  if (scheme == "file") return kFile;
  if (scheme == "etcds") return kEtcds;
  return scheme == "etcd" ? std::span<const std::string_view>(kEtcd)
                          : std::span<const std::string_view>();
}

Status parse_options(std::string_view url, std::string_view text, RendezvousUrl& into) {
  const auto known = options_of(into.scheme);
  while (!text.empty()) {
    std::string_view pair = take_until(text, '&');
    const std::string_view name = take_until(pair, '=');
    if (std::ranges::find(known, name) == known.end())
      return not_a_url(url, cat(into.scheme, ": has no option '", printable(name), "'"));
    if (pair.empty()) return not_a_url(url, cat("option ", name, " has no value"));
    if (!into.options.emplace(name, pair).second)
      return not_a_url(url, cat("option ", name, " stands there twice"));
  }
  return {};
}

Status parse_etcd(std::string_view url, std::string_view place, RendezvousUrl& into) {
  std::string_view hosts = take_until(place, '/');
  into.name_space = place.empty() ? "" : cat("/", place);
  if (into.name_space.empty()) return not_a_url(url, "it has no namespace");
  if (const std::size_t at = hosts.rfind('@'); at != std::string_view::npos) {
    into.user = hosts.substr(0, at);
    hosts.remove_prefix(at + 1);
  }
  if (into.user.find(':') != std::string::npos)
    return not_a_url("etcd://...", "a password stands in password-file=PATH, not in the address");
  if (into.user.empty() && into.options.contains("password-file"))
    return not_a_url(url, "its password is nobody's: write etcd://user@host/namespace");
  if (hosts.empty() || hosts.find_first_of(" \t\"'<>\\?#") != std::string_view::npos)
    return not_a_url(url, "it has no host");
  into.place = hosts;
  return {};
}

std::string option(const RendezvousUrl& url, const std::string& name) {
  const auto found = url.options.find(name);
  return found == url.options.end() ? std::string() : found->second;
}

// The first line of a file, without what ends it.
Result<std::string> read_secret(const std::string& path) {
  TOWPATH_TRY(const std::string text, sys::read_text_file(path));
  return std::string(sys::trimmed(text));
}

// One that is no number is 0, which each kind refuses, as it does more than a day.
std::optional<std::chrono::seconds> ttl_of(const RendezvousUrl& url) {
  constexpr std::uint64_t kMost = 1'000'000'000;  // that a Duration holds
  const std::string ttl = option(url, "ttl");
  if (ttl.empty()) return std::nullopt;
  return std::chrono::seconds(std::min(sys::parse_number(ttl).value_or(0), kMost));
}

Opened open_hosted_rendezvous(std::string_view text, const RendezvousUrl& url, const Clock& clock,
                              const telemetry::Log& log, Hosting hosting) {
  rendezvous::HostedRendezvousOptions options{.hosts = hosting == Hosting::first_to_open};
  TOWPATH_TRY(options.address, net::parse_address(text.substr(0, text.find('?'))));
  const auto* tcp = std::get_if<net::TcpAddress>(&options.address);
  if (tcp != nullptr && tcp->port == 0)
    return not_a_url(text, "all sides must know the port; 0 lets each choose one");
  options.listener.log = log;
  MetadataSecurity security{.certificates = {.certificate_file = option(url, "cert"),
                                             .key_file = option(url, "key"),
                                             .authority_file = option(url, "ca")}};
  if (const std::string file = option(url, "token-file"); !file.empty()) {
    TOWPATH_TRY(security.token, read_token(file));
  }
  options.listener.loopback_only = security.is_of_this_host();
  options.tls = tls_provider(std::move(security));
  TOWPATH_TRY(auto made, rendezvous::HostedRendezvous::open(std::move(options), clock));
  return std::unique_ptr<Rendezvous>(std::move(made));
}

Opened open_etcd(const RendezvousUrl& url, const Clock& clock, const telemetry::Log& log) {
  rendezvous::EtcdOptions options;
  options.log = log;
  options.name_space = url.name_space;
  options.client.tls = {option(url, "ca"), option(url, "cert"), option(url, "key")};
  options.client.login.user = url.user;
  if (const std::string file = option(url, "password-file"); !file.empty()) {
    TOWPATH_TRY(options.client.login.password, read_secret(file));
  }
  options.lease_ttl = ttl_of(url).value_or(options.lease_ttl);
  std::string_view hosts = url.place;
  while (!hosts.empty()) {
    const std::string_view host = take_until(hosts, ',');
    const bool has_port = host.rfind(':') != std::string_view::npos && !host.ends_with(']');
    options.client.endpoints.push_back(cat(url.scheme == "etcds" ? "https://" : "http://", host,
                                           has_port ? std::string_view() : kEtcdPort));
  }
  const auto token_file = url.options.find("token-file");
  TOWPATH_TRY(
      options.token,
      etcd_token(token_file == url.options.end() ? std::nullopt : std::optional(token_file->second),
                 options.client.endpoints, shared_token_file(read_environment())));
  TOWPATH_TRY(auto made, rendezvous::EtcdRendezvous::open(std::move(options), clock));
  return std::unique_ptr<Rendezvous>(std::move(made));
}

Opened open_directory(const RendezvousUrl& url, const Clock& clock) {
  rendezvous::FileRendezvousOptions options{.directory = url.place};
  options.lease = ttl_of(url).value_or(std::chrono::seconds(10));
  TOWPATH_TRY(auto made, rendezvous::FileRendezvous::open(std::move(options), clock));
  return std::unique_ptr<Rendezvous>(std::move(made));
}

}  // namespace

Result<RendezvousUrl> parse_rendezvous_url(std::string_view url) {
  std::string_view rest = url;
  RendezvousUrl parsed{.scheme = std::string(take_until(rest, ':'))};
  const bool is_etcd = parsed.scheme == "etcd" || parsed.scheme == "etcds";
  static constexpr std::array<std::string_view, 4> kOthers = {"tcp", "unix", "scope", "file"};
  if (!is_etcd && std::ranges::find(kOthers, parsed.scheme) == kOthers.end())
    return not_a_url(url, "its kind is unknown");
  if (is_etcd || parsed.scheme == "tcp") {
    if (!rest.starts_with("//")) return not_a_url(url, "it lacks the //");
    rest.remove_prefix(2);
  }
  const std::string_view place = take_until(rest, '?');
  if (place.empty()) return not_a_url(url, "it has no place");
  TOWPATH_TRY(parse_options(url, rest, parsed));
  if (is_etcd) {
    TOWPATH_TRY(parse_etcd(url, place, parsed));
    return parsed;
  }
  parsed.place = place;
  return parsed;
}

Opened open_rendezvous(std::string_view url, const Clock& clock, const telemetry::Log& log,
                       Hosting hosting) {
  TOWPATH_TRY(const RendezvousUrl parsed, parse_rendezvous_url(url));
  if (parsed.scheme.starts_with("etcd")) return open_etcd(parsed, clock, log);
  if (parsed.scheme == "file") return open_directory(parsed, clock);
  if (parsed.scheme != "scope") return open_hosted_rendezvous(url, parsed, clock, log, hosting);
  rendezvous::PeerRendezvousOptions options;
  options.scope = parsed.place;
  options.listener.log = log;
  TOWPATH_TRY(auto made, rendezvous::PeerRendezvous::open(std::move(options), clock));
  return std::unique_ptr<Rendezvous>(std::move(made));
}

}  // namespace towpath::standard
