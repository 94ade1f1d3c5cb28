// Where agents meet, as one line of text: the one place that knows every kind of rendezvous.
//
//   scope:NAME                         agents of this machine, without a server
//   file:/path                         a directory that the agents share
//   unix:/path, unix:@name             a rendezvous on this machine
//   tcp://host:port                    a rendezvous that other machines reach
//   etcd://[user@]host:port[,...]/ns   an etcd; etcds:// with TLS
//
// After a `?`, joined by `&`: token-file=PATH (tcp, etcd); password-file (etcd); ca, cert, key
// (paths: tcp, etcds), ttl=SECONDS (etcd, file). Each once. Secrets are read from files, since
// everybody may see a command line. What is at the loopback needs no token, nor certificates
// (metadata_security.h); an etcd of another host needs a token or TLS. Thread: any.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <towpath/core/clock.h>
#include <towpath/rendezvous/rendezvous.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {

struct RendezvousUrl {
  std::string scheme;  ///< "scope", "file", "unix", "tcp", "etcd", "etcds"
  std::string user;
  std::string place;  ///< NAME, path, host:port, or hosts with commas
  std::string name_space;
  std::map<std::string, std::string> options;
};

/// Errors: invalid_argument, with the forms that there are.
Result<RendezvousUrl> parse_rendezvous_url(std::string_view url);

/// Of unix: and tcp: which process hosts the place; the others have no host.
enum class Hosting : std::uint8_t {
  first_to_open,
  guest,  ///< another process hosts it, now or later
};

/// `clock` must outlive it. Errors: as above, those of reading the files, and those of the kind.
Result<std::unique_ptr<rendezvous::Rendezvous>> open_rendezvous(
    std::string_view url, const Clock& clock, const telemetry::Log& log = {},
    Hosting hosting = Hosting::first_to_open);

}  // namespace towpath::standard
