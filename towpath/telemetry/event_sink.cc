#include <algorithm>

#include <towpath/core/text.h>
#include <towpath/telemetry/event_sink.h>

namespace towpath::telemetry {

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

}  // namespace towpath::telemetry
