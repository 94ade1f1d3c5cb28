"""An L2 adapter for LMCache, as its `native_plugin` wants one: chunks in files, proven, with Towpath's block store.

    lmcache server --l1-size-gb 20 --l2-adapter '{"type": "native_plugin", "module_path": "towpath.lmcache",
        "class_name": "TowpathL2", "adapter_params": {"directory": "/nvme/kv", "disk": "200GiB"}}'

A chunk that was stored is there after a crash, and comes back as it was or not at all. When `disk` is full the
oldest chunks go, but for those that were loaded lately; with LMCache's own `max_capacity_gb` it says which.
Source of the interface: LMCache 0.5.6, lmcache/v1/distributed/l2_adapters/native_connector_l2_adapter.py.
"""
import dataclasses
import logging

from towpath._settings import read_fields, size_in_bytes
from towpath._towpath import KeyedBlocks
from towpath.errors import NotFound

_logger = logging.getLogger("lmcache.towpath")  # below LMCache's own, so that it is seen


@dataclasses.dataclass
class Settings:
    """The keys of `adapter_params`. `directory`: one LMCache server's; `disk`: how much of it at most, in bytes or
    as "200GiB"; `direct`: past the page cache (O_DIRECT), which takes chunks of whole multiples of 4,096 bytes."""
    directory: str
    disk: int = 16 << 30
    direct: bool = False


class TowpathL2:
    """What LMCache calls, from its threads. Each submit_*() gives the number of a batch, and drain_completions()
    says what came of it: (number, whether all went well, why not, whether each did)."""

    def __init__(self, **adapter_params):
        settings = read_fields(Settings, adapter_params, "adapter_params", {"disk": size_in_bytes},
                               needed={"directory": '{"directory": "/nvme/kv"}'})
        self._blocks = KeyedBlocks(settings.directory, disk_bytes=settings.disk, direct=settings.direct)
        self._failure = ""
        if self._blocks.direct_refusal:
            _logger.warning("towpath: direct is not done, files go through the page cache: %s", self._blocks.direct_refusal)
        _logger.info("towpath: %d chunks are in %s", self._blocks.blocks_at_opening, settings.directory)

    def event_fd(self):
        """Readable while there is something to drain."""
        return self._blocks.fileno()

    def submit_batch_set(self, keys, memoryviews):
        return self._blocks.submit_put(keys, memoryviews)

    def submit_batch_get(self, keys, memoryviews):
        return self._blocks.submit_get(keys, memoryviews)

    def submit_batch_exists(self, keys):
        return self._blocks.submit_find(keys)

    def submit_batch_delete(self, keys):
        return self._blocks.submit_remove(keys)

    def drain_completions(self):
        return [self._completion(number, answers) for number, answers in self._blocks.take_ended()]

    def _completion(self, number, answers):
        """A chunk that is not there is an answer; what else went wrong is reported, once."""
        failures = [str(why) for why in answers if why is not None and not isinstance(why, NotFound)]
        if failures and failures[0] != self._failure:
            self._failure = failures[0]
            _logger.warning("towpath: %d of %d chunks: %s", len(failures), len(answers), failures[0])
        return number, not failures, failures[0] if failures else "", [why is None for why in answers]

    def figures(self):
        """What was done since the start, by name."""
        return self._blocks.figures()

    def close(self):
        """Waits for what is under way, whose memory LMCache has back then."""
        self._blocks.close()
