"""As much of vLLM as towpath.vllm imports, for machines that have none: the names, and nothing that computes."""
import dataclasses
import enum
import sys
import types


class KVConnectorRole(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


class KVConnectorBase_V1:
    """The part of the real one's behaviour that a connector relies on."""

    def __init__(self, vllm_config, role, kv_cache_config):
        self._connector_metadata, self._role = None, role
        self._kv_transfer_config, self._kv_cache_config = vllm_config.kv_transfer_config, kv_cache_config

    @property
    def requires_kv_delivery(self):
        return self._kv_transfer_config.is_kv_producer

    def bind_connector_metadata(self, connector_metadata):
        self._connector_metadata = connector_metadata

    def clear_connector_metadata(self):
        self._connector_metadata = None

    def has_connector_metadata(self):
        return self._connector_metadata is not None


class SupportsHMA:
    pass


class KVConnectorFactory:
    _modules = {}

    @classmethod
    def register_connector(cls, name, module_path, class_name):
        if name in cls._modules:
            raise ValueError(f"Connector '{name}' is already registered.")
        cls._modules[name] = module_path, class_name

    @classmethod
    def get_connector_class_by_name(cls, connector_name):
        if connector_name not in cls._modules:
            raise ValueError(f"Connector '{connector_name}' is not registered.")
        module_path, class_name = cls._modules[connector_name]
        return getattr(sys.modules[module_path], class_name)


@dataclasses.dataclass
class KVConnectorTransferResults:
    finished_sending: set = dataclasses.field(default_factory=set)
    finished_recving: set = dataclasses.field(default_factory=set)
    failed_recving: set = dataclasses.field(default_factory=set)


class CacheHitSource(str, enum.Enum):
    HOST = "host"
    EXTERNAL_UNSPECIFIED = "external_unspecified"


class KVConnectorStats:

    def __init__(self, data=None):
        self.data = data or {}


class KVConnectorPromMetrics:

    def __init__(self, vllm_config, metric_types, labelnames, per_engine_labelvalues):
        pass


class CachePolicy:
    """Of vLLM's own offloading, without its abstract methods."""

    def __init__(self, cache_capacity):
        self.cache_capacity = cache_capacity


class LookupResult(enum.Enum):
    MISS, HIT, HIT_PENDING, RETRY = range(4)


class SecondaryTierManager:
    """Of vLLM's own offloading, without its abstract methods."""

    def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None):
        self.block_size_bytes, self.tier_type = primary_kv_view.strides[0], tier_type


class TieringOffloadingSpec:

    def __init__(self, config):
        self.config, self.extra_config = config, config.extra_config

    @classmethod
    def build_metric_definitions(cls, extra_config):
        return extra_config


@dataclasses.dataclass
class JobResult:
    job_id: int
    success: bool
    successful_keys: object = None
    transfer_time: object = None
    transfer_bytes: object = None


class FileMapper:

    @staticmethod
    def from_offloading_spec(root_dir, offloading_spec, **how):
        return types.SimpleNamespace(fields={"model_name": offloading_spec.config.model.name, **how})


class Counter:
    """As prometheus_client's."""

    def __init__(self, name, documentation, labelnames):
        self.name, self.values = name, {}

    def labels(self, *values):
        self.label = values
        return self

    def inc(self, value):
        self.values[self.label] = self.values.get(self.label, 0) + value


def _module(name, **names):
    module = types.ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module


def install():
    """Once, before towpath.vllm is imported. Where the real one is there, it is used."""
    try:
        import vllm  # noqa: F401
        return
    except ImportError:
        pass
    import towpath.kv_events as kv_events
    base = "vllm.distributed.kv_transfer.kv_connector.v1"
    for name in ("vllm", "vllm.distributed.kv_transfer.kv_connector", base, "vllm.v1", "vllm.v1.metrics"):
        _module(name, __path__=[], __version__="none")
    _module("vllm.distributed.kv_transfer", __path__=[], has_kv_transfer_group=lambda: False, get_kv_transfer_group=lambda: None)
    _module("vllm.distributed", __path__=[], get_tensor_model_parallel_rank=lambda: 0, kv_events=kv_events)
    empty = {name: type(name, (), {}) for name in ("KVConnectorHandshakeMetadata", "KVConnectorMetadata",
                                                   "KVConnectorWorkerMetadata")}
    _module(f"{base}.base", KVConnectorBase_V1=KVConnectorBase_V1, KVConnectorRole=KVConnectorRole, SupportsHMA=SupportsHMA,
            KVConnectorTransferResults=KVConnectorTransferResults, **empty)
    _module("vllm.distributed.kv_transfer.kv_connector.factory", KVConnectorFactory=KVConnectorFactory)
    _module(f"{base}.metrics", KVConnectorStats=KVConnectorStats, KVConnectorPromMetrics=KVConnectorPromMetrics)
    _module("vllm.v1.metrics.cache_hit_source", CacheHitSource=CacheHitSource)
    _module("vllm.platforms", current_platform=types.SimpleNamespace(
        device_type="test", get_device_name=lambda: "", get_device_capability=lambda: ""))
    _module("prometheus_client", Counter=Counter)
    for name in ("vllm.v1.kv_offload", "vllm.v1.kv_offload.cpu", "vllm.v1.kv_offload.cpu.policies", "vllm.v1.kv_offload.tiering"):
        _module(name, __path__=[])
    _module("vllm.v1.kv_offload.cpu.policies.base", CachePolicy=CachePolicy,
            order_request_keys=lambda key_groups, req_context: [key for keys in key_groups for key in keys])
    _module("vllm.v1.kv_offload.base", Locality=str, LookupResult=LookupResult, Medium=types.SimpleNamespace(STORAGE="DISK"),
            OffloadingEvent=types.SimpleNamespace, RequestOffloadingContext=types.SimpleNamespace)
    _module("vllm.v1.kv_offload.file_mapper", FileMapper=FileMapper)
    _module("vllm.v1.kv_offload.tiering.base", JobResult=JobResult, SecondaryTierManager=SecondaryTierManager)
    _module("vllm.v1.kv_offload.tiering.spec", TieringOffloadingSpec=TieringOffloadingSpec)


@dataclasses.dataclass
class Spec:
    """Of a group's caches, as FullAttentionSpec is: K and V of 4 heads of 64, float16."""
    block_size: int = 16
    num_heads: int = 4
    num_kv_heads: int = 4
    num_states: int = 16
    state_content_size_bytes: int = 256


@dataclasses.dataclass
class FullAttentionSpec(Spec):
    page_size_bytes: int = 16384


@dataclasses.dataclass
class SlidingWindowSpec(FullAttentionSpec):
    sliding_window: int = 33


@dataclasses.dataclass
class ChunkedLocalAttentionSpec(FullAttentionSpec):
    pass


@dataclasses.dataclass
class RSWASpec(FullAttentionSpec):
    rswa_window: int = 64


@dataclasses.dataclass
class PrefixLMSpec(FullAttentionSpec):
    """As vLLM says it of a FullAttentionSpec."""
    non_causal: bool = True


@dataclasses.dataclass
class CircularBufferSpec(FullAttentionSpec):
    prefix_cacheable: bool = False


@dataclasses.dataclass
class MambaSpec(FullAttentionSpec):
    mamba_cache_mode: str = "align"
    num_speculative_blocks: int = 0
    num_prefill_checkpoint_blocks: int = 0


def cache_config(spec=None, num_blocks=8):
    group = types.SimpleNamespace(kv_cache_spec=spec or FullAttentionSpec())
    return types.SimpleNamespace(num_blocks=num_blocks, kv_cache_groups=[group])


def overlaid(specs, num_blocks=8, layers=2, beside=False):
    """Caches of groups of unlike layers, two each, over one allocation, and the configuration that says so. Of a
    state, two arrays in each page. `beside`: each group has places of its own instead."""
    import numpy
    space, page = types.SimpleNamespace, specs[0].page_size_bytes
    length = layers * num_blocks * page
    memory, caches, groups, tensors = numpy.zeros(length * (len(specs) if beside else 1), numpy.uint8), {}, [], []
    for number, spec in enumerate(specs):
        offset = number * length if beside else 0
        names = [f"group {number} layer {layer}" for layer in range(layers)]
        groups.append(space(kv_cache_spec=spec, layer_names=names))
        tensors.append(space(layers=names, layer_stride=num_blocks * page, block_stride=page, offset=offset))
        for layer, name in enumerate(names):
            pages = memory[offset:offset + length].reshape(layers, num_blocks, page)[layer]
            caches[name] = (pages[:, :1024], pages[:, 1024:4096]) if isinstance(spec, MambaSpec) else pages
    return caches, space(num_blocks=num_blocks, kv_cache_groups=groups, kv_cache_tensors=tensors)


def config(extra=None, in_a_step=128, rope="default", max_model_len=4096, quantization=None, **parallel):
    """A VllmConfig, as far as it is read."""
    space = types.SimpleNamespace
    return space(
        kv_transfer_config=space(kv_connector_extra_config=extra or {}, kv_load_failure_policy="recompute",
                                 is_kv_producer=True),
        parallel_config=space(**{"world_size": 1, "tensor_parallel_size": 1, "pipeline_parallel_size": 1,
                                 "data_parallel_size": 1, "data_parallel_index": 0, **parallel}),
        model_config=space(model="a/model", revision=None, dtype="float16", quantization=quantization, max_model_len=max_model_len,
                           hf_config=space(to_json_string=lambda: f'{{"rope_parameters": {{"rope_type": "{rope}"}}}}'),
                           get_total_num_kv_heads=lambda: 4),
        cache_config=space(cache_dtype="auto"), scheduler_config=space(max_num_batched_tokens=in_a_step),
        kv_events_config=space(enable_kv_cache_events=True))
