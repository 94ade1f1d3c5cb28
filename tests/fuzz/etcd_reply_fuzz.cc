// What an etcd, or whatever answers in its place, says to us: it is read or refused, and every key
// that is taken for metadata's is written back the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <towpath/net/base64.h>
#include <towpath/rendezvous/etcd_keys.h>
#include <towpath/rendezvous/etcd_messages.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace towpath;
  using namespace towpath::rendezvous;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const etcd::Keys kKeys = *etcd::Keys::in("/t");
  if (const auto reply = etcd::parse_range(text); reply.ok())
    for (const auto& pair : reply->pairs)
      if (const auto name = kKeys.name(pair.key); name && kKeys.key(*name) != pair.key)
        __builtin_trap();
  (void)etcd::parse_watch(text);
  (void)etcd::parse_grant(text);
  (void)etcd::parse_keep_alive(text);
  (void)etcd::parse_token(text);
  (void)etcd::parse_failure(400, text);
  if (const auto bytes = net::from_base64(text); bytes.ok() && net::to_base64(*bytes) != text)
    __builtin_trap();
  return 0;
}
