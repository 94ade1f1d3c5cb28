"""As much of SGLang as towpath.sglang imports, for machines that have none: the names, and nothing that computes."""
import enum
import sys
import types
from dataclasses import dataclass
from typing import Any, List, Optional


class HiCacheStorage:
    pass


class PoolName(str, enum.Enum):
    KV = "kv"
    MAMBA = "mamba"
    SWA = "swa"

    def __str__(self):
        return self.value


class PoolHitPolicy(str, enum.Enum):
    ALL_PAGES = "all_pages"
    TRAILING_PAGES = "trailing_pages"
    BLOCK_GROUPS = "block_groups"


@dataclass
class PoolTransfer:
    name: PoolName
    host_indices: Any = None
    keys: Optional[List[str]] = None
    hit_policy: PoolHitPolicy = PoolHitPolicy.ALL_PAGES


@dataclass
class PoolTransferResult:
    kv_hit_pages: int
    extra_pool_hit_pages: dict
    restorable_prefix_pages: Optional[List[int]] = None


def install():
    """Once, before towpath.sglang is imported. Where the real one is there, it is used."""
    try:
        import sglang  # noqa: F401
        return
    except ImportError:
        pass
    names = ("sglang", "sglang.srt", "sglang.srt.mem_cache", "sglang.srt.mem_cache.hicache_storage")
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = []
        sys.modules[name] = module
    module.__dict__.update({each.__name__: each for each in (HiCacheStorage, PoolName, PoolHitPolicy, PoolTransfer,
                                                             PoolTransferResult)})
    sys.modules["sglang"].__version__ = "none"
    context = types.ModuleType("sglang.srt.runtime_context")
    context.get_server_args = lambda: types.SimpleNamespace(model_path="a/model", revision=None)
    sys.modules[context.__name__] = sys.modules["sglang.srt"].runtime_context = context


@dataclass
class Config:
    """A HiCacheStorageConfig, as far as it is read."""
    extra_config: dict
    model_name: str = "a/model"
    tp_rank: int = 0
    tp_size: int = 1
    pp_rank: int = 0
    pp_size: int = 1
    attn_cp_rank: int = 0
    attn_cp_size: int = 1
    dp_rank: int = 0
    is_mla_model: bool = False
