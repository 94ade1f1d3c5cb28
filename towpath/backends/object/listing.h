// What a store has under a prefix, page by page: ListObjectsV2, asked and read. Pure.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/backends/object/client.h>

namespace towpath::backends::object {

struct ListedObject {
  std::string key;
  std::uint64_t bytes = 0;
  std::string modified;  ///< in UTC, ISO 8601: in the order of time as text
};

struct ListingPage {
  std::vector<ListedObject> objects;
  std::string next;  ///< to ask for the next page with; empty: this is the last
};

/// `next` is that of the page before; empty: from the beginning.
Ask ask_for_page(const std::string& bucket, const std::string& prefix, const std::string& next);
/// Errors: corrupt.
Result<ListingPage> read_page(std::string_view body);

}  // namespace towpath::backends::object
