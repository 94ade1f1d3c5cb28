// `towpath serve`: one process keeps the KV blocks of all engines of a host.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <set>
#include <utility>

#include <poll.h>
#include <sys/resource.h>

#include <towpath/core/format.h>
#include <towpath/standard/cache_server.h>
#include <towpath/standard/connector_words.h>
#include <towpath/sys/clock.h>

#include "tools/command.h"
#include "tools/output.h"
#include "tools/replay/memory.h"
#include "tools/run/signals.h"
#include "tools/table.h"
#include "tools/units.h"

namespace towpath::tools {
namespace {

constexpr const char* kServeExamples = R"(
Examples:
  towpath serve --memory 64GiB
  towpath serve --memory 64GiB --directory /nvme/kv --disk 1TiB
  towpath serve --memory 64GiB --caches 2          a model of two ranks, or two models
  towpath serve --memory 64GiB --quota 25          of which no tenant has more than a quarter

Engines name its socket: {"server": "unix:..."} in vLLM's kv_connector_extra_config,
server="unix:..." of towpath.connector.Worker. What they keep stays here when they end, or are
killed.)";

struct ServeArguments {
  std::string socket, memory, directory, objects;
  std::string disk = "16GiB", policy = "lru";
  std::uint64_t caches = 1, min_accesses = 1;
  std::uint64_t quota = 0;
  bool direct = false;
  double interval_s = 10;
};

Result<standard::CacheServerOptions> options_of(const ServeArguments& arguments) {
  standard::CacheServerOptions options{.address = cat("unix:", arguments.socket),
                                       .caches = arguments.caches,
                                       .directory = arguments.directory,
                                       .direct = arguments.direct};
  if (arguments.socket.empty()) {
    TOWPATH_TRY(options.address, standard::own_server_address());
  }
  TOWPATH_TRY(options.memory_bytes, parse_bytes(arguments.memory));
  TOWPATH_TRY(options.disk_bytes, parse_bytes(arguments.disk));
  if (!arguments.objects.empty()) {
    TOWPATH_TRY(options.objects, standard::ObjectPlace::parse(arguments.objects));
  }
  standard::ConnectorNodeOptions words;
  TOWPATH_TRY(
      standard::apply({.policy = arguments.policy, .min_accesses = arguments.min_accesses}, words));
  options.cache = words.cache;
  options.cache.quota_percent = static_cast<std::uint32_t>(arguments.quota);
  const auto available = replay::available_memory();
  if (available && options.memory_bytes > *available)
    return error(Code::exhausted,
                 cat(size_text(options.memory_bytes), " of memory are wanted, and ",
                     size_text(*available), " can be had"),
                 "serve with less --memory");
  return options;
}

std::string greeting(const standard::CacheServerOptions& options) {
  std::string text =
      cat("serving at ", options.address, ": ", size_text(options.memory_bytes), " of memory for ",
          options.caches, options.caches == 1 ? " cache" : " caches");
  if (!options.directory.empty())
    text += cat(", ", size_text(options.disk_bytes), " of files in ", options.directory);
  if (options.objects) text += ", objects";
  return cat(text, "\nengines: {\"server\": \"", options.address,
             "\"} in vLLM's kv_connector_extra_config\n");
}

std::string table_of(const std::vector<standard::ServedFigures>& caches) {
  Table table({{"cache"},
               {"model"},
               {"block", Align::right},
               {"room", Align::right},
               {"engines", Align::right},
               {"taken", Align::right},
               {"granted", Align::right},
               {"written", Align::right},
               {"tenants", Align::right},
               {"over quota", Align::right},
               {"not proven", Align::right}});
  for (const standard::ServedFigures& one : caches) {
    table.add(
        {one.name,
         printable(one.name_space, 32),
         size_text(one.block_bytes),
         grouped(one.host_blocks),
         grouped(one.engines),
         grouped(one.collected.collected),
         grouped(one.peers.granted),
         grouped(one.kept.written),
         one.kept.quota.most > 0 ? grouped(one.kept.quota.tenants) : "-",
         one.kept.quota.most > 0 ? grouped(one.kept.quota.evictions) : "-",
         {grouped(one.peers.not_proven), one.peers.not_proven > 0 ? Tone::warning : Tone::plain}});
    if (!one.kept.last_failure.ok()) table.note(story_of(one.kept.last_failure));
  }
  return table.text(Colours::no);
}

/// Engines and segments of files take descriptors, of which a shell gives a thousand.
void allow_all_descriptors() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return;
  descriptors.rlim_cur = descriptors.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &descriptors);
}

/// Each engine that is refused once in an interval: it reports again every second.
struct PrintedRefusals {
  std::uint64_t count = 0;
  std::set<std::string> texts;

  void print_last(const standard::CacheServer::Refusals& refusals) {
    if (std::exchange(count, refusals.count) == refusals.count) return;
    if (texts.insert(refusals.last.to_string()).second)
      print_failure("towpath serve", refusals.last);
  }
};

/// What has changed is printed now and then, refusals soon. Until a signal ends it.
Status serve(const standard::CacheServerOptions& options, double interval_s) {
  std::signal(SIGPIPE, SIG_IGN);
  allow_all_descriptors();
  TOWPATH_TRY(const sys::Fd signals, watch_ending_signals());
  TOWPATH_TRY(const auto server, standard::CacheServer::open(options));
  TOWPATH_TRY(print(greeting(options)));
  if (const std::string url = server->prometheus_url(); !url.empty())
    TOWPATH_TRY(print(cat("metrics: ", url, "\n")));
  std::fflush(stdout);
  constexpr std::chrono::milliseconds kSoon(1000);
  const std::chrono::milliseconds interval(static_cast<std::int64_t>(interval_s * 1000));
  const sys::SystemClock clock;
  std::string printed = table_of({});
  PrintedRefusals refused;
  for (Instant looks_at = clock.now() + interval; take_signal(signals) == 0;) {
    pollfd wait{.fd = signals.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&wait, 1, static_cast<int>(std::min(interval, kSoon).count()));
    refused.print_last(server->refusals());
    if (clock.now() < looks_at) continue;
    looks_at = clock.now() + interval;
    refused.texts.clear();
    std::string now = table_of(server->figures());
    if (now == printed) continue;
    (void)print(now);  // who reads it may have gone: engines have not
    std::fflush(stdout);
    printed = std::move(now);
  }
  return {};
}

}  // namespace

void add_serve(Command& towpath) {
  Command command = towpath.add("serve", "Keep the KV blocks of all engines of this host");
  auto arguments = std::make_shared<ServeArguments>();
  command.option("--memory", arguments->memory, "Memory of all caches together, such as 64GiB")
      .required()
      .takes("SIZE");
  command.option("--directory", arguments->directory,
                 "Below it are files; without, there are none");
  command.option("--disk", arguments->disk, "At most so much in files, of the caches that are open")
      .only_with("--directory")
      .shows_default();
  command.flag("--direct", arguments->direct, "Files past the page cache, where that can be")
      .only_with("--directory");
  command.option("--objects", arguments->objects, "Below the files, s3://bucket/prefix:SIZE");
  command
      .option("--caches", arguments->caches,
              "Unlike caches that share all this: one for each model and rank")
      .whole(1)
      .shows_default();
  command.option("--socket", arguments->socket, "Path of the socket; else one of this user's own");
  command.option("--policy", arguments->policy, "Which block is evicted from memory")
      .shows_default();
  command
      .option("--min-accesses", arguments->min_accesses,
              "Of a block, before it goes to files and objects")
      .whole(1)
      .shows_default();
  command
      .option("--quota", arguments->quota,
              "Of a cache's memory, what one tenant may have; 0: all of it")
      .between(0, 100)
      .takes("PERCENT");
  command
      .option("--interval", arguments->interval_s, "Seconds between two looks at what has changed")
      .between(0.1, 86400.0)
      .shows_default();
  command.footer(kServeExamples);
  command.when_chosen([arguments]() -> Result<Exit> {
    TOWPATH_TRY(const standard::CacheServerOptions options, options_of(*arguments));
    TOWPATH_TRY(serve(options, arguments->interval_s));
    return Exit::ok;
  });
}

}  // namespace towpath::tools
