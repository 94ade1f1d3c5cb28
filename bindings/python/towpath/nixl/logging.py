"""The logger "nixl": warnings and worse to standard output, or from NIXL_LOG_LEVEL on."""
import logging
import logging.config
import os

__all__ = ["LOGGING_CONFIG", "get_logger", "set_log_level_by_env", "setup_logging"]

LOGGING_CONFIG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "format": "%(asctime)s %(name)s %(levelname)s %(message)s"
        }
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "stream": "ext://sys.stdout"
        }
    },
    "loggers": {
        "nixl": {
            "level": "WARNING",
            "handlers": ["console"],
            "propagate": False
        }
    }
}

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL
}
_was_set_up = False


def set_log_level_by_env(nixl_logger):
    """The level that NIXL_LOG_LEVEL names; without it, or when there is no such level, no change."""
    name = os.environ.get("NIXL_LOG_LEVEL", "")
    if name.upper() in _LEVELS:
        nixl_logger.setLevel(_LEVELS[name.upper()])
    elif name:
        nixl_logger.warning("NIXL_LOG_LEVEL=%r is no level; there are %s", name, ", ".join(_LEVELS))


def setup_logging():
    """Once: LOGGING_CONFIG, unless the logger "nixl" has a handler already, then NIXL_LOG_LEVEL."""
    global _was_set_up
    if _was_set_up:
        return
    _was_set_up = True
    nixl_logger = logging.getLogger("nixl")
    if not nixl_logger.handlers:
        logging.config.dictConfig(LOGGING_CONFIG)
    set_log_level_by_env(nixl_logger)


def get_logger(name=None):
    """The logger of `name`, below "nixl"."""
    setup_logging()
    return logging.getLogger(f"nixl.{name.lstrip('_')}" if name else "nixl")
