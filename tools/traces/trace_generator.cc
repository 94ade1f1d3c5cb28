#include "tools/traces/trace_generator.h"

#include <algorithm>
#include <cmath>

namespace towpath::traces {
namespace {

constexpr std::uint64_t kTickMs = 3000;
constexpr std::uint64_t kMaxBurst = 28;
constexpr std::size_t kSystemPrompts = 4;
constexpr std::size_t kRecentSessions = 400;
constexpr double kLongestPrompt = 126'000;
// Of the logarithm of a prompt's tokens.
constexpr double kMedianPrompt = 6900;
constexpr double kSpread = 1.05;

}  // namespace

std::uint64_t TraceGenerator::random() {  // SplitMix64
  state_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t value = state_;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

double TraceGenerator::uniform() { return static_cast<double>(random() >> 11U) * 0x1p-53; }

// Twelve uniforms less six: close enough to normal, and the same on every machine.
double TraceGenerator::normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

std::uint64_t TraceGenerator::tokens_of_prompt() {
  const double tokens = kMedianPrompt * std::exp(kSpread * normal());
  return static_cast<std::uint64_t>(std::clamp(tokens, 100.0, kLongestPrompt) *
                                    options_.length_scale) +
         1;
}

// Bursts are short and most are small: the square of a uniform.
std::uint64_t TraceGenerator::tick() {
  if (left_in_tick_ == 0) {
    if (made_ > 0) now_ms_ += kTickMs;
    const double share = uniform() * uniform();
    left_in_tick_ = 1 + static_cast<std::uint64_t>(share * static_cast<double>(kMaxBurst));
  }
  --left_in_tick_;
  return now_ms_;
}

void TraceGenerator::grow(Session& session, std::uint64_t tokens) {
  session.tokens += tokens;
  const std::uint64_t blocks =
      (session.tokens + options_.tokens_per_block - 1) / options_.tokens_per_block;
  while (session.hash_ids.size() < blocks) session.hash_ids.push_back(next_id_++);
}

TraceGenerator::Session TraceGenerator::begin_session() {
  while (system_prompts_.size() < kSystemPrompts) {
    std::vector<std::uint64_t> prompt(1 + system_prompts_.size());
    for (std::uint64_t& id : prompt) id = next_id_++;
    system_prompts_.push_back(std::move(prompt));
  }
  Session session;
  // The first system prompt is by far the most used.
  const double pick = uniform() * uniform() * static_cast<double>(kSystemPrompts);
  session.hash_ids = system_prompts_[static_cast<std::size_t>(pick)];
  session.tokens = session.hash_ids.size() * options_.tokens_per_block;
  return session;
}

Result<std::optional<Request>> TraceGenerator::next() {
  if (made_ == options_.requests) return std::optional<Request>();
  Request request;
  request.timestamp_ms = tick();
  const bool follows = !sessions_.empty() && uniform() < options_.follow_up;
  // Who spoke lately speaks again soon.
  const std::size_t back =
      follows
          ? static_cast<std::size_t>(uniform() * uniform() * static_cast<double>(sessions_.size()))
          : 0;
  Session session = follows ? sessions_[sessions_.size() - 1 - back] : begin_session();
  std::uint64_t added = tokens_of_prompt();
  if (follows) added = added / 4 + 1;
  if (static_cast<double>(session.tokens + added) > kLongestPrompt) session = begin_session();
  grow(session, added);
  request.input_length = session.tokens;
  request.output_length = 1 + static_cast<std::uint64_t>(-343 * std::log(1 - uniform()));
  request.hash_ids = session.hash_ids;
  sessions_.push_back(std::move(session));
  if (sessions_.size() > kRecentSessions) sessions_.erase(sessions_.begin());
  ++made_;
  return std::optional<Request>(std::move(request));
}

}  // namespace towpath::traces
