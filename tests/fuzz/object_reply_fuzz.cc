// What an object store, or whatever answers in its place, says to us, and a file of credentials: it
// is read or refused; what is read of a range holds together, and text that we put in XML comes
// back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <towpath/backends/object/listing.h>
#include <towpath/backends/object/reply.h>
#include <towpath/backends/object/signature.h>
#include <towpath/backends/object/store_address.h>
#include <towpath/backends/object/xml.h>
#include <towpath/standard/object_settings.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace towpath;
  using namespace towpath::backends::object;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto xml = parse_xml(text); xml.ok() && xml->name.empty()) __builtin_trap();
  const StoreError said = read_error({.status = 400, .body = to_bytes(text)});
  if (status_of(said, "GET").ok()) __builtin_trap();
  if (const auto range = parse_content_range(text))
    if (range->last < range->first || (range->total && *range->total <= range->last))
      __builtin_trap();
  if (const auto page = read_page(text); page.ok())
    for (const ListedObject& object : page->objects)
      if (object.key.empty()) __builtin_trap();
  if (text.size() < 4096) {
    const auto again = parse_xml("<R><T>" + escape_xml(text) + "</T></R>");
    if (!again.ok() || again->field("T") != text) __builtin_trap();
  }
  if (const auto address = StoreAddress::parse(std::string(text), "https"); address.ok())
    if (address->host.empty() || address->target({"bucket", "key"}).path.front() != '/')
      __builtin_trap();
  (void)encode_uri(text, Slashes::kept);
  (void)standard::profile_settings(text, "default");
  return 0;
}
