#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/core/measured_choice.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/memory/system_region.h>

namespace towpath::memory {
namespace {

PinMethod other_than(PinMethod method) {
  return method == PinMethod::driver ? PinMethod::mapped : PinMethod::driver;
}

std::size_t index_of(PinMethod method) { return static_cast<std::size_t>(method); }

std::string time_text(const MeasuredChoice& measured, PinMethod method) {
  const auto time = measured.best(index_of(method));
  return time ? cat(time->count() / 1000, " us") : std::string("failed");
}

/// The faster one; the driver's, where neither got through.
PinMethod faster(const MeasuredChoice& measured) {
  return measured.fastest() == index_of(PinMethod::mapped) ? PinMethod::mapped : PinMethod::driver;
}

}  // namespace

std::string_view name_of(PinMethod method) noexcept {
  return method == PinMethod::driver ? "driver" : "mapped";
}

Result<std::unique_ptr<PinnedAllocator>> PinnedAllocator::create(
    std::shared_ptr<device::Device> device, const Clock& clock, PinnedOptions options) {
  if (device == nullptr)
    return error(Code::invalid_argument, "cannot pin memory for no device",
                 "open a device of a driver (device/driver.h)");
  if (options.huge_pages == sys::HugePages::required) {
    if (options.method == PinMethod::driver)
      return error(Code::invalid_argument, "a driver's own memory is not in huge pages of ours",
                   "choose the mapped way, or best_effort");
    options.method = PinMethod::mapped;
  }
  if (!options.node) options.node = device->info().numa_node;
  return std::unique_ptr<PinnedAllocator>(
      new PinnedAllocator(std::move(device), clock, std::move(options)));
}

PinnedAllocator::PinnedAllocator(std::shared_ptr<device::Device> device, const Clock& clock,
                                 PinnedOptions options)
    : device_(std::move(device)),
      clock_(clock),
      options_(std::move(options)),
      workers_(clock, {.threads = options_.touch_threads}) {}
PinnedAllocator::~PinnedAllocator() = default;

Result<std::shared_ptr<PinnedRegion>> PinnedAllocator::allocate_by(PinMethod method,
                                                                   std::uint64_t size_bytes) {
  if (method == PinMethod::driver) return PinnedRegion::allocate(device_, size_bytes);
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

std::optional<Duration> PinnedAllocator::time_of(PinMethod method, std::uint64_t size_bytes) {
  const Instant begin = clock_.now();
  const auto region = allocate_by(method, size_bytes);
  const Duration time = clock_.now() - begin;
  if (region.ok()) return time;
  options_.log.warning(
      "a way to pin memory failed in its trial",
      {{"way", std::string(name_of(method))}, {"cause", region.status().to_string()}});
  return std::nullopt;
}

MeasuredChoice PinnedAllocator::measure() {
  MeasuredChoice measured(kPinMethods);
  for (const PinMethod method : {PinMethod::driver, PinMethod::mapped})
    measured.note(index_of(method), time_of(method, options_.trial_bytes));
  options_.log.info("how to get pinned memory was measured",
                    {{"chosen", std::string(name_of(faster(measured)))},
                     {"bytes", cat(options_.trial_bytes)},
                     {"driver", time_text(measured, PinMethod::driver)},
                     {"mapped", time_text(measured, PinMethod::mapped)}});
  return measured;
}

PinMethod PinnedAllocator::method_for(std::uint64_t size_bytes) {
  if (options_.method) return *options_.method;
  const run::MutexLock lock(mutex_);  // one measures, the others wait for what it finds
  if (!measured_ && size_bytes < options_.trial_bytes) return PinMethod::driver;
  if (!measured_) measured_ = std::make_unique<const MeasuredChoice>(measure());
  return faster(*measured_);
}

Result<std::shared_ptr<PinnedRegion>> PinnedAllocator::allocate(std::uint64_t size_bytes) {
  if (size_bytes == 0)
    return error(Code::invalid_argument, "cannot allocate 0 bytes of pinned memory",
                 "ask for at least 1 byte");
  const PinMethod method = method_for(size_bytes);
  auto region = allocate_by(method, size_bytes);
  if (region.ok() || options_.method) return region;
  options_.log.warning(
      "pinned memory could not be had so; trying the other way",
      {{"way", std::string(name_of(method))}, {"cause", region.status().to_string()}});
  auto other = allocate_by(other_than(method), size_bytes);
  if (other.ok()) return other;
  return error(other.code(),
               cat("cannot allocate ", size_bytes, " bytes of pinned memory in either way; ",
                   name_of(method), ": ", region.status().to_string()),
               std::string(other.status().hint()))
      .because(other.status());
}

std::optional<MeasuredChoice> PinnedAllocator::measurement() const {
  const run::MutexLock lock(mutex_);
  return measured_ ? std::optional(*measured_) : std::nullopt;
}

}  // namespace towpath::memory
