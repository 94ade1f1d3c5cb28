"""An L2 adapter for LMCache, as its `native_plugin` wants one: chunks in files, proven, with Towpath's block store.

    lmcache server --l1-size-gb 20 --l2-adapter '{"type": "native_plugin", "module_path": "towpath.lmcache",
        "class_name": "TowpathL2", "adapter_params": {"directory": "/nvme/kv", "disk": "200GiB"}}'

A chunk that was stored is there after a crash, and comes back as it was or not at all. When `disk` is full the
oldest chunks go, but for those that were loaded lately; with LMCache's own `max_capacity_gb` it says which.
Source of the interface: LMCache 0.5.6, lmcache/v1/distributed/l2_adapters/native_connector_l2_adapter.py.
"""
import logging

from towpath._forks import ForkedLock
from towpath._keyed import Store, read_settings
from towpath.errors import NotFound

_logger = logging.getLogger("lmcache.towpath")  # below LMCache's own, so that it is seen


class TowpathL2:
    """What LMCache calls, from its threads. Each submit_*() gives the number of a batch, and drain_completions()
    says what came of it: (number, whether all went well, why not, whether each did)."""

    def __init__(self, **adapter_params):
        settings = read_settings(adapter_params, "adapter_params")
        self._store = Store(settings.directory, settings, _logger, "chunks")
        self._blocks = self._store.blocks
        self._deleting, self._lock = set(), ForkedLock()  # numbers of batches

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
        """A chunk that went before, for others' sake or since it was damaged, is deleted, too: LMCache counts those that are
        not as still there, and would go on evicting them."""
        with self._lock.here():
            number = self._blocks.submit_remove(keys)
            self._deleting.add(number)
        return number

    def drain_completions(self):
        return [self._completion(number, answers) for number, answers in self._blocks.take_ended()]

    def _completion(self, number, answers):
        with self._lock.here():  # or it is not noted yet
            is_deleting = number in self._deleting
            self._deleting.discard(number)
        if is_deleting:
            answers = [None if isinstance(why, NotFound) else why for why in answers]
        well, failure = self._store.judge(answers)
        return number, not failure, failure, well

    def figures(self):
        """What was done since the start, by name."""
        return self._blocks.figures()

    def close(self):
        """Waits for what is under way, whose memory LMCache has back then."""
        self._blocks.close()
