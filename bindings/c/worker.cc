#include <towpath/compat/kvbm/settings.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/borrowed.h>
#include <towpath/standard/connector_node.h>
#include <towpath/standard/connector_words.h>

#include "bindings/c/call.h"

using namespace towpath;     // NOLINT: the words of this file
using namespace towpath::c;  // NOLINT

struct towpath_worker {
  std::unique_ptr<standard::ConnectorNode> node;
  Taken<kv::ConnectorWorker::Finished> finished = {};
  Taken<std::vector<std::uint64_t>> failed_blocks = {};
  Taken<kv::WorkerReport> report = {};
};

namespace {

/// call(), in the process that opened the worker.
template <typename Body>
towpath_code_t call_own(towpath_error_t* failure, const towpath_worker_t* worker, bool well_formed,
                        Body&& body) noexcept {
  return call(failure, well_formed, [&]() -> Status {
    if (worker->node->is_inherited())
      return error(Code::not_ready,
                   "this worker belongs to the process that this one was forked from",
                   "open another one here");
    return std::forward<Body>(body)();
  });
}

constexpr std::uint64_t kLongestTimeoutMs = 24 * 3600 * std::uint64_t{1000};

Result<std::vector<std::string>> names_of(const char* const* names, std::size_t count) {
  if (!given_array(names, count) ||
      std::ranges::count(std::span(names, count), static_cast<const char*>(nullptr)) > 0)
    return error(Code::invalid_argument, "a list of names with a null in it", "point to each");
  return std::vector<std::string>(names, names + count);
}

Result<standard::ConnectorPeers> peers_of(const towpath_worker_options_t& reported) {
  standard::ConnectorPeers peers{.rendezvous = text_or_none(reported.rendezvous),
                                 .name = text_or_none(reported.peer_name)};
  TOWPATH_TRY(peers.others, names_of(reported.peers, reported.peer_count));
  TOWPATH_TRY(auto backends, names_of(reported.peer_backends, reported.peer_backend_count));
  if (!backends.empty()) peers.backends = std::move(backends);
  if (reported.peer_timeout_ms != 0)
    peers.timeout = std::chrono::milliseconds(
        std::min<std::uint64_t>(reported.peer_timeout_ms, kLongestTimeoutMs));
  return peers;
}

Status take_words(const towpath_worker_options_t& reported,
                  standard::ConnectorNodeOptions& options) {
  if (reported.kvbm != nullptr)
    TOWPATH_TRY(kvbm::apply(reported.kvbm, standard::read_environment(), options));
  return standard::apply({.policy = text_or_none(reported.policy),
                          .digest = text_or_none(reported.digest),
                          .min_accesses = reported.min_accesses},
                         options);
}

Result<standard::ConnectorNodeOptions> options_of(const towpath_worker_options_t& reported) {
  if (!given_array(reported.caches, reported.cache_count) ||
      !given_array(reported.lengths, reported.cache_count))
    return error(Code::invalid_argument, "a worker without caches", "point to them");
  const auto inner_dim = checked_multiply(reported.num_heads, reported.head_dim);
  if (!inner_dim)
    return error(Code::out_of_range,
                 cat(reported.num_heads, " heads of ", reported.head_dim, " elements"),
                 "set num_heads and head_dim to those of this rank");
  standard::ConnectorNodeOptions options{
      .name_space = text_or_none(reported.name_space),
      .config = {.num_blocks = reported.num_blocks,
                 .num_layers = reported.num_layers,
                 .outer_dim = reported.outer_dim,
                 .page_size = reported.tokens_per_block,
                 .inner_dim = *inner_dim,
                 .dtype_width_bytes = reported.element_bytes,
                 .num_heads = reported.num_heads,
                 .format = static_cast<layout::BlockFormat>(reported.format)},
      .kind = static_cast<layout::LayoutKind>(reported.kind),
      .rank = reported.rank,
      .first_layer = reported.first_layer,
      .first_head = reported.first_head,
      .directory = text_or_none(reported.directory),
      .server = text_or_none(reported.server)};
  if (reported.objects != nullptr) {
    TOWPATH_TRY(options.objects, standard::ObjectPlace::parse(reported.objects));
  }
  TOWPATH_TRY(options.peers, peers_of(reported));
  if (reported.host_blocks != 0) options.host_blocks = reported.host_blocks;
  if (reported.disk_bytes != 0) options.disk_bytes = reported.disk_bytes;
  options.direct = reported.direct != 0;
  TOWPATH_TRY(take_words(reported, options));
  const auto kind = reported.memory == TOWPATH_DEVICE ? MemoryKind::device : MemoryKind::system;
  for (std::size_t i = 0; i < reported.cache_count; ++i) {
    TOWPATH_TRY(options.caches.emplace_back(),
                memory::BorrowedRegion::create({.kind = kind,
                                                .address = address_of(reported.caches[i]),
                                                .size_bytes = reported.lengths[i],
                                                .device_id = reported.device}));
  }
  return options;
}

bool in_lists(const towpath_worker_options_t& reported) {
  return reported.kind <= TOWPATH_LAYER_SEPARATE_BLOCK_SECOND && reported.format <= TOWPATH_HND &&
         reported.memory <= TOWPATH_DEVICE;
}

}  // namespace

towpath_code_t towpath_worker_open(const towpath_worker_options_t* options,
                                   towpath_worker_t** worker, towpath_error_t* error) {
  return call(error, given(options, worker), [&]() -> Status {
    TOWPATH_TRY(const auto reported, sized(options));
    if (!in_lists(reported))
      return towpath::error(Code::invalid_argument, "a kind, format or memory that is none",
                            "use the constants of towpath.h");
    TOWPATH_TRY(const standard::ConnectorNodeOptions wanted, options_of(reported));
    TOWPATH_TRY(auto node, standard::ConnectorNode::open(wanted));
    *worker = new towpath_worker{std::move(node)};
    return {};
  });
}

void towpath_worker_close(towpath_worker_t* worker) {
  // A forked child lets go of nothing: it is all the parent's.
  if (worker != nullptr && !worker->node->is_inherited()) delete worker;
}

towpath_code_t towpath_worker_start_step(towpath_worker_t* worker, const void* orders,
                                         size_t orders_size, towpath_error_t* error) {
  return call_own(error, worker, given(worker, orders), [&]() -> Status {
    const ConstByteSpan bytes(static_cast<const std::byte*>(orders), orders_size);
    TOWPATH_TRY(const kv::StepOrders step, kv::decode_step_orders(bytes));
    return worker->node->call([&](auto& it) { return it.start_step(step); });
  });
}

towpath_code_t towpath_worker_wait_for_layer_load(towpath_worker_t* worker, uint64_t layer,
                                                  towpath_error_t* error) {
  return call_own(error, worker, given(worker), [&] {
    return worker->node->call([&](auto& it) { return it.wait_for_layer_load(layer); });
  });
}

towpath_code_t towpath_worker_save_layer(towpath_worker_t* worker, uint64_t layer,
                                         towpath_error_t* error) {
  return call_own(error, worker, given(worker), [&] {
    return worker->node->call([&](auto& it) { return it.save_layer(layer); });
  });
}

towpath_code_t towpath_worker_wait_for_save(towpath_worker_t* worker, towpath_error_t* error) {
  return call_own(error, worker, given(worker), [&]() -> Status {
    worker->node->call([](auto& it) { it.wait_for_save(); });
    return {};
  });
}

towpath_code_t towpath_worker_progress(towpath_worker_t* worker, int* more,
                                       towpath_error_t* error) {
  return call_own(error, worker, given(worker, more), [&]() -> Status {
    *more = worker->node->call([](auto& it) { return it.progress(); }) ? 1 : 0;
    return {};
  });
}

towpath_code_t towpath_worker_take_finished(towpath_worker_t* worker, char*** sent,
                                            size_t* sent_count, char*** received,
                                            size_t* received_count, towpath_error_t* error) {
  return call_own(error, worker, given(worker, sent, sent_count, received, received_count), [&] {
    return worker->finished.pass_on(
        [&] { return worker->node->call([](auto& it) { return it.take_finished(); }); },
        [&](const kv::ConnectorWorker::Finished& finished) -> Status {
          std::unique_ptr<char*, decltype(&std::free)> names(give_names(finished.sent), &std::free);
          *received = give_names(finished.received);
          *received_count = finished.received.size();
          *sent_count = finished.sent.size();
          *sent = names.release();
          return {};
        });
  });
}

towpath_code_t towpath_worker_take_failed_blocks(towpath_worker_t* worker, uint64_t** blocks,
                                                 size_t* block_count, towpath_error_t* error) {
  return call_own(error, worker, given(worker, blocks, block_count), [&] {
    return worker->failed_blocks.pass_on(
        [&] { return worker->node->call([](auto& it) { return it.take_failed_blocks(); }); },
        [&](const std::vector<std::uint64_t>& failed) -> Status {
          *blocks = give_array(std::span(failed));
          *block_count = failed.size();
          return {};
        });
  });
}

towpath_code_t towpath_worker_take_report(towpath_worker_t* worker, void** report,
                                          size_t* report_size, towpath_error_t* error) {
  return call_own(error, worker, given(worker, report, report_size), [&] {
    return worker->report.pass_on(
        [&] { return worker->node->call([](auto& it) { return it.take_report(); }); },
        [&](const kv::WorkerReport& taken) -> Status {
          TOWPATH_TRY(const Bytes bytes, kv::encode(taken));
          *report = give_array(ConstByteSpan(bytes));
          *report_size = bytes.size();
          return {};
        });
  });
}

towpath_code_t towpath_worker_figures(towpath_worker_t* worker, towpath_worker_figures_t* figures,
                                      towpath_error_t* error) {
  return call_own(error, worker, given(worker, figures), [&]() -> Status {
    TOWPATH_TRY(check_size(figures));
    const kv::ConnectorWorker::Figures moved =
        worker->node->call([](auto& it) { return it.figures(); });
    const kv::PeerFigures granting = worker->node->figures().granting;
    const towpath_worker_figures_t all{
        .size = figures->size,
        .loaded_blocks = moved.loaded_blocks,
        .failed_blocks = moved.failed_blocks,
        .saved_blocks = moved.saved_blocks,
        .unsaved_blocks = moved.unsaved_blocks,
        .peers = granting.peers,
        .leased_blocks = granting.leased,
        .granted_blocks = granting.granted,
        .failed_leases = granting.failed_sessions,
        .steps = moved.engine_time.steps,
        .engine_ns = static_cast<std::uint64_t>(moved.engine_time.all().count())};
    std::memcpy(figures, &all, std::min(figures->size, sizeof all));
    return {};
  });
}

towpath_code_t towpath_worker_sync(towpath_worker_t* worker, towpath_error_t* error) {
  return call_own(error, worker, given(worker),
                  [&] { return worker->node->call([](auto& it) { return it.sync(); }); });
}
