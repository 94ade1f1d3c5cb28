"""The import name `nixl`, for programs that are to run on Towpath unchanged.

It has no code of its own: `nixl._api` and the others are the modules of `towpath.nixl`. Do not
install it beside NIXL itself.
"""
import sys

# The NIXL that this is, for programs that ask the installed package (vLLM wants 1.5.0 and newer). The
# one place: the package's version is read from here.
__version__ = "1.5.2"

from towpath.nixl import *  # noqa: F401,F403
from towpath.nixl import __all__  # noqa: F401
from towpath.nixl import _api, _bindings, _utils, logging

for _name, _module in {"_api": _api, "_bindings": _bindings, "_utils": _utils,
                       "logging": logging}.items():
    sys.modules[f"nixl.{_name}"] = _module
