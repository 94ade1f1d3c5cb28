#include "tools/replay/history.h"

namespace towpath::tools::replay {

void History::see(Instant at, const TierCounts& now) {
  host_blocks_.add(at, now.host_blocks);
  disk_blocks_.add(at, now.disk_blocks);
  object_blocks_.add(at, now.object_blocks);
  host_hits_.add(at, now.host_hits - last_.host_hits);
  disk_hits_.add(at, now.disk_hits - last_.disk_hits);
  object_hits_.add(at, now.object_hits - last_.object_hits);
  misses_.add(at, now.misses - last_.misses);
  last_ = now;
}

void History::add_hits(const History& other) {
  host_hits_.add(other.host_hits_);
  disk_hits_.add(other.disk_hits_);
  object_hits_.add(other.object_hits_);
  misses_.add(other.misses_);
}

void History::put(Message& message) const {
  message.series["history.host_blocks"] = host_blocks_.packed();
  message.series["history.disk_blocks"] = disk_blocks_.packed();
  message.series["history.object_blocks"] = object_blocks_.packed();
  message.series["history.host_hits"] = host_hits_.packed();
  message.series["history.disk_hits"] = disk_hits_.packed();
  message.series["history.object_hits"] = object_hits_.packed();
  message.series["history.misses"] = misses_.packed();
}

History History::from(const Message& message) {
  const auto take = [&](const char* name, Timeline::Kind kind) {
    return Timeline::unpacked(series_of(message, name), kind);
  };
  History history;
  history.host_blocks_ = take("history.host_blocks", Timeline::Kind::level);
  history.disk_blocks_ = take("history.disk_blocks", Timeline::Kind::level);
  history.object_blocks_ = take("history.object_blocks", Timeline::Kind::level);
  history.host_hits_ = take("history.host_hits", Timeline::Kind::sum);
  history.disk_hits_ = take("history.disk_hits", Timeline::Kind::sum);
  history.object_hits_ = take("history.object_hits", Timeline::Kind::sum);
  history.misses_ = take("history.misses", Timeline::Kind::sum);
  return history;
}

void put_hits(Message& message, const TierCounts& counts) {
  message.figures["host_hits"] = counts.host_hits;
  message.figures["disk_hits"] = counts.disk_hits;
  message.figures["object_hits"] = counts.object_hits;
  message.figures["misses"] = counts.misses;
}

}  // namespace towpath::tools::replay
