#include "tools/replay/hop.h"

#include <towpath/agent/agent.h>
#include <towpath/sys/clock.h>

namespace towpath::tools::replay {

void Hop::add(std::uint64_t bytes, Duration time) {
  bytes_ += bytes;
  times_.add(time);
  over_time_.add(sys::SystemClock().now(), bytes);
}

Status Hop::add(const agent::Transfer& transfer) {
  TOWPATH_TRY(const agent::TransferReport report, transfer.report());
  add(report.bytes, Duration(static_cast<std::int64_t>(report.transfer_us * 1000)));
  if (path_.empty()) {
    const agent::Explanation reported = transfer.explain();
    if (const agent::Candidate* chosen = reported.chosen())
      path_ = chosen->backend + ": " + chosen->path + " (" + chosen->reason + ")";
  }
  return {};
}

void Hop::add(const Hop& other) {
  bytes_ += other.bytes_;
  times_.add(other.times_);
  over_time_.add(other.over_time_);
  if (path_.empty()) path_ = other.path_;
}

double Hop::gigabytes_per_second() const {
  const auto busy = static_cast<double>(times_.sum().count());
  return busy == 0 ? 0 : static_cast<double>(bytes_) / busy;
}

void Hop::put(Message& message, const std::string& name) const {
  message.figures[name + ".bytes"] = bytes_;
  message.series[name + ".times"] = times_.packed();
  message.series[name + ".over_time"] = over_time_.packed();
  message.texts[name + ".path"] = path_;
}

Hop Hop::from(const Message& message, const std::string& name) {
  Hop hop;
  hop.bytes_ = figure_of(message, name + ".bytes");
  hop.times_ = Spread::unpacked(series_of(message, name + ".times"));
  hop.over_time_ = Timeline::unpacked(series_of(message, name + ".over_time"), Timeline::Kind::sum);
  hop.path_ = text_of(message, name + ".path");
  return hop;
}

}  // namespace towpath::tools::replay
