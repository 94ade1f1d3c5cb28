#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/telemetry/log.h>

namespace towpath::telemetry {

namespace {

Field suppressed_field(std::uint64_t count) { return {"suppressed", cat(count)}; }

}  // namespace

// One limiter per place that has logged: as many as the code has places, whatever peers do.
class Log::Limits {
 public:
  Limits(EventSink& sink, const Clock& clock) noexcept : sink_(sink), clock_(clock) {}
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;
  ~Limits() {
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
    if (count == 0) return;
    Event& event = site.last;
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
