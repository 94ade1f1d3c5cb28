#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/telemetry/log.h>

namespace towpath::telemetry {
namespace {

Field suppressed_field(std::uint64_t count) { return {"suppressed", cat(count)}; }

}  // namespace

std::string_view name_of(Level level) noexcept {
  switch (level) {
    case Level::trace: return "trace";
    case Level::debug: return "debug";
    case Level::info: return "info";
    case Level::warning: return "warning";
    case Level::error: return "error";
  }
  return "unknown";
}

std::string to_string(const Event& event) {
  std::string line = cat(name_of(event.level), ' ', event.component, ": ", event.message);
  std::string_view separator = " {";
  for (const Field& field : event.fields) {
    line.append(cat(separator, field.key, '=', field.value));
    separator = ", ";
  }
  if (!event.fields.empty()) line.push_back('}');
  return line;
}

void CollectingSink::emit(const Event& event) noexcept {
  const std::lock_guard lock(mutex_);
  if (events_.size() < limit_) {
    events_.push_back(event);
  } else {
    ++dropped_;
  }
}

std::vector<Event> CollectingSink::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

std::size_t CollectingSink::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::size_t CollectingSink::count_of(std::string_view text) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(
      events_, [&](const Event& event) { return event.message.find(text) != std::string::npos; }));
}

void CollectingSink::clear() {
  const std::lock_guard lock(mutex_);
  events_.clear();
  dropped_ = 0;
}

RateLimiter::RateLimiter(const Clock& clock, Options options) noexcept
    : clock_(&clock), options_(options), full_at_(clock.now().nanoseconds) {
  options_.burst = std::max(options_.burst, 1U);
}

bool RateLimiter::admit() noexcept {
  if (options_.every <= Duration::zero()) return true;
  const Instant now = clock_->now();
  // Each message moves the moment of a full bucket by `every`; with all tokens gone it lies
  // `burst` x `every` ahead.
  const double reach =
      static_cast<double>(options_.every.count()) * static_cast<double>(options_.burst);
  std::int64_t seen = full_at_.load(std::memory_order_relaxed);
  while (true) {
    const Instant next = std::max(Instant{seen}, now) + options_.every;
    if (static_cast<double>((next - now).count()) > reach) {
      suppressed_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    if (full_at_.compare_exchange_weak(seen, next.nanoseconds, std::memory_order_relaxed))
      return true;
  }
}

std::uint64_t RateLimiter::take_suppressed() noexcept {
  return suppressed_.exchange(0, std::memory_order_relaxed);
}

// One limiter per place that has logged: as many as the code has places, whatever peers do.
class Log::Limits {
 public:
  Limits(EventSink& sink, const Clock& clock) noexcept : sink_(sink), clock_(clock) {}
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;
  ~Limits() { report_all(); }

  void report_all() {
    const std::lock_guard lock(mutex_);
    for (auto& [key, site] : sites_) report(site);
  }

  /// How many lines of this place were suppressed before this one; nothing: this one is too.
  std::optional<std::uint64_t> admit(const Place& place, const Event& event) {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] =
        sites_.try_emplace(Key(place.file_name(), place.line()), clock_, event);
    Site& site = found->second;
    if (!site.limiter.admit()) return std::nullopt;
    if (!is_new) site.last = event;
    return site.limiter.take_suppressed();
  }

 private:
  using Key = std::pair<const char*, std::uint_least32_t>;
  struct Site {
    Site(const Clock& clock, Event event) : limiter(clock, kLimit), last(std::move(event)) {}
    RateLimiter limiter;
    Event last;  // that was written
  };

  void report(Site& site) {
    const std::uint64_t count = site.limiter.take_suppressed();
    Event& event = site.last;
    if (count == 0 || !sink_.wants(event.level)) return;
    event.at = clock_.now();
    event.since_epoch = clock_.since_epoch();
    event.fields = {suppressed_field(count)};
    sink_.emit(event);
  }

  EventSink& sink_;
  const Clock& clock_;
  // Plain std::mutex: the annotated one lives in run/, which stands below this module.
  std::mutex mutex_;
  std::map<Key, Site> sites_;
};

Log::Log(EventSink& sink, const Clock& clock, std::string component)
    : sink_(&sink),
      clock_(&clock),
      component_(std::move(component)),
      limits_(std::make_shared<Limits>(sink, clock)) {}

Log Log::named(std::string component) const {
  Log other = *this;
  other.component_ = std::move(component);
  return other;
}

Event Log::event(Level level, std::string_view message, Fields fields) const {
  return {.level = level,
          .at = clock_->now(),
          .since_epoch = clock_->since_epoch(),
          .component = component_,
          .message = std::string(message),
          .fields = fields};
}

void Log::say(Level level, std::string_view message, Fields fields, const Place& place) const {
  if (!wants(level)) return;
  Event line = event(level, message, fields);
  const auto suppressed = limits_->admit(place, line);
  if (!suppressed) return;
  if (*suppressed != 0) line.fields.push_back(suppressed_field(*suppressed));
  sink_->emit(line);
}

void Log::report_suppressed() const {
  if (limits_) limits_->report_all();
}

void Log::say_unlimited(Level level, std::string_view message, Fields fields) const {
  if (wants(level)) sink_->emit(event(level, message, fields));
}

void Log::debug(std::string_view message, Fields fields, const Place& place) const {
  say(Level::debug, message, fields, place);
}
void Log::info(std::string_view message, Fields fields, const Place& place) const {
  say(Level::info, message, fields, place);
}
void Log::warning(std::string_view message, Fields fields, const Place& place) const {
  say(Level::warning, message, fields, place);
}
void Log::error(std::string_view message, Fields fields, const Place& place) const {
  say(Level::error, message, fields, place);
}

}  // namespace towpath::telemetry
