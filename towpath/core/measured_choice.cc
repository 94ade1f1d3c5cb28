#include <towpath/core/measured_choice.h>

namespace towpath {

bool MeasuredChoice::note(std::size_t way, std::optional<Duration> took) {
  if (!wants_trial(way)) return false;
  Way& tried = ways_[way];
  if (took && (!tried.best || *took < *tried.best)) tried.best = took;
  if (took && (!tried.worst || *took > *tried.worst)) tried.worst = took;
  return ++tried.tried == trials_;
}

Duration MeasuredChoice::spread(std::size_t way) const {
  const Way& tried = ways_[way];
  return tried.best ? *tried.worst - *tried.best : Duration(0);
}

std::optional<std::size_t> MeasuredChoice::fastest() const {
  std::optional<std::size_t> found;
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    if (!ways_[way].best) continue;
    if (!found || *ways_[way].best < *ways_[*found].best) found = way;
  }
  return found;
}

}  // namespace towpath
