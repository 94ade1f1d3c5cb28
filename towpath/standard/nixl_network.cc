#include <algorithm>
#include <array>

#include <net/if.h>

#include <towpath/core/words.h>
#include <towpath/standard/nixl_network.h>
#include <towpath/sys/rdma_ports.h>

namespace towpath::standard {
namespace {

constexpr std::array<std::string_view, 9> kThroughMemory = {"all",  "shm", "sm",   "mm",   "posix",
                                                            "sysv", "cma", "knem", "xpmem"};
constexpr std::size_t kWhole = 3;  // the first ones: all of it, when they are taken away

/// As UCX reads it: names with commas, an auxiliary one with ":aux" behind, "^" in front for all
/// but these.
class UcxList {
 public:
  explicit UcxList(std::string_view text) : is_without_(text.starts_with('^')) {
    if (is_without_) text.remove_prefix(1);
    for (std::string_view word; !(word = next_word(text, ", ")).empty();)
      words_.push_back(word.substr(0, word.find(':')));
  }

  bool is_empty() const { return words_.empty(); }
  bool is_without() const { return is_without_; }
  template <typename Is>
  bool names_any(Is is) const {
    return std::ranges::any_of(words_, is);
  }

 private:
  std::vector<std::string_view> words_;
  bool is_without_;
};

bool is_tcp(std::string_view word) { return word == "tcp"; }
bool is_all(std::string_view word) { return word == "all"; }

bool is_of_network(std::string_view word) {
  return word != "self" && !is_tcp(word) &&
         std::ranges::find(kThroughMemory, word) == kThroughMemory.end();
}

}  // namespace

NetworkHere NetworkHere::look() {
  return {.has_rdma = !sys::rdma_ports().empty(), .is_interface = [](const std::string& name) {
            return ::if_nametoindex(name.c_str()) != 0;
          }};
}

std::vector<std::string> network_types(const UcxWords& words, const NetworkHere& here) {
  const UcxList transports(words.transports);
  const UcxList devices(words.devices);
  const bool is_open =
      transports.is_empty() || transports.is_without() || transports.names_any(is_all);
  const bool chooses_devices = !devices.is_empty() && !devices.names_any(is_all);
  const bool only_interfaces = chooses_devices && !devices.names_any([&](std::string_view device) {
    return !here.is_interface(std::string(device));
  });
  bool ucx = is_open ? here.has_rdma : transports.names_any(is_of_network);
  bool tcp = transports.names_any(is_tcp) ? !transports.is_without() : is_open;
  if (only_interfaces) ucx = false;
  if (chooses_devices && !only_interfaces) tcp = false;
  std::vector<std::string> types;
  // Also where nothing is left of either: UCX says what it makes of such words.
  if (ucx || words.has_settings || !tcp) types.emplace_back("ucx");
  if (tcp && !words.has_settings) types.emplace_back("tcp");
  return types;
}

bool shares_memory(std::string_view transports) {
  if (transports.empty()) return true;
  const UcxList list(transports);
  const auto* const end =
      list.is_without() ? kThroughMemory.begin() + kWhole : kThroughMemory.end();
  const bool named = list.names_any(
      [&](std::string_view word) { return std::find(kThroughMemory.begin(), end, word) != end; });
  return named != list.is_without();
}

}  // namespace towpath::standard
