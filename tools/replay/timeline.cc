#include "tools/replay/timeline.h"

#include <algorithm>
#include <utility>

namespace towpath::tools::replay {

void Timeline::add(Instant at, std::uint64_t value) {
  if (values_.empty()) start_ = at;
  const auto index_of = [&] {
    return static_cast<std::size_t>(std::max<std::int64_t>((at - start_) / interval_, 0));
  };
  while (index_of() >= kIntervals) halve();
  // What passed without a word: nothing was added, or the level stayed.
  const std::uint64_t between = kind_ == Kind::level && !values_.empty() ? values_.back() : 0;
  if (index_of() >= values_.size()) values_.resize(index_of() + 1, between);
  if (kind_ == Kind::sum) {
    values_[index_of()] += value;
  } else {
    values_[index_of()] = value;
  }
}

void Timeline::add(const Timeline& other) {
  std::vector<std::pair<Instant, std::uint64_t>> all;
  for (const Timeline* line : {&std::as_const(*this), &other})
    for (std::size_t i = 0; i < line->values_.size(); ++i)
      all.emplace_back(line->start_ + line->interval_ * i, line->values_[i]);
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
  Timeline sum(kind_);
  for (const auto& [at, value] : all) sum.add(at, value);
  *this = std::move(sum);
}

void Timeline::halve() {
  for (std::size_t i = 0; i < values_.size(); i += 2) {
    const bool pair = i + 1 < values_.size();
    const std::uint64_t second = pair ? values_[i + 1] : 0;
    values_[i / 2] = kind_ == Kind::sum ? values_[i] + second : (pair ? second : values_[i]);
  }
  values_.resize((values_.size() + 1) / 2);
  interval_ *= 2;
}

std::vector<std::uint64_t> Timeline::packed() const {
  std::vector<std::uint64_t> numbers{static_cast<std::uint64_t>(start_.nanoseconds),
                                     static_cast<std::uint64_t>(interval_.count())};
  numbers.insert(numbers.end(), values_.begin(), values_.end());
  return numbers;
}

Timeline Timeline::unpacked(const std::vector<std::uint64_t>& numbers, Kind kind) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 56U;  // two years, in nanoseconds
  Timeline timeline(kind);
  if (numbers.size() < 2 || numbers.size() > kIntervals + 2) return timeline;
  if (numbers[1] == 0 || numbers[1] > kLongest) return timeline;
  timeline.start_ = {static_cast<std::int64_t>(numbers[0])};
  timeline.interval_ = Duration(static_cast<std::int64_t>(numbers[1]));
  timeline.values_.assign(numbers.begin() + 2, numbers.end());
  return timeline;
}

}  // namespace towpath::tools::replay
