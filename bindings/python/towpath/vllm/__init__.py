"""Towpath as a KV connector of vLLM 0.32 and newer, with nothing else to install:

    vllm serve MODEL --kv-transfer-config '{
        "kv_connector": "TowpathConnector", "kv_connector_module_path": "towpath.vllm",
        "kv_role": "kv_both", "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"directory": "/nvme/kv"}}'

The guide is docs/guides/vllm.md. `connector` has the methods that vLLM calls, `scheduling` and `serving`
are its two halves, `geometry` proves the shape of the caches, `settings` reads the extra config.
"""
from towpath.vllm.connector import TowpathConnector

__all__ = ["TowpathConnector"]
