#include <array>

#include <towpath/blockcopy/route.h>
#include <towpath/core/format.h>

namespace towpath::blockcopy {
namespace {

constexpr std::size_t kEnds = 4;

/// Usual routes, by source and target.
constexpr Route kUsual[kEnds][kEnds] = {
    {
        {RouteEnd::host, RouteEnd::host, Mover::memory, Mover::none,
         "both are memory of this process"},
        {RouteEnd::host, RouteEnd::device, Mover::engine, Mover::none,
         "the device reads host memory"},
        {RouteEnd::host, RouteEnd::storage, Mover::write, Mover::none,
         "a backend reads host memory"},
        {RouteEnd::host, RouteEnd::remote, Mover::write, Mover::none,
         "a backend reads host memory"},
    },
    {
        {RouteEnd::device, RouteEnd::host, Mover::engine, Mover::none,
         "the device writes host memory"},
        {RouteEnd::device, RouteEnd::device, Mover::engine, Mover::none, "the device reaches both"},
        {RouteEnd::device, RouteEnd::storage, Mover::engine, Mover::write,
         "no direct way between device and storage was proven"},
        {RouteEnd::device, RouteEnd::remote, Mover::engine, Mover::write,
         "no direct way between device and peer was proven"},
    },
    {
        {RouteEnd::storage, RouteEnd::host, Mover::read, Mover::none,
         "a backend writes host memory"},
        {RouteEnd::storage, RouteEnd::device, Mover::read, Mover::engine,
         "no direct way between storage and device was proven"},
        {RouteEnd::storage, RouteEnd::storage, Mover::read, Mover::write,
         "bytes of storage pass through host memory"},
        {RouteEnd::storage, RouteEnd::remote, Mover::read, Mover::write,
         "bytes of storage pass through host memory"},
    },
    {
        {RouteEnd::remote, RouteEnd::host, Mover::read, Mover::none,
         "a backend writes host memory"},
        {RouteEnd::remote, RouteEnd::device, Mover::read, Mover::engine,
         "no direct way between peer and device was proven"},
        {RouteEnd::remote, RouteEnd::storage, Mover::read, Mover::write,
         "bytes for storage pass through host memory"},
        {RouteEnd::remote, RouteEnd::remote, Mover::read, Mover::write,
         "a peer's bytes reach another peer through this agent"},
    },
};

constexpr std::size_t index_of(RouteEnd end) { return static_cast<std::size_t>(end); }

constexpr bool table_stands_in_order() {
  for (std::size_t s = 0; s < kEnds; ++s)
    for (std::size_t t = 0; t < kEnds; ++t)
      if (index_of(kUsual[s][t].source) != s || index_of(kUsual[s][t].target) != t) return false;
  return true;
}
static_assert(table_stands_in_order());

bool is_direct(RouteEnd device_side, RouteEnd far_side, const RouteFacts& facts) {
  if (device_side != RouteEnd::device) return false;
  return (far_side == RouteEnd::storage && facts.storage_reaches_device) ||
         (far_side == RouteEnd::remote && facts.remote_reaches_device);
}

/// Short pieces are reordered here, at the end of the route that is host memory.
Route reordering(const Route& usual) {
  Route route = usual;
  route.reason = "the order of bytes differs and pieces are short: this process reorders them";
  if (usual.source == RouteEnd::host) {
    route.first = Mover::memory;
    route.second = usual.first;
  } else {
    route.second = Mover::memory;
  }
  return route;
}

/// Short pieces between a device and a bounce buffer.
Route by_kernel(const Route& usual) {
  Route route = usual;
  if (route.first == Mover::engine) route.first = Mover::kernel;
  if (route.second == Mover::engine) route.second = Mover::kernel;
  return route;
}

}  // namespace

std::string_view name_of(RouteEnd end) noexcept {
  constexpr std::array<std::string_view, kEnds> kNames = {"host", "device", "storage", "remote"};
  return kNames[index_of(end)];
}

std::string_view name_of(Mover mover) noexcept {
  switch (mover) {
    case Mover::none: return "none";
    case Mover::memory: return "memory";
    case Mover::engine: return "engine";
    case Mover::kernel: return "kernel";
    case Mover::read: return "read";
    case Mover::write: return "write";
  }
  return "unknown";
}

RouteEnd end_of(MemoryKind kind, bool is_remote) noexcept {
  if (is_remote) return RouteEnd::remote;
  if (is_host_addressable(kind)) return RouteEnd::host;
  return kind == MemoryKind::device ? RouteEnd::device : RouteEnd::storage;
}

Route choose(RouteEnd source, RouteEnd target, const RouteFacts& facts) noexcept {
  const Route& usual = kUsual[index_of(source)][index_of(target)];
  const bool between_devices = source == RouteEnd::device && target == RouteEnd::device;
  if (between_devices && !facts.is_same_device && !facts.devices_reach_each_other)
    return {source, target, Mover::engine, Mover::engine, "the devices do not reach each other"};
  if (facts.has_short_pieces && usual.first == Mover::engine && !usual.has_two_hops()) {
    if (facts.kernel_reaches_both)
      return {source, target, Mover::kernel, Mover::none, "pieces are short: a kernel moves them"};
    if (between_devices)
      return {source, target, Mover::engine, Mover::none,
              "pieces are short, and the device has no kernel for them"};
  }
  if (is_direct(source, target, facts))
    return {source, target, Mover::write, Mover::none, "a direct way was proven"};
  if (is_direct(target, source, facts))
    return {source, target, Mover::read, Mover::none, "a direct way was proven"};
  const bool crosses = (source == RouteEnd::host) != (target == RouteEnd::host);
  if (crosses && facts.reorders_short_pieces) return reordering(usual);
  const bool kernel = facts.has_short_pieces && facts.kernel_reaches_bounce;
  return kernel && usual.has_two_hops() ? by_kernel(usual) : usual;
}

std::string to_string(const Route& route) {
  std::string hops(name_of(route.first));
  if (route.has_two_hops()) hops += cat(", then ", name_of(route.second));
  return cat(name_of(route.source), " to ", name_of(route.target), ": ", hops, ": ", route.reason);
}

}  // namespace towpath::blockcopy
