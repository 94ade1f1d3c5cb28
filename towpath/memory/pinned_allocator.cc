#include <algorithm>

#include <towpath/core/text.h>
#include <towpath/memory/pinned_allocator.h>
#include <towpath/memory/system_region.h>

namespace towpath::memory {
namespace {

PinWay other_than(PinWay way) { return way == PinWay::driver ? PinWay::mapped : PinWay::driver; }

std::size_t index_of(PinWay way) { return static_cast<std::size_t>(way); }

std::string time_text(const MeasuredChoice& measured, PinWay way) {
  const auto time = measured.best(index_of(way));
  return time ? cat(time->count() / 1000, " us") : std::string("failed");
}

/// The faster one; the driver's, where neither got through.
PinWay faster(const MeasuredChoice& measured) {
  return measured.fastest() == index_of(PinWay::mapped) ? PinWay::mapped : PinWay::driver;
}

}  // namespace

std::string_view name_of(PinWay way) noexcept {
  return way == PinWay::driver ? "driver" : "mapped";
}

Result<std::unique_ptr<PinnedAllocator>> PinnedAllocator::create(
    std::shared_ptr<device::Device> device, const Clock& clock, PinnedOptions options) {
  if (device == nullptr)
    return error(Code::invalid_argument, "cannot pin memory for no device",
                 "open a device of a driver (device/driver.h)");
  if (options.huge_pages == sys::HugePages::required) {
    if (options.way == PinWay::driver)
      return error(Code::invalid_argument, "a driver's own memory is not in huge pages of ours",
                   "choose the mapped way, or best_effort");
    options.way = PinWay::mapped;
  }
  if (!options.node) options.node = device->info().numa_node;
  return std::unique_ptr<PinnedAllocator>(
      new PinnedAllocator(std::move(device), clock, std::move(options)));
}

Result<std::shared_ptr<PinnedRegion>> PinnedAllocator::allocate_by(PinWay way,
                                                                   std::uint64_t size_bytes) {
  if (way == PinWay::driver) return PinnedRegion::allocate(device_, size_bytes);
  TOWPATH_TRY(auto base, SystemRegion::allocate({.size_bytes = size_bytes,
                                                 .huge_pages = options_.huge_pages,
                                                 .node = options_.node,
                                                 .touch = &workers_,
                                                 .touch_timeout = options_.touch_timeout}));
  const Placement& had = base->placement();
  options_.log.debug("pages for pinned memory",
                     {{"bytes", cat(size_bytes)},
                      {"pages", cat(sys::name_of(had.pages), " of ", format_bytes(had.page_bytes))},
                      {"node", had.node ? cat(*had.node) : std::string("any")},
                      {"threads", cat(had.touch_threads)},
                      {"note", had.note}});
  return PinnedRegion::pin(std::move(base), device_, options_.log);
}

std::optional<Duration> PinnedAllocator::time_of(PinWay way, std::uint64_t size_bytes) {
  const Instant begin = clock_.now();
  const auto region = allocate_by(way, size_bytes);
  const Duration time = clock_.now() - begin;
  if (region.ok()) return time;
  options_.log.warning(
      "a way to pin memory failed in its trial",
      {{"way", std::string(name_of(way))}, {"cause", region.status().to_string()}});
  return std::nullopt;
}

MeasuredChoice PinnedAllocator::measure() {
  MeasuredChoice measured(kPinWays);
  for (const PinWay way : {PinWay::driver, PinWay::mapped})
    measured.note(index_of(way), time_of(way, options_.trial_bytes));
  options_.log.info("how to get pinned memory was measured",
                    {{"chosen", std::string(name_of(faster(measured)))},
                     {"bytes", cat(options_.trial_bytes)},
                     {"driver", time_text(measured, PinWay::driver)},
                     {"mapped", time_text(measured, PinWay::mapped)}});
  return measured;
}

PinWay PinnedAllocator::way_for(std::uint64_t size_bytes) {
  if (options_.way) return *options_.way;
  const run::MutexLock lock(mutex_);  // one measures, the others wait for what it finds
  if (!measured_ && size_bytes < options_.trial_bytes) return PinWay::driver;
  if (!measured_) measured_ = measure();
  return faster(*measured_);
}

Result<std::shared_ptr<PinnedRegion>> PinnedAllocator::allocate(std::uint64_t size_bytes) {
  if (size_bytes == 0)
    return error(Code::invalid_argument, "cannot allocate 0 bytes of pinned memory",
                 "ask for at least 1 byte");
  const PinWay way = way_for(size_bytes);
  auto region = allocate_by(way, size_bytes);
  if (region.ok() || options_.way) return region;
  options_.log.warning(
      "pinned memory could not be had so; trying the other way",
      {{"way", std::string(name_of(way))}, {"cause", region.status().to_string()}});
  auto other = allocate_by(other_than(way), size_bytes);
  if (other.ok()) return other;
  return error(other.code(),
               cat("cannot allocate ", size_bytes, " bytes of pinned memory in either way; ",
                   name_of(way), ": ", region.status().to_string()),
               std::string(other.status().hint()))
      .because(other.status());
}

std::optional<MeasuredChoice> PinnedAllocator::measurement() const {
  const run::MutexLock lock(mutex_);
  return measured_;
}

}  // namespace towpath::memory
