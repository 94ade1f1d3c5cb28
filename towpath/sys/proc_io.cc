#include <towpath/core/format.h>
#include <towpath/sys/proc_io.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {

Result<ProcIo> parse_proc_io(std::string_view text) {
  ProcIo counters;
  struct Field {
    std::string_view key;
    std::uint64_t* value;
  };
  const Field fields[] = {{"rchar:", &counters.read_chars},
                          {"wchar:", &counters.written_chars},
                          {"read_bytes:", &counters.read_bytes},
                          {"write_bytes:", &counters.written_bytes},
                          {"cancelled_write_bytes:", &counters.cancelled_write_bytes}};
  for (const auto& [key, value] : fields) {
    const auto rest = line_after(text, key);
    const auto number = rest ? parse_number(*rest) : std::nullopt;
    if (!number)
      return error(Code::corrupt, cat("no '", key, "' with a number among the kernel's counters"));
    *value = *number;
  }
  return counters;
}

Result<ProcIo> read_proc_io(const std::string& path) {
  TOWPATH_TRY(const std::string text, read_text_file(path));
  return parse_proc_io(text);
}

}  // namespace towpath::sys
