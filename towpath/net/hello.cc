#include <string>

#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/net/hello.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

namespace towpath::net {

namespace {

using wire::FieldRule;
using wire::Kind;
using wire::Tag;

// docs/formats/hello.md
constexpr Tag kService = wire::required(1), kToken = wire::required(2);
constexpr FieldRule kHelloRules[] = {
    {kService, "service", Kind::bytes, wire::kOne, 64},
    {kToken, "token", Kind::bytes, wire::kAtMostOne, Token::kMaxBytes},
};
constexpr wire::Schema kHelloSchema("hello", kHelloRules);

}  // namespace

Bytes make_hello(std::string_view service, const std::optional<Token>& token) {
  wire::Encoder hello(kHelloSchema);
  hello.put_text(kService, service);
  if (token) hello.put_text(kToken, token->secret());
  auto payload = std::move(hello).finish();
  TOWPATH_CHECK(payload.ok(), "a service of at most 64 bytes");
  return wire::seal({.type = kHelloLimits.type, .version = 1}, *payload);
}

Status check_hello(ConstByteSpan payload, std::string_view service,
                   const std::optional<Token>& token) {
  std::string_view wanted;
  std::optional<std::string_view> reported;
  TOWPATH_TRY(wire::decode(wire::Decoder(payload, kHelloSchema), [&](const wire::Field& field) {
    if (field.tag() == kService) wanted = field.text();
    if (field.tag() == kToken) reported = field.text();
    return Status();
  }));
  if (wanted != service)
    return error(Code::invalid_argument, cat("a client that wants '", printable(wanted),
                                             "' came to a listener of '", service, "'"));
  if (!token || (reported && token->matches(*reported))) return {};
  return error(Code::denied, reported ? "the token is another one" : "no token was sent",
               "give both sides the same token");
}

}  // namespace towpath::net
