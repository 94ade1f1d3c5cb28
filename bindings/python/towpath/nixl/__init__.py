"""The interface of NIXL's Python package, over Towpath: `from towpath.nixl import nixl_agent`.

It has what NIXL's modules offer, too, as NIXL's package does. For programs that say `import nixl` there
is a separate package that gives the name; see docs/guides/python.md.
"""
from towpath.nixl import _api, _bindings, _utils, logging
from towpath.nixl._bindings import *  # noqa: F401,F403
from towpath.nixl._utils import *  # noqa: F401,F403
from towpath.nixl.logging import *  # noqa: F401,F403
from towpath.nixl._api import *  # noqa: F401,F403 - the last: its nixl_thread_sync_t counts

__all__ = [*dict.fromkeys([*_bindings.__all__, *_utils.__all__, *logging.__all__, *_api.__all__])]
