// A line of a trace: what is accepted is written and read again as the same request.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <towpath/kv/trace.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using towpath::kv::parse_request;
  const auto request = parse_request({reinterpret_cast<const char*>(data), size});
  if (!request.ok()) return 0;
  const auto again = parse_request(towpath::kv::format_request(*request));
  if (!again.ok() || !(*again == *request)) std::abort();
  return 0;
}
