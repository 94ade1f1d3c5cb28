"""The interface of NIXL's Python package, over Towpath: `from towpath.nixl import nixl_agent`.

For programs that say `import nixl` there is a separate package that gives the name; see
docs/guides/python.md.
"""
from towpath.nixl._api import (DEFAULT_COMM_PORT, nixl_agent, nixl_agent_config,
                               nixl_backend_handle, nixl_prepped_dlist_handle, nixl_thread_sync_t,
                               nixl_xfer_handle)

__all__ = [
    "DEFAULT_COMM_PORT", "nixl_agent", "nixl_agent_config", "nixl_backend_handle",
    "nixl_prepped_dlist_handle", "nixl_thread_sync_t", "nixl_xfer_handle"
]
