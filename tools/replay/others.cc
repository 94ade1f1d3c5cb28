#include "tools/replay/others.h"

#include <csignal>
#include <string>
#include <utility>

#include <towpath/core/format.h>

#include "tools/replay/meeting.h"

namespace towpath::tools::replay {
namespace {

/// The command line of another process of this run: first what every one must be given.
class Words {
 public:
  Words(const Arguments& arguments, const char* role, std::uint64_t worker) {
    const Options& options = arguments.options;
    words_ = {"towpath", "replay", "--role", role};
    add("--worker", cat(worker));
    add("--prefill", cat(options.prefills));
    add("--decode", cat(options.decodes));
    add("--rendezvous", options.rendezvous);
    add("--run", options.run);
    add("--backend", options.backend);
    add("--timeout", cat(arguments.timeout_s));
    add("--tokens-per-block", cat(options.tokens_per_block));
    add("--model", options.model);
    add("--scale", cat(options.scale));
  }
  void add(const char* name, const std::string& value) {
    words_.emplace_back(name);
    words_.push_back(value);
  }
  void add(const char* flag) { words_.emplace_back(flag); }
  std::vector<std::string> take() && { return std::move(words_); }

 private:
  std::vector<std::string> words_;
};

// What a prefill must be given; the rest is decode's business.
std::vector<std::string> prefill_arguments(const Arguments& arguments, std::uint64_t worker) {
  const Options& options = arguments.options;
  Words words(arguments, "prefill", worker);
  words.add("--host-blocks", cat(options.host_blocks));
  if (options.disk_blocks > 0) words.add("--disk-blocks", cat(options.disk_blocks));
  words.add("--policy", arguments.policy);
  words.add("--directory", options.directory);
  if (!arguments.inject.empty() && worker == 0) words.add("--inject", arguments.inject);
  words.add("--faults", cat(options.faults));
  words.add("--seed", cat(options.generator.seed + worker));
  if (!arguments.tiers.empty()) words.add("--tiers", arguments.tiers);
  if (!options.direct) words.add("--buffered");
  return std::move(words).take();
}

// Another decode worker reads the same trace, and takes its share.
std::vector<std::string> decode_arguments(const Arguments& arguments, std::uint64_t worker) {
  const Options& options = arguments.options;
  Words words(arguments, "decode", worker);
  if (!options.trace.empty()) words.add("--trace", options.trace);
  if (!arguments.format.empty()) words.add("--format", arguments.format);
  words.add("--requests", cat(options.generator.requests));
  words.add("--seed", cat(options.generator.seed));
  words.add("--limit", cat(options.limit));
  words.add("--speed", cat(options.speed));
  words.add("--in-flight", cat(options.in_flight));
  words.add("--decode-blocks", cat(options.decode_blocks));
  words.add("--decode-layout", options.decode_layout);
  words.add("--quiet");
  return std::move(words).take();
}

}  // namespace

Result<std::vector<Child>> start_others(const Arguments& arguments) {
  std::vector<Child> started;
  for (std::uint64_t i = 1; i < arguments.options.decodes; ++i) {
    TOWPATH_TRY(Child one, Child::start(decode_name(i), decode_arguments(arguments, i)));
    started.push_back(std::move(one));
  }
  for (std::uint64_t i = 0; i < arguments.options.prefills; ++i) {
    TOWPATH_TRY(Child one, Child::start(prefill_name(i), prefill_arguments(arguments, i)));
    started.push_back(std::move(one));
  }
  return started;
}

void end(Child& child) {
  if (child.pid() > 0) kill(child.pid(), SIGKILL);
}

}  // namespace towpath::tools::replay
