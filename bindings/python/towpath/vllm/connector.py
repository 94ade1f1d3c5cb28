"""TowpathConnector: KVConnectorBase_V1 of vLLM 0.32 and 0.33. vLLM makes one for its scheduler and one
for each rank; this file says which half answers which call."""
import contextlib
import functools
import logging
import math
import time
from dataclasses import dataclass, field
from typing import List

from vllm.distributed import kv_events
from vllm.distributed.kv_transfer import get_kv_transfer_group, has_kv_transfer_group
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import (KVConnectorBase_V1, KVConnectorHandshakeMetadata,
                                                              KVConnectorMetadata, KVConnectorRole,
                                                              KVConnectorTransferResults,
                                                              KVConnectorWorkerMetadata, SupportsHMA)
from vllm.v1.metrics.cache_hit_source import CacheHitSource

from towpath.vllm import geometry, naming, settings
from towpath.vllm.scheduling import Orders, Reports, SchedulerSide
from towpath.vllm.serving import WorkerSide
from towpath.vllm.stats import COUNTERS, OF_WORKERS, TowpathPromMetrics, TowpathStats

_logger = logging.getLogger("vllm.towpath")

_STATS_EVERY_S = 1


@dataclass
class TowpathMetadata(KVConnectorMetadata):
    orders: Orders


class TowpathReports(Reports, KVConnectorWorkerMetadata):
    """Of one worker, or of several."""


@dataclass
class TowpathHandshake(KVConnectorHandshakeMetadata):
    """What a worker has from the start, so that the first request can be matched."""
    reports: List[Reports] = field(default_factory=list)


def _counted(method):
    """The engine's thread is in here: for how long is one of the figures."""

    @functools.wraps(method)
    def timed(self, *args, **kwargs):
        begin = time.perf_counter()
        try:
            return method(self, *args, **kwargs)
        finally:
            spent = time.perf_counter() - begin
            self.seconds[method.__name__] = self.seconds.get(method.__name__, 0.0) + spent

    return timed


class TowpathConnector(KVConnectorBase_V1, SupportsHMA):

    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        self.seconds = {}  # of the engine's thread, by method
        self._last_seconds = self._stats_at = 0.0
        self._settings = settings.read(self._kv_transfer_config.kv_connector_extra_config or {})
        self._refuse_what_is_not_there(vllm_config)
        self._groups = geometry.groups_of(kv_cache_config)
        self._is_plain = geometry.is_plain(self._groups)
        self._refuse_loads_in_step(vllm_config)
        per_block = geometry.tokens_per_block(kv_cache_config)
        name = naming.name_of_cache(vllm_config, per_block, self._settings.model,
                                    "" if self._is_plain else geometry.arrangement(kv_cache_config))
        if role == KVConnectorRole.SCHEDULER:
            self._start_scheduler(vllm_config, per_block, name)
        else:
            self._start_worker(vllm_config, per_block, name)

    @staticmethod
    def _refuse_what_is_not_there(vllm_config):
        parallel = vllm_config.parallel_config
        for name in ("pipeline_parallel_size", "decode_context_parallel_size", "prefill_context_parallel_size"):
            if getattr(parallel, name, 1) != 1:
                raise ValueError(f"towpath: {name} is {getattr(parallel, name)}, and only 1 is supported; "
                                 "tensor_parallel_size may be larger")
        if getattr(parallel, "distributed_executor_backend", None) == "external_launcher":
            raise ValueError("towpath: the executor is external_launcher, where each rank has a scheduler of its own, which hears of "
                             "one worker alone: say --distributed-executor-backend mp")
        if getattr(getattr(vllm_config, "aux_output_config", None), "enabled", False):
            raise ValueError("towpath: with --enable-return-routed-experts vLLM wants the experts of each token that it did not compute, "
                             "and has those of its own cache alone: leave one of the two out")
        model = vllm_config.model_config
        if getattr(model, "runner_type", "") == "pooling" and not getattr(model, "is_prefix_caching_supported", True):
            raise ValueError("towpath: this model's pooling is over all tokens of a prompt, of which a load would leave some out; vLLM "
                             "has no prefix caching for it either: serve it without a connector")

    def _refuse_loads_in_step(self, vllm_config):
        """The step behind one with loads is scheduled upon them before vLLM knows whether they failed, and vLLM takes what it
        computes for the request's next token."""
        if self._settings.loads_in_background:
            return
        if getattr(vllm_config.scheduler_config, "async_scheduling", False):
            raise ValueError("towpath: loads_in_background is false, with asynchronous scheduling, where a step is computed upon "
                             "blocks before it is known whether they came: leave it out, or say --no-async-scheduling")
        if not self._is_plain:
            raise ValueError(f"towpath: loads_in_background is false, and this model has {len(self._groups)} groups of unlike "
                             "layers, of which vLLM cannot hear within a step what failed: leave it out")

    def _start_scheduler(self, vllm_config, per_block, name):
        if getattr(self._kv_transfer_config, "kv_load_failure_policy", "recompute") != "recompute":
            _logger.warning("towpath: kv_load_failure_policy is not \"recompute\": a block that cannot be proven "
                            "fails its request instead of costing the time to compute it. A MultiConnector's own is asked, not its child's")
        events = getattr(vllm_config, "kv_events_config", None)
        self._events = bool(events and events.enable_kv_cache_events)
        self._scheduler = SchedulerSide(
            tokens_per_block=per_block, workers=vllm_config.parallel_config.world_size, name_space=name,
            settings=self._settings, events=self._events, groups=self._groups, keeps_images=naming.knows_images(vllm_config))
        self._last_figures = {}

    def _start_worker(self, vllm_config, per_block, name):
        from vllm.distributed import get_tensor_model_parallel_rank
        rank, parallel = get_tensor_model_parallel_rank(), vllm_config.parallel_config
        in_a_step = math.ceil(vllm_config.scheduler_config.max_num_batched_tokens / per_block)
        mine = self._settings.of_rank(rank, parallel)
        self._worker = WorkerSide(
            settings=mine, name_space=name, rank=rank, first_head=self._first_head(vllm_config, rank),
            least_blocks=(in_a_step + 16) * len(self._groups))
        self._kv_caches = self._device = None

    def _first_head(self, vllm_config, rank):
        """Of unlike layers a rank has one share, whatever is in it."""
        if not self._is_plain:
            return rank
        heads = getattr(self._kv_cache_config.kv_cache_groups[0].kv_cache_spec, "num_kv_heads", 1)
        total, ranks = vllm_config.model_config.get_total_num_kv_heads(), vllm_config.parallel_config.tensor_parallel_size
        return rank * heads if total >= ranks else rank * total // ranks

    # The worker's side ------------------------------------------------------------------------

    @_counted
    def register_kv_caches(self, kv_caches):
        self._kv_caches = kv_caches
        proven = geometry.prove(kv_caches, self._kv_cache_config)
        self._worker.register(proven)
        device = getattr(next(iter(kv_caches.values())), "device", None)
        self._device = None if getattr(device, "type", "cpu") == "cpu" else device
        # vLLM's model runner V2 zeroes blocks, and copies into them, before it says whose they were.
        zeroes = not self._is_plain or getattr(self._kv_cache_config, "needs_kv_cache_zeroing", False)
        self._worker.ends_saves = zeroes and self._device is not None

    def _await_device(self):
        """What the engine has sent to its device is done: blocks zeroed, layers computed."""
        if self._device is not None:
            import torch
            torch.accelerator.current_stream(self._device).synchronize()

    @_counted
    def handle_preemptions(self, kv_connector_metadata):
        self._worker.settle(kv_connector_metadata.orders)

    @_counted
    def bind_connector_metadata(self, connector_metadata):
        super().bind_connector_metadata(connector_metadata)
        if connector_metadata.orders.loads or connector_metadata.orders.awaited:
            self._await_device()  # what is loaded would be written over
        self._worker.begin(connector_metadata.orders)

    def has_connector_metadata(self):
        """vLLM asks before each layer whether to call the two below."""
        return self._connector_metadata is not None and self._device is None and self._worker.has_layers()

    @_counted
    def start_load_kv(self, forward_context, **kwargs):
        # On a device layers do not wait one by one, since a captured graph calls nobody.
        if self._device is not None:
            self._worker.wait_for_loads()

    @_counted
    def wait_for_layer_load(self, layer_name):
        self._worker.wait_for_layer_load(layer_name)

    @_counted
    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs):
        if self._device is None:
            self._worker.save_layer(layer_name)

    @_counted
    def wait_for_save(self):
        if self._connector_metadata is not None and self._connector_metadata.orders.data is not None:
            self._await_device()
        self._worker.end()

    @_counted
    def get_transfer_results(self, finished_req_ids):
        """Of unlike layers a request is what fails, since a block's number says nothing of its group."""
        sent, received, failed = self._worker.take_finished()
        return KVConnectorTransferResults(sent, received, set() if self._is_plain else failed)

    def get_finished(self, finished_req_ids):
        results = self.get_transfer_results(finished_req_ids)
        return results.finished_sending, results.finished_recving

    @_counted
    def get_block_ids_with_load_errors(self):
        failed = self._worker.take_failed_blocks()
        return failed if self._is_plain else set()

    @_counted
    def build_connector_worker_meta(self):
        return self._worker.take_reports(TowpathReports)

    def get_handshake_metadata(self):
        """None to a MultiConnector, which takes one child's and gives it to all of them: others refuse ours. There the first
        step's reports have what is there from the start."""
        if has_kv_transfer_group() and get_kv_transfer_group() is not self:
            return None
        reports = self._worker.first_reports()
        return TowpathHandshake([reports] if reports else [])

    @classmethod
    def supports_sleep_mode(cls, kv_transfer_config):
        return True

    def unregister_kv_caches(self):
        self._worker.close()

    def restore_kv_caches(self):
        if self._kv_caches is not None:
            self.register_kv_caches(self._kv_caches)

    # The scheduler's side ---------------------------------------------------------------------

    def set_xfer_handshake_metadata(self, metadata):
        """A MultiConnector passes on what another child of it has for its own like."""
        for handshake in metadata.values():
            if isinstance(handshake, TowpathHandshake):
                for reports in handshake.reports:
                    self._scheduler.update(reports)

    @_counted
    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        return self._scheduler.match(request, num_computed_tokens)

    @_counted
    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        self._scheduler.allocate(request, blocks.get_block_ids(), num_external_tokens)

    @_counted
    def build_connector_meta(self, scheduler_output):
        return TowpathMetadata(self._scheduler.build(scheduler_output))

    @_counted
    def update_connector_output(self, connector_output):
        reports = connector_output.kv_connector_worker_meta
        if reports is not None:
            self._scheduler.update(reports)
        self._scheduler.ended(connector_output.finished_sending or ())
        self._scheduler.ended(connector_output.finished_recving or ())

    @_counted
    def request_finished(self, request, block_ids):
        return self._scheduler.finish(request)

    def request_finished_all_groups(self, request, block_ids):
        return self.request_finished(request, block_ids)

    def get_external_cache_hit_sources(self, request, num_external_tokens):
        mine = self._settings
        only_memory = not (mine.directory or mine.objects or mine.peers or mine.server)
        source = CacheHitSource.HOST if only_memory else CacheHitSource.EXTERNAL_UNSPECIFIED
        return {source: num_external_tokens} if num_external_tokens else {}

    @_counted
    def take_events(self):
        self._scheduler.step_ends()  # asked after each step, and nothing else always is
        return self._scheduler.events(kv_events) if self._events else ()

    @_counted
    def has_pending_push_work(self):
        return self._scheduler.has_work()

    @property
    def requires_kv_delivery(self):
        """A save that a preemption ends early is a block less: nobody waits for it."""
        return False

    def reset_cache(self):
        """vLLM also asks as it pauses or falls asleep, and stays paused where it is refused."""
        if not self._scheduler.reset():
            _logger.warning("towpath: not reset, since blocks of requests are on their way: ask again")
            return False
        self._last_figures = {name: count for name, count in self._last_figures.items() if name.startswith("hints_")}  # they go on
        if self._settings != self._settings.alone():
            _logger.warning("towpath: objects, peers and a server are used no more in this life of the engine: what they keep "
                            "was computed before the reset; give another \"model\" if it is of other weights")
            self._settings = self._settings.alone()
        return True

    # Both -------------------------------------------------------------------------------------

    @_counted
    def get_kv_connector_stats(self):
        """Asked after each step, and answered now and then: counting costs more than a step may."""
        now = time.monotonic()
        if now < self._stats_at:
            return None
        self._stats_at = now + _STATS_EVERY_S
        if self._role == KVConnectorRole.SCHEDULER:
            before, self._last_figures = self._last_figures, self._scheduler.figures()
            figures = {name: value - before.get(name, 0) for name, value in self._last_figures.items()
                       if name in COUNTERS and name not in OF_WORKERS}
        else:
            figures = self._worker.figures()
        spent = sum(self.seconds.values())
        figures["engine_seconds"], self._last_seconds = spent - self._last_seconds, spent
        return TowpathStats({name: value for name, value in figures.items() if value})

    @classmethod
    def build_kv_connector_stats(cls, data=None):
        return TowpathStats(data) if data else TowpathStats()

    @classmethod
    def build_prom_metrics(cls, vllm_config, metric_types, labelnames, per_engine_labelvalues):
        return TowpathPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def shutdown(self):
        if self._role == KVConnectorRole.WORKER:
            self._worker.close()


# A MultiConnector looks in vLLM's register, by the class's name, for what counts its children's figures.
with contextlib.suppress(ValueError):  # another has the name
    KVConnectorFactory.register_connector(TowpathConnector.__name__, __name__, TowpathConnector.__name__)
