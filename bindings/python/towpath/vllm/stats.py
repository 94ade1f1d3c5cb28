"""What the connector did since the engine last asked, for its log and its Prometheus endpoint."""
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats
from prometheus_client import Counter
from towpath.vllm.hints import OUTCOMES

COUNTERS = {
    "loaded_blocks": "Blocks brought to the engine, each proven",
    "failed_blocks": "Blocks that could not be brought, which the engine computes",
    "saved_blocks": "Blocks kept",
    "unsaved_blocks": "Blocks that could not be kept",
    "from_memory": "Blocks wanted that were in memory",
    "from_files": "Blocks wanted that came from files",
    "from_objects": "Blocks wanted that came from objects",
    "written": "Blocks written to files and objects",
    "quarantined": "Blocks whose bytes were not what was kept: thrown away",
    "given_up": "Blocks that the server of the host did not take in time",
    "leased": "Blocks that came from peers",
    "asked_tokens": "Tokens of prompts that the engine had not in its own cache",
    "matched_tokens": "Tokens of these that were loaded",
    "loaded_all": "Requests of which all that was kept was loaded",
    "loaded_some": "Requests of which some was loaded, and the rest computed sooner",
    "loaded_none": "Requests of which nothing was loaded, since computing was expected to be sooner",
    "tokens_not_loaded": "Tokens that were kept, and computed sooner",
    **{f"hints_{outcome}": f"KV hints that were {outcome}" for outcome in OUTCOMES},
    "engine_seconds": "Seconds of the engine's threads in the connector",
}

OF_WORKERS = {"failed_blocks", "saved_blocks"}  # the scheduler counts what it asked them for


class TowpathStats(KVConnectorStats):

    def reset(self):
        self.data = {}

    def aggregate(self, other):
        for name, value in other.data.items():
            self.data[name] = self.data.get(name, 0) + value
        return self

    def reduce(self):
        return {name: round(value, 6) for name, value in self.data.items()}

    def is_empty(self):
        return not any(self.data.values())


class TowpathPromMetrics(KVConnectorPromMetrics):

    def __init__(self, vllm_config, metric_types, labelnames, per_engine_labelvalues):
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters = {}
        for name, says in COUNTERS.items():
            counter = metric_types[Counter](name=f"vllm:towpath_{name}", documentation=f"{says}.",
                                            labelnames=labelnames)
            self._counters[name] = {engine: counter.labels(*values) if labelnames else counter
                                    for engine, values in per_engine_labelvalues.items()}

    def observe(self, transfer_stats_data, engine_idx=0):
        for name, value in transfer_stats_data.items():
            if name in self._counters and value > 0:
                self._counters[name][engine_idx].inc(value)
