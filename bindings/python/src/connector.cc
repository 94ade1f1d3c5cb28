#include "bindings/python/src/connector.h"

#include <cstdint>
#include <map>
#include <variant>

#include <pybind11/stl.h>

#include <towpath/compat/kvbm/settings.h>
#include <towpath/kv/connector/scheduler.h>
#include <towpath/kv/disk/block_store.h>
#include <towpath/standard/cache_server.h>
#include <towpath/standard/connector_node.h>
#include <towpath/standard/connector_words.h>
#include <towpath/sys/clock.h>

#include "bindings/python/src/guarded.h"
#include "bindings/python/src/memory.h"

namespace towpath::python {
namespace {

using Numbers = std::vector<std::uint64_t>;
using Tokens = std::vector<kv::TokenId>;
using standard::ConnectorNode;

using Scheduler = Guarded<kv::ConnectorScheduler>;

/// A node, which is for any thread.
class Worker {
 public:
  explicit Worker(std::shared_ptr<ConnectorNode> node) : node_(std::move(node)) {}

  /// Runs `work(node)` without the interpreter's lock. Raises NotReady after close().
  template <typename Work>
  auto call(Work&& work) const {
    return call_opened(node_, std::forward<Work>(work));
  }
  /// The same with it, for what is asked in each step and takes no time: an interpreter that is let
  /// go of may be another thread's for long.
  template <typename Work>
  auto call_briefly(Work&& work) const {
    const std::shared_ptr<ConnectorNode> node = opened(node_);
    return work(*node);
  }
  bool has_news() const { return node_ && node_.get()->has_news(); }
  void close() { node_.reset(); }

 private:
  Handle<ConnectorNode> node_;
};

// ---- the scheduler's half

using Groups = std::vector<std::pair<std::string, std::uint64_t>>;  // kind, tokens of its window
using Tables = std::vector<Numbers>;

std::vector<kv::BlockGroup> to_groups(const Groups& groups) {
  using Kind = kv::BlockGroup::Kind;
  static const std::map<std::string, Kind> kKinds{
      {"whole", Kind::whole}, {"window", Kind::window}, {"state", Kind::state}};
  std::vector<kv::BlockGroup> all;
  for (const auto& [name, window_tokens] : groups) {
    const auto kind = kKinds.find(name);
    if (kind == kKinds.end())
      raise(error(Code::invalid_argument, cat("a group of the kind '", name, "'"),
                  "a group is whole, window or state"));
    all.push_back({kind->second, window_tokens});
  }
  return all;
}

std::unique_ptr<Scheduler> make_scheduler(std::uint64_t tokens_per_block, std::uint32_t workers,
                                          std::uint64_t salt, const Name& name_space,
                                          std::optional<std::uint64_t> background_from_tokens,
                                          bool saves_in_background, bool events_with_tokens,
                                          bool lasting_events, const Groups& groups,
                                          std::optional<std::uint64_t> null_block) {
  return std::make_unique<Scheduler>(unwrap(kv::ConnectorScheduler::make(
      {.tokens_per_block = tokens_per_block,
       .workers = workers,
       .salt = salt,
       .name_space = name_space.value,
       .background_from_tokens = background_from_tokens.value_or(UINT64_MAX),
       .saves_in_background = saves_in_background,
       .events_with_tokens = events_with_tokens,
       .lasting_events = lasting_events,
       .groups = to_groups(groups),
       .null_block = null_block,
       .clock = &sys::system_clock()})));
}

py::tuple match(const Scheduler& self, const Name& request, const Tokens& tokens,
                std::uint64_t computed, const Name& room, const Name& tenant) {
  const auto found = unwrap(self.call([&](kv::ConnectorScheduler& scheduler) {
    return scheduler.match(
        {request.value, tokens, computed, room.value, kv::tenant_of(tenant.value)});
  }));
  return py::make_tuple(found.tokens, found.in_background);
}

py::tuple match_again(const Scheduler& self, const Name& request, std::uint64_t computed) {
  const auto found = unwrap(self.call([&](kv::ConnectorScheduler& scheduler) {
    return scheduler.match_again(request.value, computed);
  }));
  return py::make_tuple(found.tokens, found.in_background);
}

kv::BlockTables to_tables(const Numbers& only) { return only; }
kv::BlockTables to_tables(const Tables& all) { return std::span(all); }

void allocate(const Scheduler& self, const Name& request,
              const std::variant<Numbers, Tables>& blocks, std::uint64_t loaded) {
  kv::BlockTables tables;
  std::visit([&](const auto& given) { tables = to_tables(given); }, blocks);
  check(self.call([&](auto& it) { return it.allocate(request.value, tables, loaded); }));
}

using Step = std::optional<std::pair<std::uint64_t, std::uint64_t>>;

void advance(const Scheduler& self, const Name& request, std::uint64_t before, std::uint64_t after,
             const Tokens& new_tokens, const std::variant<Numbers, Tables>& new_blocks,
             std::uint8_t priority, const Step& step) {
  kv::ConnectorScheduler::Progress progress{before, after, new_tokens, {}, priority};
  std::visit([&](const auto& given) { progress.new_blocks = to_tables(given); }, new_blocks);
  if (step) progress.step = {step->first, step->second};
  check(self.call([&](auto& it) { return it.advance(request.value, progress); }));
}

py::dict scheduler_figures(const Scheduler& self) {
  const auto figures =
      self.call([](kv::ConnectorScheduler& scheduler) { return scheduler.figures(); });
  return py::dict(
      py::arg("asked_tokens") = figures.asked_tokens,
      py::arg("matched_tokens") = figures.matched_tokens,
      py::arg("saved_blocks") = figures.saved_blocks,
      py::arg("failed_blocks") = figures.failed_blocks, py::arg("requests") = figures.requests,
      py::arg("loaded_all") = figures.loaded_all, py::arg("loaded_some") = figures.loaded_some,
      py::arg("loaded_none") = figures.loaded_none,
      py::arg("loaded_to_see") = figures.loaded_to_see,
      py::arg("tokens_not_loaded") = figures.tokens_not_loaded,
      py::arg("computing_ns_per_token") = figures.computing_per_token.count(),
      py::arg("not_lasting") = figures.not_lasting);
}

void bind_event(py::module_& module) {
  using kv::HeldBlockEvent;
  py::class_<HeldBlockEvent>(module, "HeldBlockEvent")
      .def_property_readonly("kind",
                             [](const HeldBlockEvent& event) {
                               return event.kind == kv::BlockEvent::Kind::stored ? "stored"
                                                                                 : "removed";
                             })
      .def_readonly("hash", &HeldBlockEvent::hash)
      .def_readonly("parent", &HeldBlockEvent::parent)
      .def_readonly("tokens", &HeldBlockEvent::tokens)
      .def_readonly("is_lasting", &HeldBlockEvent::is_lasting)
      .def_property_readonly(
          "room", [](const HeldBlockEvent& event) { return name_to_python(event.room); });
}

/// Times in seconds.
void give_hint(const Scheduler& self, const Name& request, const std::string& action,
               const Name& id, std::uint64_t first_token, std::optional<std::uint64_t> end_token,
               double after, double keep, const Name& session) {
  const kv::ConnectorScheduler::Hint hint{.id = id.value,
                                          .action = unwrap(kv::hint_action_named(action)),
                                          .first_token = first_token,
                                          .end_token = end_token.value_or(UINT64_MAX),
                                          .after = to_duration(after),
                                          .keep = to_duration(keep),
                                          .session = session.value};
  check(self.call([&](auto& it) { return it.hint(request.value, hint); }));
}

/// As tuples: id, action, outcome, blocks, left, why.
py::list take_answered_hints(const Scheduler& self) {
  py::list answers;
  for (const auto& one : self.call([](auto& it) { return it.take_answered_hints(); }))
    answers.append(py::make_tuple(name_to_python(one.id), std::string(name_of(one.action)),
                                  std::string(name_of(one.answer.outcome)), one.answer.blocks,
                                  one.answer.left, one.answer.why));
  return answers;
}

void bind_scheduler(py::module_& module) {
  py::class_<Scheduler>(module, "ConnectorScheduler")
      .def(py::init(&make_scheduler), py::arg("tokens_per_block") = 16, py::arg("workers") = 1,
           py::arg("salt") = 0, py::arg("name_space") = Name{},
           py::arg("background_from_tokens") = py::none(), py::arg("saves_in_background") = false,
           py::arg("events_with_tokens") = false, py::arg("lasting_events") = false,
           py::arg("groups") = Groups{{"whole", 0}}, py::arg("null_block") = py::none())
      .def("match", &match, py::arg("request"), py::arg("tokens"), py::arg("computed") = 0,
           py::arg("room") = Name{}, py::arg("tenant") = Name{})
      .def("match_again", &match_again, py::arg("request"), py::arg("computed") = 0)
      .def("allocate", &allocate, py::arg("request"), py::arg("blocks"), py::arg("loaded_tokens"))
      .def("advance", &advance, py::arg("request"), py::arg("computed_before"),
           py::arg("computed_after"), py::arg("new_tokens") = Tokens{},
           py::arg("new_blocks") = Numbers{}, py::arg("priority") = kv::kUsualPriority,
           py::arg("step") = py::none())
      .def(
          "step_begins",
          [](const Scheduler& self, std::uint64_t tokens) {
            self.call_briefly([&](kv::ConnectorScheduler& it) { it.step_begins(tokens); });
          },
          py::arg("tokens"))
      .def("step_ends",
           [](const Scheduler& self) {
             self.call_briefly([](kv::ConnectorScheduler& it) { it.step_ends(); });
           })
      .def("build",
           [](const Scheduler& self) {
             return to_python(unwrap(self.call([](auto& it) { return kv::encode(it.build()); })));
           })
      .def_property_readonly(
          "has_orders",
          [](const Scheduler& self) {
            return self.call_briefly([](kv::ConnectorScheduler& it) { return it.has_orders(); });
          })
      .def("update",
           [](const Scheduler& self, const Blob& report) {
             check(self.call([&](auto& it) -> Status {
               TOWPATH_TRY(const kv::WorkerReport said, kv::decode_worker_report(report.value));
               return it.update(said);
             }));
           })
      .def("preempt",
           [](const Scheduler& self, const Name& request) {
             check(self.call([&](auto& it) { return it.preempt(request.value); }));
           })
      .def("finish",
           [](const Scheduler& self, const Name& request) {
             return unwrap(self.call([&](auto& it) { return it.finish(request.value); }))
                 .blocks_stay;
           })
      .def("hint", &give_hint, py::arg("request"), py::arg("action"), py::arg("id") = Name{},
           py::arg("first_token") = 0, py::arg("end_token") = py::none(), py::arg("after") = 0.0,
           py::arg("keep") = 0.0, py::arg("session") = Name{})
      .def("take_answered_hints", &take_answered_hints)
      .def("take_events",
           [](const Scheduler& self) {
             return self.call([](auto& scheduler) { return scheduler.take_events(); });
           })
      .def("figures", &scheduler_figures);
}

// ---- the worker's half

/// From a towpath.connector.Peers, or None.
standard::ConnectorPeers to_peers(const py::object& reported) {
  standard::ConnectorPeers peers;
  if (reported.is_none()) return peers;
  peers.rendezvous = py::cast<std::string>(reported.attr("rendezvous"));
  peers.name = py::cast<Name>(reported.attr("name")).value;
  for (const py::handle other : reported.attr("others"))
    peers.others.push_back(py::cast<Name>(other).value);
  peers.backends = py::cast<std::vector<std::string>>(reported.attr("backends"));
  peers.timeout = to_duration(py::cast<double>(reported.attr("timeout")));
  return peers;
}

std::uint64_t number(const py::dict& from, const char* name) {
  return to_u64(py::object(from[name]).ptr());
}

std::uint32_t rank_of(const py::dict& place) {
  const std::uint64_t rank = number(place, "rank");
  if (rank > UINT32_MAX)
    raise(error(Code::invalid_argument, cat("rank ", rank), "a rank has 32 bits at most"));
  return static_cast<std::uint32_t>(rank);
}

/// How blocks are kept; the shape of the engine's cache is known by then.
void to_keeping(const py::dict& reported, standard::ConnectorNodeOptions& options) {
  const auto text = [&](const char* name) { return py::cast<Name>(reported[name]).value; };
  options.host_blocks = number(reported, "host_blocks");
  options.directory = text("directory");
  options.server = text("server");
  options.disk_bytes = number(reported, "disk_bytes");
  options.direct = py::cast<bool>(reported["direct"]);
  options.driven = py::cast<bool>(reported["driven"]);
  if (const std::string objects = text("objects"); !objects.empty())
    options.objects = unwrap(standard::ObjectPlace::parse(objects));
  if (!reported["kvbm"].is_none())
    check(kvbm::apply(text("kvbm"), standard::read_environment(), options));
  check(standard::apply({.policy = text("policy"),
                         .digest = text("digest"),
                         .min_accesses = number(reported, "min_accesses")},
                        options));
}

/// Elements at `strides` by the name of each axis. Layers without a stride have regions of their
/// own.
void to_strided(const py::dict& strides, standard::ConnectorNodeOptions& options) {
  options.kind = layout::LayoutKind::strided;
  options.config.format = layout::BlockFormat::nhd;
  options.axes = layout::extents_of(options.config);
  for (const layout::Axis axis : layout::kAxes)
    options.axes[axis].stride = number(strides, std::string(name_of(axis)).c_str());
  layout::AxisShape& layers = options.axes[layout::Axis::layer];
  layers.region_step = layers.stride == 0 ? 1 : 0;
}

std::unique_ptr<Worker> make_worker(const py::list& caches, const std::string& kind,
                                    const py::dict& shape, bool heads_first, const py::dict& place,
                                    const Name& name_space, const py::dict& keeping,
                                    const py::object& peers, const py::object& strides) {
  standard::ConnectorNodeOptions options{
      .name_space = name_space.value,
      .config = {.num_blocks = number(shape, "block"),
                 .num_layers = number(shape, "layer"),
                 .outer_dim = number(shape, "outer"),
                 .page_size = number(shape, "token"),
                 .inner_dim = number(shape, "head") * number(shape, "dim"),
                 .dtype_width_bytes = number(shape, "element_bytes"),
                 .num_heads = number(shape, "head"),
                 .format = heads_first ? layout::BlockFormat::hnd : layout::BlockFormat::nhd},
      .kind = layout::layer_separate(kind == "block" ? layout::BlockDimension::first
                                                     : layout::BlockDimension::second),
      .rank = rank_of(place),
      .first_layer = number(place, "first_layer"),
      .first_head = number(place, "first_head"),
      .peers = to_peers(peers)};
  if (!strides.is_none()) to_strided(py::cast<py::dict>(strides), options);
  to_keeping(keeping, options);
  for (const py::handle cache : caches)
    options.caches.push_back(to_region(py::reinterpret_borrow<py::object>(cache), ""));
  return std::make_unique<Worker>(unwrap(unlocked([&] { return ConnectorNode::open(options); })));
}

/// Also without whoever else is at work in the node.
template <typename Work>
auto drive(const Worker& self, Work&& work) {
  return self.call([&](ConnectorNode& node) { return node.call(work); });
}

/// Work on the worker that ends in a Status.
template <typename Work>
void report(const Worker& self, Work&& work) {
  check(drive(self, work));
}

py::list names_of(const std::vector<kv::RequestId>& requests) {
  py::list names;
  for (const kv::RequestId& request : requests) names.append(name_to_python(request));
  return names;
}

py::tuple take_finished(const Worker& self, bool progress) {
  const auto finished = drive(self, [&](kv::ConnectorWorker& worker) {
    return progress ? worker.take_finished() : worker.finished_so_far();
  });
  return py::make_tuple(names_of(finished.sent), names_of(finished.received));
}

/// Without progress: None where there is nothing to say.
py::object take_report(const Worker& self, bool progress) {
  const kv::WorkerReport report = drive(self, [&](kv::ConnectorWorker& worker) {
    return progress ? worker.take_report() : worker.report_so_far();
  });
  if (!progress && report.says_nothing()) return py::none();
  return to_python(unwrap(kv::encode(report)));
}

/// All that may be taken, in one go: sent, received, failed blocks, failed requests, and reports.
py::tuple take_news(const Worker& self, bool waits) {
  if (waits) self.call([](ConnectorNode& node) { node.gather(); });
  const auto news = unwrap(self.call_briefly([](ConnectorNode& node) { return node.take_news(); }));
  py::list reports;
  for (const Bytes& report : news.reports) reports.append(to_python(report));
  return py::make_tuple(names_of(news.finished.sent), names_of(news.finished.received),
                        news.failed_blocks, names_of(news.finished.failed), reports);
}

py::dict worker_figures(const Worker& self, bool lately) {
  const auto figures = self.call([&](ConnectorNode& node) {
    return lately ? node.figures_lately()
                  : std::make_shared<const ConnectorNode::Figures>(node.figures());
  });
  const auto& [moved, kept, granting] = *figures;
  const auto came_from = [&from = kept.from_below](const char* tier) {
    const auto found = from.find(tier);
    return found == from.end() ? 0 : found->second;
  };
  py::dict quarantined;
  for (const auto& [reason, count] : kept.quarantined) quarantined[py::str(reason)] = count;
  const auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  const kv::ConnectorWorker::EngineTime& time = moved.engine_time;
  const py::dict engine_seconds(py::arg("start_step") = seconds(time.start_step),
                                py::arg("wait_for_layer_load") = seconds(time.wait_for_layer),
                                py::arg("save_layer") = seconds(time.save_layer),
                                py::arg("wait_for_save") = seconds(time.wait_for_save),
                                py::arg("take") = seconds(time.take));
  return py::dict(
      py::arg("steps") = time.steps, py::arg("engine_seconds") = engine_seconds,
      py::arg("loaded_blocks") = moved.loaded_blocks,
      py::arg("failed_blocks") = moved.failed_blocks, py::arg("saved_blocks") = moved.saved_blocks,
      py::arg("unsaved_blocks") = moved.unsaved_blocks, py::arg("from_memory") = kept.from_memory,
      py::arg("from_files") = came_from("disk"), py::arg("from_objects") = came_from("object"),
      py::arg("written") = kept.written, py::arg("not_written") = kept.not_written,
      py::arg("quarantined") = quarantined, py::arg("given_up") = kept.given_up,
      py::arg("peers") = granting.peers, py::arg("leased") = granting.leased,
      py::arg("not_proven") = granting.not_proven, py::arg("granted") = granting.granted,
      py::arg("failed_leases") = granting.failed_sessions,
      py::arg("last_failure") = exception_of(moved.last_failure),
      py::arg("last_write_failure") = exception_of(kept.last_failure),
      py::arg("last_lease_failure") = exception_of(granting.last_failure));
}

void bind_worker(py::module_& module) {
  py::class_<Worker>(module, "ConnectorWorker")
      .def(py::init(&make_worker), py::arg("caches"), py::arg("first_axis"), py::arg("shape"),
           py::arg("heads_first"), py::arg("place"), py::arg("name_space"), py::arg("keeping"),
           py::arg("peers"), py::arg("strides"))
      .def("start_step",
           [](const Worker& self, const Blob& orders) {
             report(self, [&](kv::ConnectorWorker& worker) -> Status {
               TOWPATH_TRY(const kv::StepOrders step, kv::decode_step_orders(orders.value));
               return worker.start_step(step);
             });
           })
      .def("order",
           [](const Worker& self, const Blob& orders) {
             self.call_briefly([&](ConnectorNode& node) { node.order(orders.value); });
           })
      .def("note_computed",
           [](const Worker& self) {
             self.call_briefly([](ConnectorNode& node) { node.note_computed(); });
           })
      .def("wait_for_layer_load",
           [](const Worker& self, std::uint64_t layer) {
             report(self, [&](auto& worker) { return worker.wait_for_layer_load(layer); });
           })
      .def("save_layer",
           [](const Worker& self, std::uint64_t layer) {
             report(self, [&](auto& worker) { return worker.save_layer(layer); });
           })
      .def("wait_for_save",
           [](const Worker& self) { drive(self, [](auto& worker) { worker.wait_for_save(); }); })
      .def("settle", [](const Worker& self) { drive(self, [](auto& worker) { worker.settle(); }); })
      .def("progress",
           [](const Worker& self) {
             return drive(self, [](auto& worker) { return worker.progress(); });
           })
      .def("take_finished", &take_finished, py::arg("progress") = true)
      .def("take_failed_blocks",
           [](const Worker& self) {
             return drive(self, [](auto& worker) { return worker.take_failed_blocks(); });
           })
      .def("take_news", &take_news, py::arg("waits") = false)
      .def_property_readonly("has_news", &Worker::has_news)
      .def(
          "wait_for_news",
          [](const Worker& self, double seconds) {
            const Duration most = to_duration(seconds);
            self.call([&](ConnectorNode& node) { node.wait_for_news(most); });
          },
          py::arg("seconds"))
      .def("take_report", &take_report, py::arg("progress") = true)
      .def("sync",
           [](const Worker& self) { report(self, [](auto& worker) { return worker.sync(); }); })
      .def("close", &Worker::close)
      .def("figures", &worker_figures, py::arg("lately") = false)
      .def_property_readonly("folder", [](const Worker& self) {
        return name_to_python(self.call([](const ConnectorNode& node) { return node.folder(); }));
      });
}

/// Whatever is in `folder`, a store that nobody has open, below `directory`; one that is not there
/// has nothing.
Status discard_store(const std::string& directory, const std::string& folder) {
  TOWPATH_TRY(const auto files, kv::store_files(directory));
  if (files->kind_of(folder) == sys::PathKind::none) return {};
  TOWPATH_TRY(const auto names, files->list(folder));
  for (const std::string& name : names) {
    TOWPATH_TRY(files->remove(cat(folder, "/", name)));
  }
  return files->sync_directory(folder);
}

}  // namespace

void bind_connector(py::module_& module) {
  bind_event(module);
  bind_scheduler(module);
  bind_worker(module);
  module.def(
      "discard_store",
      [](const std::string& directory, const std::string& folder) {
        const py::gil_scoped_release released;
        const Status done = discard_store(directory, folder);
        const py::gil_scoped_acquire held;
        check(done);
      },
      py::arg("directory"), py::arg("folder"));
  module.def("own_server_address", [] { return unwrap(standard::own_server_address()); });
}

}  // namespace towpath::python
