"""Proven files below vLLM's own offloading to the CPU (its OffloadingConnector), as the whole of it:

    "kv_connector": "OffloadingConnector", "kv_connector_extra_config": {
        "spec_name": "TowpathOffloadingSpec", "spec_module_path": "towpath.vllm.tier",
        "cpu_bytes_to_use": 8589934592, "directory": "/nvme/kv", "disk": "200GiB"}

or as one of the tiers of vLLM's TieringOffloadingSpec:

        "secondary_tiers": [{"type": "TowpathTier", "module_path": "towpath.vllm.tier", "directory": "/nvme/kv"}]

A chunk that was stored is there after a crash, and comes back as it was or not at all. What has other weights (of a model
from a hub: another revision), another configuration, quantization, layout or type has other names; degrees of parallelism share
chunks where vLLM says that these are the same. When `disk` is full the oldest go, but for
those that were loaded lately. TowpathConnector (towpath.vllm) needs no copy in vLLM's memory, and does more: this is for
those who have the other connector already.

Source of the interface: vLLM 0.32, vllm/v1/kv_offload/tiering/base.py and spec.py. Thread: vLLM's scheduler's.
"""
import dataclasses
import hashlib
import inspect
import json
import logging
import os
import select
import time

from vllm.v1.kv_offload.base import Locality, LookupResult, Medium, OffloadingEvent, RequestOffloadingContext
from vllm.v1.kv_offload.file_mapper import FileMapper
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from towpath._keyed import ModelSettings, Store, read_settings
from towpath.vllm import naming

_logger = logging.getLogger("vllm.towpath")  # below vLLM's own, so that it is seen

_OURS = tuple(field.name for field in dataclasses.fields(ModelSettings))


def _vllm_config():
    """vLLM's, of which a tier is given a small part: of the caller that has it (OffloadingConnectorScheduler in 0.32). None:
    none of them has."""
    frame = inspect.currentframe()
    while frame is not None:
        found = frame.f_locals.get("vllm_config")
        if hasattr(found, "model_config"):
            return found
        frame = frame.f_back
    return None


def _model(own):
    vllm_config = _vllm_config()
    if vllm_config is not None and getattr(vllm_config.model_config, "multimodal_config", None) and not naming.knows_images(vllm_config):
        raise ValueError("towpath: with --mm-processor-cache-gb 0 and without prefix caching vLLM numbers images, and a number is another "
                         "image's in the next life: leave one of the two out")
    if vllm_config is not None:
        return {**naming.facts_of_model(vllm_config, own), **naming.facts_of_engine(vllm_config)}
    if not own:
        raise ValueError("towpath: what model vLLM was started with cannot be asked, since no caller has a vllm_config: say "
                         '"model" beside "directory", another for other weights')
    return {"name": own}


def _name_of(offloading_spec, chunk_bytes, model):
    """Of what may share chunks: vLLM's own idea of it, and what that leaves out."""
    config = offloading_spec.config
    fields = FileMapper.from_offloading_spec(root_dir="", offloading_spec=offloading_spec, parallel_agnostic=True,
                                             blocks_per_file=offloading_spec.blocks_per_chunk).fields
    said = json.dumps([fields, chunk_bytes, config.kv_cache_layout, model], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest().encode()


class _Job:

    def __init__(self, job):
        self.number, self.keys, self.is_load, self.begun = job.job_id, list(job.keys), job.is_promotion, time.monotonic()


class TowpathTier(SecondaryTierManager):
    """What vLLM's scheduler calls. No call waits but drain_jobs() and shutdown()."""

    medium = Medium.STORAGE

    def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None, *, locality=None,
                 enable_kv_events=False, **settings):
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        settings = read_settings(settings, "secondary_tiers", ModelSettings)
        parallel = offloading_spec.config.parallel
        folder = settings.directory
        if parallel.data_parallel_size > 1:  # a directory has one owner
            folder = os.path.join(folder, f"dp{parallel.data_parallel_index}")
        self._store = Store(folder, settings, _logger, "chunks")
        self._bytes = primary_kv_view.cast("B")
        self._prefix = _name_of(offloading_spec, self.block_size_bytes, _model(settings.model)) + b" "
        publishes = enable_kv_events and offloading_spec.kv_events_config.enable_kv_cache_events
        self._events = [] if publishes else None
        self.locality = Locality(locality) if locality else None
        self._jobs, self._ended = {}, []  # by the batch that does it
        self._there = {}  # by key: whether it is; None: that was asked
        self._to_ask, self._asked = [], {}  # the latter by batch
        self._of_request = {}

    def _names(self, keys):
        return [self._prefix + bytes(key) for key in keys]

    # Whether a chunk is there ------------------------------------------------------------------

    def on_new_request(self, req_context):
        return RequestOffloadingContext()

    def lookup(self, key, req_context):
        self._of_request.setdefault(req_context.req_id, set()).add(key)
        if key not in self._there:
            self._there[key] = None
            self._to_ask.append(key)
        elif self._there[key] is None:
            self._look()
        there = self._there[key]
        return LookupResult.RETRY if there is None else LookupResult.HIT if there else LookupResult.MISS

    def on_schedule_end(self, context):
        if self._to_ask:
            self._asked[self._store.blocks.submit_find(self._names(self._to_ask))] = self._to_ask
            self._to_ask = []

    def on_request_finished(self, req_context):
        """What it asked is asked anew by the next one: chunks come and go."""
        for key in self._of_request.pop(req_context.req_id, ()):
            self._there.pop(key, None)

    # Moving ------------------------------------------------------------------------------------

    def _buffers(self, job):
        size = self.block_size_bytes
        return [self._bytes[int(chunk) * size:(int(chunk) + 1) * size] for chunk in job.chunk_ids]

    def submit_store(self, job_metadata):
        self._submit(self._store.blocks.submit_put, job_metadata)

    def submit_load(self, job_metadata):
        self._submit(self._store.blocks.submit_get, job_metadata)

    def _submit(self, submit, given):
        job = _Job(given)
        self._jobs[submit(self._names(job.keys), self._buffers(given))] = job

    def _look(self):
        for batch, answers in self._store.blocks.take_ended():
            asked = self._asked.pop(batch, None)
            well, _ = self._store.judge(answers)
            if asked is not None:
                self._note(asked, well)
            else:
                self._end(self._jobs.pop(batch), well)

    def _note(self, keys, there):
        """For the requests that wait for it, if there still are some."""
        self._there.update((key, is_there) for key, is_there in zip(keys, there) if key in self._there)

    def _end(self, job, well):
        done = [key for key, is_well in zip(job.keys, well) if is_well]
        if job.is_load:
            self._note(job.keys, well)
        elif done and self._events is not None:
            self._events.append(OffloadingEvent(keys=done, medium=self.medium, removed=False, locality=self.locality))
        self._ended.append(JobResult(
            job_id=job.number, success=all(well), successful_keys=tuple(done) if job.is_load and not all(well) else None,
            transfer_time=time.monotonic() - job.begun, transfer_bytes=len(done) * self.block_size_bytes))

    def get_finished_jobs(self):
        self._look()
        ended, self._ended = self._ended, []
        return ended

    def has_pending_work(self):
        return bool(self._jobs or self._asked or self._to_ask or self._ended)

    def take_events(self):
        events, self._events = self._events, None if self._events is None else []
        return events or ()

    def drain_jobs(self):
        poller = select.poll()
        poller.register(self._store.blocks.fileno(), select.POLLIN)
        while self._jobs:
            poller.poll(1000)
            self._look()

    def shutdown(self):
        self._store.blocks.close()
        self._bytes.release()


def _with_tier(extra_config):
    """The settings of TieringOffloadingSpec that ours mean: its first tier, and the policy above it."""
    ours = {key: extra_config[key] for key in _OURS if key in extra_config}
    policy = {} if "eviction_policy" in extra_config else {
        "eviction_policy": "AdaptiveCachePolicy", "cache_policy_module_path": "towpath.vllm.policies"}
    tier = {"type": "TowpathTier", "module_path": __name__, **ours}
    return {**{key: value for key, value in extra_config.items() if key not in _OURS}, **policy,
            "secondary_tiers": [tier, *extra_config.get("secondary_tiers", [])]}


class TowpathOffloadingSpec(TieringOffloadingSpec):
    """vLLM's tiers with ours as the first below memory, and the policy `adaptive` above it unless another is named."""

    @classmethod
    def build_metric_definitions(cls, extra_config):
        return super().build_metric_definitions(_with_tier(extra_config))

    def __init__(self, config):
        super().__init__(dataclasses.replace(config, extra_config=_with_tier(config.extra_config)))
