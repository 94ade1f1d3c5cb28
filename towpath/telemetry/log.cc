#include <towpath/core/text.h>
#include <towpath/telemetry/log.h>

namespace towpath::telemetry {

Log Log::named(std::string component) const {
  Log other = *this;
  other.component_ = std::move(component);
  return other;
}

void Log::say(Level level, std::string_view message, Fields fields) const {
  if (!wants(level)) return;
  sink_->emit(Event{.level = level,
                    .at = clock_->now(),
                    .since_epoch = clock_->since_epoch(),
                    .component = component_,
                    .message = std::string(message),
                    .fields = fields});
}

void Log::debug(std::string_view message, Fields fields) const {
  say(Level::debug, message, fields);
}
void Log::info(std::string_view message, Fields fields) const { say(Level::info, message, fields); }
void Log::warning(std::string_view message, Fields fields) const {
  say(Level::warning, message, fields);
}
void Log::error(std::string_view message, Fields fields) const {
  say(Level::error, message, fields);
}

void Log::say_limited(RateLimiter& limiter, Level level, std::string_view message,
                      Fields fields) const {
  if (!wants(level) || !limiter.admit()) return;
  Event event{.level = level,
              .at = clock_->now(),
              .since_epoch = clock_->since_epoch(),
              .component = component_,
              .message = std::string(message),
              .fields = fields};
  if (const auto suppressed = limiter.take_suppressed(); suppressed != 0)
    event.fields.push_back({"suppressed", cat(suppressed)});
  sink_->emit(event);
}

}  // namespace towpath::telemetry
