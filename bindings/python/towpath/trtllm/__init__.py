"""Towpath as a KV cache connector of TensorRT-LLM, with nothing else to install:

    export TRTLLM_TOWPATH='{"directory": "/nvme/kv"}'

    LLM(model=FOLDER, backend="pytorch",
        kv_cache_config=KvCacheConfig(use_kv_cache_manager_v2=False, enable_partial_reuse=False),
        kv_connector_config=KvCacheConnectorConfig(connector_module="towpath.trtllm",
                                                   connector_scheduler_class="TowpathScheduler",
                                                   connector_worker_class="TowpathWorker"))

The guide is docs/guides/tensorrt_llm.md. `connector` has the two classes that TensorRT-LLM calls, `keeping` what both work
on, `geometry` proves the shape of the cache, `naming` what it is of, `settings` reads the variable. Not yet run in the engine.
"""
from towpath.trtllm.connector import TowpathScheduler, TowpathWorker

__all__ = ["TowpathScheduler", "TowpathWorker"]
