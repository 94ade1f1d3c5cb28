// What is said to etcd's JSON gateway (v3) and what it answers, as values.
//
// Pure: no request is sent here. What comes back is bounded by who reads it from the network, and
// is held against its form here: nothing in it crashes, whatever it is. Keys and values are any
// bytes. Source: etcd's api/etcdserverpb/rpc.proto, and its mapping to JSON (int64 is text there).
// Thread: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::rendezvous::etcd {

/// What is asked of a gateway: the path after the endpoint, and the body.
struct Call {
  std::string path;
  std::string body;
};

using LeaseId = std::int64_t;  ///< 0: none

struct KeyValue {
  std::string key;
  Bytes value;
  std::int64_t mod_revision = 0;  ///< grows with each change of the key
  LeaseId lease = 0;
};

struct RangeQuery {
  std::string key;
  std::string end = {};       ///< first key that is not asked for; empty: only `key`
  std::int64_t revision = 0;  ///< as it was then; 0: now
  std::int64_t limit = 0;     ///< 0: none
  bool keys_only = false;
};
struct RangeReply {
  std::int64_t revision = 0;
  std::vector<KeyValue> pairs;
  bool more = false;  ///< the limit left some out
};

struct Event {
  bool removed = false;
  KeyValue pair;  ///< of a removal: the key and revision
};
struct WatchReply {
  bool ended = false;  ///< etcd will not report more; `why` says why
  std::string why;
  std::vector<Event> events;
};

Call range(const RangeQuery& query);
Result<RangeReply> parse_range(std::string_view body);
struct PutQuery {
  std::string key;
  ConstByteSpan value;
  LeaseId lease = 0;
};
Call put(const PutQuery& query);
/// Of a key that lies under `lease`; of another nothing is removed, which is no failure.
Call remove(std::string_view key, LeaseId lease);

Call grant(std::chrono::seconds ttl);
struct Lease {
  LeaseId id = 0;
  std::chrono::seconds ttl{0};  ///< as etcd grants it; 0: the lease is no more
};
Result<Lease> parse_grant(std::string_view body);
Call keep_alive(LeaseId lease);
Result<Lease> parse_keep_alive(std::string_view body);
Call revoke(LeaseId lease);

/// Changes of the keys from `key` to before `end`, from `revision` on. The answer is a stream of
/// lines, each for parse_watch().
struct WatchQuery {
  std::string key;
  std::string end;
  std::int64_t revision = 0;
};
Call watch(const WatchQuery& query);
Result<WatchReply> parse_watch(std::string_view line);

struct Login {
  std::string user;
  std::string password;
};
Call authenticate(const Login& login);
Result<std::string> parse_token(std::string_view body);

/// What a failure of the gateway means. Codes: not_found (lease or key), denied (user, password or
/// permission), not_ready (the token has expired: log in again), out_of_range (a request too
/// large), unavailable, invalid_argument, corrupt (no answer of etcd's).
Status parse_failure(int http_status, std::string_view body);

/// The first key that does not begin with `prefix`, which is not empty.
std::string end_of_prefix(std::string_view prefix);

}  // namespace towpath::rendezvous::etcd
