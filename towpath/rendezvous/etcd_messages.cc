#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include <towpath/core/format.h>
#include <towpath/net/base64.h>
#include <towpath/rendezvous/etcd_messages.h>

namespace towpath::rendezvous::etcd {

namespace {

using Json = nlohmann::json;

// gRPC's codes, as etcd uses them.
constexpr std::int64_t kInvalidArgument = 3, kNotFound = 5, kDenied = 7, kExhausted = 8,
                       kFailedPrecondition = 9, kUnauthenticated = 16;

std::string base64(std::string_view text) { return net::to_base64(as_bytes(text)); }

std::string written(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status not_etcd(std::string_view what, std::string_view text) {
  return error(Code::corrupt, cat("no answer of etcd's (", what, "): ", printable(text, 120)),
               "see that the endpoint is an etcd of version 3.4 or later");
}

Result<Json> parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return not_etcd("not JSON", text);
  return json;
}

const Json& member(const Json& json, const char* name) {
  static const Json kNothing;
  if (!json.is_object()) return kNothing;
  const auto found = json.find(name);
  return found == json.end() ? kNothing : *found;
}

// The gateway leaves out what is 0 or empty, and writes 64-bit numbers as text.
std::int64_t number(const Json& json, const char* name) {
  const Json& value = member(json, name);
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_string()) return 0;
  const auto& text = value.get_ref<const std::string&>();
  std::int64_t read = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), read);
  return failed == std::errc() && end == text.data() + text.size() ? read : 0;
}

// Of a lease: etcd grants no longer ones (its lease.MaxLeaseTTL), and a Duration holds no longer.
std::chrono::seconds ttl(const Json& json) {
  constexpr std::int64_t kLongest = 9'000'000'000;
  return std::chrono::seconds(std::min(number(json, "TTL"), kLongest));
}

std::string text(const Json& json, const char* name) {
  const Json& value = member(json, name);
  return value.is_string() ? value.get_ref<const std::string&>() : std::string();
}

bool flag(const Json& json, const char* name) {
  const Json& value = member(json, name);
  return value.is_boolean() && value.get<bool>();
}

Result<KeyValue> parse_pair(const Json& json) {
  TOWPATH_TRY(const Bytes key, net::from_base64(text(json, "key")));
  TOWPATH_TRY(Bytes value, net::from_base64(text(json, "value")));
  return KeyValue{.key = std::string(as_text(key)),
                  .value = std::move(value),
                  .mod_revision = number(json, "mod_revision"),
                  .lease = number(json, "lease")};
}

}  // namespace

Call range(const RangeQuery& query) {
  Json json{{"key", base64(query.key)}};
  if (!query.end.empty()) json["range_end"] = base64(query.end);
  if (query.revision != 0) json["revision"] = cat(query.revision);
  if (query.limit != 0) json["limit"] = cat(query.limit);
  if (query.keys_only) json["keys_only"] = true;
  return {"/v3/kv/range", written(json)};
}

Result<RangeReply> parse_range(std::string_view body) {
  TOWPATH_TRY(const Json json, parse(body));
  RangeReply reply{.revision = number(member(json, "header"), "revision"), .pairs = {}};
  if (reply.revision <= 0) return not_etcd("a range without a revision", body);
  reply.more = flag(json, "more");
  for (const Json& each : member(json, "kvs")) {
    TOWPATH_TRY(KeyValue pair, parse_pair(each));
    reply.pairs.push_back(std::move(pair));
  }
  return reply;
}

Call put(const PutQuery& query) {
  Json json{{"key", base64(query.key)}, {"value", net::to_base64(query.value)}};
  if (query.lease != 0) json["lease"] = cat(query.lease);
  return {"/v3/kv/put", written(json)};
}

Call remove(std::string_view key, LeaseId lease) {
  const Json compare{{"key", base64(key)}, {"target", "LEASE"}, {"lease", cat(lease)}};
  const Json request{{"request_delete_range", {{"key", base64(key)}}}};
  return {"/v3/kv/txn",
          written({{"compare", Json::array({compare})}, {"success", Json::array({request})}})};
}

Call grant(std::chrono::seconds ttl) {
  return {"/v3/lease/grant", written({{"TTL", cat(ttl.count())}})};
}

Result<Lease> parse_grant(std::string_view body) {
  TOWPATH_TRY(const Json json, parse(body));
  const Lease lease{number(json, "ID"), ttl(json)};
  if (lease.id == 0 || lease.ttl.count() <= 0) return not_etcd("a lease without number", body);
  return lease;
}

Call keep_alive(LeaseId lease) { return {"/v3/lease/keepalive", written({{"ID", cat(lease)}})}; }

Result<Lease> parse_keep_alive(std::string_view body) {
  TOWPATH_TRY(const Json json, parse(body));
  const Json& result = member(json, "result");
  if (!result.is_object()) return not_etcd("no word of a lease", body);
  return Lease{number(result, "ID"), ttl(result)};
}

// Without Json, whose destructor allocates, and ends the process where there is no memory: this is
// called by a destructor.
Call revoke(LeaseId lease) { return {"/v3/lease/revoke", cat(R"({"ID":")", lease, R"("})")}; }

Call watch(const WatchQuery& query) {
  const Json request{{"key", base64(query.key)},
                     {"range_end", base64(query.end)},
                     {"start_revision", cat(query.revision)}};
  return {"/v3/watch", written({{"create_request", request}})};
}

Result<WatchReply> parse_watch(std::string_view line) {
  TOWPATH_TRY(const Json json, parse(line));
  WatchReply reply;
  if (const Json& failed = member(json, "error"); failed.is_object()) {
    reply.ended = true;
    reply.why = text(failed, "message");
    return reply;
  }
  const Json& result = member(json, "result");
  if (!result.is_object()) return not_etcd("no word of a watch", line);
  reply.ended = flag(result, "canceled");
  if (reply.ended) {
    reply.why = text(result, "cancel_reason");
    if (number(result, "compact_revision") != 0) reply.why += "the changes have been compacted";
  }
  for (const Json& each : member(result, "events")) {
    TOWPATH_TRY(KeyValue pair, parse_pair(member(each, "kv")));
    reply.events.push_back({.removed = text(each, "type") == "DELETE", .pair = std::move(pair)});
  }
  return reply;
}

Call authenticate(const Login& login) {
  return {"/v3/auth/authenticate", written({{"name", login.user}, {"password", login.password}})};
}

Result<std::string> parse_token(std::string_view body) {
  TOWPATH_TRY(const Json json, parse(body));
  std::string token = text(json, "token");
  // It becomes a header: no line of its own.
  if (token.empty() || token.find_first_of("\r\n") != std::string::npos)
    return error(Code::corrupt, "etcd's answer to a login holds no token");
  return token;
}

Status parse_failure(int http_status, std::string_view body) {
  const auto json = parse(body);
  if (!json.ok())
    return error(http_status >= 500 ? Code::unavailable : Code::corrupt,
                 cat("status ", http_status, ": ", printable(body, 120)),
                 "see that the endpoint is an etcd of version 3.4 or later");
  std::string said = text(*json, "message");
  if (said.empty()) said = text(*json, "error");
  const std::string what = cat("etcd refuses: ", printable(said, 300));
  const auto about = [&](std::string_view words) { return said.find(words) != std::string::npos; };
  switch (number(*json, "code")) {
    case kNotFound: return error(Code::not_found, what);
    case kUnauthenticated: return error(Code::not_ready, what);
    case kDenied:
    case kFailedPrecondition:
      return error(Code::denied, what, "give a user who may read and write the namespace");
    case kExhausted: return error(Code::out_of_range, what);
    case kInvalidArgument:
      if (about("too large"))
        return error(Code::out_of_range, what, "raise etcd's --max-request-bytes");
      // An expired token says so under different codes in different versions; one that says of
      // which revision of the users it is (JWT) is old as soon as any of them changes.
      if (about("invalid auth token") || about("revision of auth store is old"))
        return error(Code::not_ready, what);
      if (about("auth") || about("user name is empty"))
        return error(Code::denied, what, "give the right user and password");
      return error(Code::invalid_argument, what);
    default: return error(Code::unavailable, what, "see etcd's log");
  }
}

std::string end_of_prefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return std::string(1, '\0');  // etcd: to the end of all keys
  end.back() = static_cast<char>(end.back() + 1);
  return end;
}

}  // namespace towpath::rendezvous::etcd
