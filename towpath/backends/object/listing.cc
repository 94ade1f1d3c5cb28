#include <towpath/backends/object/listing.h>
#include <towpath/backends/object/reply.h>
#include <towpath/backends/object/xml.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

// An item takes some 300 bytes and the longest key 1024: a page stays within kMaxXmlBytes unless
// keys are all of the longest.
constexpr std::uint64_t kPage = 500;

}  // namespace

Ask ask_for_page(const std::string& bucket, const std::string& prefix, const std::string& next) {
  Ask ask{.method = "GET",
          .name = {bucket, {}},
          .query = {{"list-type", "2"}, {"max-keys", cat(kPage)}, {"prefix", prefix}}};
  if (!next.empty()) ask.query.emplace_back("continuation-token", next);
  return ask;
}

Result<ListingPage> read_page(std::string_view body) {
  TOWPATH_TRY(const XmlElement read, parse_xml(body, "Contents"));
  if (read.name != "ListBucketResult")
    return error(Code::corrupt, cat("'", printable(read.name), "' is no list of objects"));
  ListingPage page;
  for (const XmlFields& item : read.items) {
    const auto bytes = parse_size(field_of(item, "Size"));
    if (!bytes || field_of(item, "Key").empty())
      return error(Code::corrupt, "an object is listed without its key, or its size");
    page.objects.push_back({.key = std::string(field_of(item, "Key")),
                            .bytes = *bytes,
                            .modified = std::string(field_of(item, "LastModified"))});
  }
  if (read.field("IsTruncated") == "true") {
    page.next = read.field("NextContinuationToken");
    if (page.next.empty()) return error(Code::corrupt, "a list goes on, and does not say where");
  }
  return page;
}

}  // namespace towpath::backends::object
