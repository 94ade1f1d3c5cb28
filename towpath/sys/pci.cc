#include <cstdint>
#include <cstdlib>
#include <memory>

#include <towpath/sys/pci.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kExtended = 0x100;  // where extended capabilities begin
constexpr std::size_t kConfiguration = 4096;
constexpr std::uint32_t kAcs = 0x000D;
constexpr std::size_t kAcsControl = 6;  // behind the capability's start
constexpr std::uint32_t kRedirects = 1U << 2U | 1U << 3U | 1U << 5U;  // RR, CR, EC

/// "0000:17:00.0": a device on the bus, in place of "pci0000:16", which is a root of it.
bool is_pci_address(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && name.find(':') != name.rfind(':') &&
         name.rfind(':') < dot;
}

bool is_pci_root(std::string_view name) { return name.starts_with("pci"); }

/// Part by part from the root of both paths: whether `is` holds for one of the parts above both
/// devices.
template <typename Is>
bool share(const std::string& device, const std::string& other, Is is) {
  std::size_t begin = 0;
  bool shares = false;
  while (begin < device.size()) {
    const std::size_t end = device.find('/', begin);
    if (end == std::string::npos || other.compare(0, end + 1, device, 0, end + 1) != 0) break;
    shares = shares || is(std::string_view(device).substr(begin, end - begin));
    begin = end + 1;
  }
  return shares;
}

/// Little-endian; 0 behind the end.
std::uint32_t word_at(std::string_view bytes, std::size_t at, std::size_t length) {
  std::uint32_t word = 0;
  for (std::size_t i = length; i-- > 0;)
    word = word << 8U | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
  return word;
}

}  // namespace

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : std::string();
}

bool share_switch(const std::string& device, const std::string& other) {
  return share(device, other, is_pci_address);
}

bool share_root(const std::string& device, const std::string& other) {
  return share(device, other, is_pci_root);
}

std::vector<std::string> bridges_above(const std::string& device) {
  std::vector<std::string> bridges;
  for (std::size_t at = device.find('/'); at != std::string::npos; at = device.find('/', at + 1)) {
    const std::string_view above = std::string_view(device).substr(0, at);
    if (is_pci_address(above.substr(above.rfind('/') + 1))) bridges.emplace_back(above);
  }
  return bridges;
}

std::optional<bool> redirects_peers(const std::string& bridge) {
  const auto bytes = read_text_file(bridge + "/config", kConfiguration);
  if (!bytes.ok() || bytes->size() <= kExtended) return std::nullopt;
  // Each capability names the next one; a list that runs in a ring ends with the number of places.
  std::size_t at = kExtended;
  for (std::size_t i = 0; at >= kExtended && i < kConfiguration / 4; ++i) {
    const std::uint32_t head = word_at(*bytes, at, 4);
    if ((head & 0xFFFFU) == kAcs) return (word_at(*bytes, at + kAcsControl, 2) & kRedirects) != 0;
    at = head >> 20U & 0xFFCU;
  }
  return false;
}

}  // namespace towpath::sys
