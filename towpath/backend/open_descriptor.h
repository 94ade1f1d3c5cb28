// Which file a descriptor is of. Its number says little: a user may have closed it, and opened
// another file, which has the number now. Thread: any.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include <towpath/core/result.h>

namespace towpath::backend {

/// What two descriptors agree in that were opened in one way of one file.
struct OpenDescriptor {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  int flags = 0;  ///< of open(2)
  friend auto operator<=>(const OpenDescriptor&, const OpenDescriptor&) = default;
};

/// Of a disk region's descriptor. Errors: invalid_argument (it is not open). Cost: two system
/// calls.
Result<OpenDescriptor> identify_descriptor(int fd);

/// Whether `fd`, of a region that was registered as a part of `file`, still is of that file, which
/// is called `name`. Errors: already_exists (it is of another), invalid_argument.
Status confirm_descriptor(int fd, const OpenDescriptor& file, std::string_view name);

}  // namespace towpath::backend
