"""The logger "nixl": warnings and worse to standard output, or from NIXL_LOG_LEVEL on."""
import logging
import os
import sys

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL
}


def get_logger(name=None):
    """The logger of `name`, below "nixl"; its handler is made with the first one."""
    root = logging.getLogger("nixl")
    if not root.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        root.addHandler(handler)
        root.setLevel(_LEVELS.get(os.environ.get("NIXL_LOG_LEVEL", "").upper(), logging.WARNING))
        root.propagate = False
    return root.getChild(name.rpartition(".")[2]) if name else root
