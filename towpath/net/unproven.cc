#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include <netinet/in.h>
#include <sys/ioctl.h>

#include <towpath/core/format.h>
#include <towpath/net/unproven.h>

namespace towpath::net {
namespace {

std::size_t count_of(const Source& source, std::span<const Unproven> all) {
  return static_cast<std::size_t>(std::ranges::count(all, source, &Unproven::source));
}

/// The host that has most, and how many. There is one.
std::pair<Source, std::size_t> busiest(std::span<const Unproven> all) {
  std::map<Source, std::size_t> counts;
  for (const Unproven& one : all) ++counts[host_of(one.source)];
  return *std::ranges::max_element(counts, {}, &std::pair<const Source, std::size_t>::second);
}

template <typename IsOne>
Result<std::optional<std::uint64_t>> one_of(const Crowd& crowd, IsOne is_one, bool is_at_once) {
  const auto rank = [&](const Unproven& one) {
    return std::tuple(!is_one(one.source), one.has_spoken, one.silent_since);
  };
  const Unproven& last = *std::ranges::min_element(crowd.unproven, {}, rank);
  const bool is_early = !is_at_once && crowd.now - last.silent_since < last.silent_at_least;
  if (is_early || has_input(last.socket))
    return error(Code::exhausted, cat(crowd.unproven.size(),
                                      " connections wait that have proven nothing; more are not "
                                      "taken"));
  return std::optional(last.id);
}

}  // namespace

Source source_of(const Endpoint& peer) noexcept {
  Source source{};
  if (peer.storage.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &peer.storage, sizeof four);
    std::memcpy(source.data(), &four.sin_addr, sizeof four.sin_addr);
    return source;
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &peer.storage, sizeof six);
  const bool is_four = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
  std::memcpy(source.data(), six.sin6_addr.s6_addr + (is_four ? 12 : 0), is_four ? 4 : 7);
  return source;
}

Source host_of(const Source& source) noexcept {
  constexpr Source kLoopback{std::byte{127}};  // no address of IPv6 that is in use begins so
  return source.front() == kLoopback.front() ? kLoopback : source;
}

bool has_input(int socket) noexcept {
  int bytes = 0;
  return ::ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

Result<std::optional<std::uint64_t>> displaced_by(const std::optional<Source>& source,
                                                  const Crowd& crowd) {
  const std::size_t same = source ? count_of(*source, crowd.unproven) : 0;
  const auto is_its_own = [&](const Source& one) { return one == source; };
  if (source && same >= crowd.most_per_source) return one_of(crowd, is_its_own, false);
  if (!crowd.is_full) return std::optional<std::uint64_t>();
  if (crowd.unproven.empty())
    return error(Code::exhausted, "all places are of connections that have proven themselves");
  const auto [most, count] = busiest(crowd.unproven);
  const auto is_of_host = [host = most](const Source& one) { return host_of(one) == host; };
  return one_of(crowd, is_of_host, source && same == 0 && count > 1);
}

}  // namespace towpath::net
