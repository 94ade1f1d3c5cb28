#include <algorithm>
#include <array>
#include <chrono>

#include <towpath/backends/object/signature.h>
#include <towpath/core/format.h>
#include <towpath/net/digest.h>

namespace towpath::backends::object {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr std::string_view kTerminator = "aws4_request";

bool is_unreserved(char letter) {
  return (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '.' || letter == '_' ||
         letter == '~';
}

std::string two_digits(unsigned value) { return cat(value < 10 ? "0" : "", value); }

/// Without the space around it, and of several spaces inside one.
std::string squeezed(std::string_view value) {
  std::string out;
  for (const char letter : value) {
    const bool space = letter == ' ' || letter == '\t' || letter == '\n';
    if (!space)
      out.push_back(letter);
    else if (!out.empty() && out.back() != ' ')
      out.push_back(' ');
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::vector<NameValue> sorted(std::vector<NameValue> list) {
  std::ranges::stable_sort(list, {}, &NameValue::first);
  return list;
}

std::string signed_names(const std::vector<NameValue>& headers) {
  std::string names;
  for (const auto& [name, value] : sorted(headers)) names += cat(names.empty() ? "" : ";", name);
  return names;
}

net::Digest keyed(ConstByteSpan key, std::string_view message) {
  return net::hmac_sha256(key, as_bytes(message));
}

net::Digest signing_key(const Scope& scope, const Secret& secret) {
  const Secret first(cat("AWS4", secret.reveal()));
  net::Digest key = keyed(as_bytes(first.reveal()), scope.date());
  for (const std::string_view step :
       {std::string_view(scope.region), std::string_view(scope.service), kTerminator})
    key = keyed(key, step);
  return key;
}

}  // namespace

std::string Scope::to_string() const {
  return cat(date(), "/", region, "/", service, "/", kTerminator);
}

std::string amazon_time(Duration since_epoch) {
  using namespace std::chrono;
  const sys_seconds now{floor<seconds>(since_epoch)};
  const auto day = floor<days>(now);
  const year_month_day date{day};
  const hh_mm_ss time{now - day};
  return cat(static_cast<int>(date.year()), two_digits(static_cast<unsigned>(date.month())),
             two_digits(static_cast<unsigned>(date.day())), "T",
             two_digits(static_cast<unsigned>(time.hours().count())),
             two_digits(static_cast<unsigned>(time.minutes().count())),
             two_digits(static_cast<unsigned>(time.seconds().count())), "Z");
}

std::string encode_uri(std::string_view text, Slashes slashes) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char letter : text) {
    if (is_unreserved(letter) || (letter == '/' && slashes == Slashes::kept)) {
      out.push_back(letter);
      continue;
    }
    const auto byte = static_cast<unsigned char>(letter);
    out += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return out;
}

std::string canonical_query(const std::vector<NameValue>& query) {
  std::vector<NameValue> encoded;
  for (const auto& [name, value] : query)
    encoded.emplace_back(encode_uri(name, Slashes::encoded), encode_uri(value, Slashes::encoded));
  std::ranges::sort(encoded);
  std::string out;
  for (const auto& [name, value] : encoded) out += cat(out.empty() ? "" : "&", name, "=", value);
  return out;
}

std::string canonical_request(const SignedParts& parts) {
  std::string headers;
  for (const auto& [name, value] : sorted(parts.headers))
    headers += cat(name, ":", squeezed(value), "\n");
  return cat(parts.method, "\n", parts.path, "\n", canonical_query(parts.query), "\n", headers,
             "\n", signed_names(parts.headers), "\n", parts.payload_hash);
}

std::string string_to_sign(const Scope& scope, std::string_view canonical_request) {
  return cat(kAlgorithm, "\n", scope.time, "\n", scope.to_string(), "\n",
             net::to_hex(net::sha256(as_bytes(canonical_request))));
}

std::string authorization(const SignedParts& parts, const Scope& scope, const Credentials& who) {
  const std::string what = string_to_sign(scope, canonical_request(parts));
  return cat(kAlgorithm, " Credential=", who.access_key, "/", scope.to_string(),
             ",SignedHeaders=", signed_names(parts.headers),
             ",Signature=", net::to_hex(keyed(signing_key(scope, who.secret_key), what)));
}

}  // namespace towpath::backends::object
