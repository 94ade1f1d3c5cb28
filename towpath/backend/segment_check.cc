#include <string>

#include <towpath/backend/segment_check.h>
#include <towpath/core/format.h>

namespace towpath::backend {

Status error_of_segment(std::uint64_t index, const Status& why) {
  return error(why.code(), cat("segment ", index, ": ", why.message()), std::string(why.hint()));
}

Status lacks_a_memory() { return error(Code::invalid_argument, "a segment lacks a memory"); }

}  // namespace towpath::backend
