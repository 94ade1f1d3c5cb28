// Hello: the first frame of a connection, from the side that connected: what it wants to speak of.
// docs/formats/hello.md draws it.
//
// It proves nothing: TLS, or the kernel for a Unix socket, has done that before. The listener says
// nothing to a good hello; the next frame follows at once, without a round trip. Thread: any.
#pragma once

#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/wire/envelope.h>

namespace towpath::net {

/// What a reader takes as the first frame. An unauthenticated connection may hold this much, and no
/// more.
inline constexpr wire::OpenLimits kHelloLimits{
    .type = wire::MessageType::peer_hello, .max_version = 1, .max_payload_bytes = 512};

/// A sealed hello. `service` has at most 64 bytes.
Bytes make_hello(std::string_view service);

/// Whether who sent `payload` may go on. Errors: corrupt, unsupported (as decoding fails),
/// invalid_argument (it wants another service).
Status check_hello(ConstByteSpan payload, std::string_view service);

}  // namespace towpath::net
