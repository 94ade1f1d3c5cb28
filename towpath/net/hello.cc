#include <string>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/net/hello.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

namespace towpath::net {

namespace {

using wire::FieldRule;
using wire::Kind;
using wire::Tag;

// docs/formats/hello.md
constexpr Tag kService = wire::required(1);  // 2 was a token, in releases before 0.2
constexpr FieldRule kHelloRules[] = {
    {kService, "service", Kind::bytes, wire::kOne, 64},
};
constexpr wire::Schema kHelloSchema("hello", kHelloRules);

}  // namespace

Bytes make_hello(std::string_view service) {
  wire::Encoder hello(kHelloSchema);
  hello.put_text(kService, service);
  auto payload = std::move(hello).finish();
  TOWPATH_CHECK(payload.ok(), "a service of at most 64 bytes");
  return wire::seal({.type = kHelloLimits.type, .version = 1}, *payload);
}

Status check_hello(ConstByteSpan payload, std::string_view service) {
  std::string_view wanted;
  TOWPATH_TRY(wire::decode(wire::Decoder(payload, kHelloSchema), [&](const wire::Field& field) {
    if (field.tag() == kService) wanted = field.text();
    return Status();
  }));
  if (wanted == service) return {};
  return error(Code::invalid_argument, cat("a client that wants '", printable(wanted),
                                           "' came to a listener of '", service, "'"));
}

}  // namespace towpath::net
