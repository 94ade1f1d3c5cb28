"""The worker's half: a rank's towpath.connector.Worker, which a thread of the library's drives.

The engine's thread gives orders and takes results; everything that waits, for a disk above all, happens on that
thread. It is none of Python's: an engine that waits for a load runs steps without work, lets go of the interpreter
and takes it back before another thread of Python's has woken, for seconds. A step without orders or results costs
the engine's thread a look at a flag.
"""
import logging
import time

from towpath._keyed import throw_away
from towpath._server import address_of
from towpath.connector import Worker
from towpath.vllm.geometry import AXES
from towpath.vllm.scheduling import Orders, Reports

_logger = logging.getLogger("vllm.towpath")  # below vLLM's own, so that it is seen

_RESET = " reset"  # behind the name of what is kept after a reset


class WorkerSide:

    def __init__(self, *, settings, name_space, rank=0, first_head=0, least_blocks=1):
        self._settings, self._name_space = settings, name_space
        self._place = {"rank": rank, "first_head": first_head}
        self._least_blocks = least_blocks
        self._geometry = self._worker = None
        self.ends_saves = False  # with the step that they are of
        self._orders = self._begun = None
        self._confirms = None  # a step in which others load
        self._epoch, self._steps = 0, []
        self._figures_at, self._failures = {}, {}
        self._sent, self._received, self._failed_requests = set(), set(), set()
        self._failed, self._reports = set(), []
        self._awaited = 0  # background loads that were ordered, and not received yet
        self._has_looked = False  # in this step

    def register(self, geometry):
        if self._worker is not None:
            self.close()
        settings, self._geometry = self._settings, geometry
        self._worker = Worker(
            geometry.caches, name_space=self._name_space, axes=AXES, directory=settings.directory,
            host_blocks=settings.blocks_in_memory(geometry.block_bytes, self._least_blocks),
            disk_bytes=settings.disk, direct=settings.direct, objects=settings.objects, policy=settings.policy, digest=settings.digest,
            min_accesses=settings.min_accesses, peers=settings.peers, server=address_of(settings.server), driven=True, **self._place)

    # A step -----------------------------------------------------------------------------------

    def settle(self, orders: Orders):
        """Before anything of the step is written."""
        if orders.settle and self._worker is not None:
            self._worker.settle()

    def begin(self, orders: Orders):
        """Once for each step, before its layers."""
        if orders is self._begun or self._worker is None:
            return
        self._begun = orders
        if orders.epoch != self._epoch:
            self._throw_away(orders.epoch)
        self._confirms = orders.step if orders.others_load else None
        self._orders = orders if orders.data is not None else None
        if self._orders is None:
            return
        self._awaited += orders.awaited
        if self.has_layers():
            self._worker.start_step(orders.data)
        else:
            self._worker.order(orders.data)

    def has_layers(self):
        """A layer of this step is waited for, or saved; else the driver does all of it."""
        return self._orders is not None and (self._orders.loads or not self._settings.saves_in_background)

    def wait_for_layer_load(self, layer):
        if self._orders is not None and self._orders.loads and layer in self._geometry.layer_of:
            self._worker.wait_for_layer_load(self._geometry.layer_of[layer])

    def wait_for_loads(self):
        for layer in self._geometry.caches if self._orders is not None and self._orders.loads else ():
            self._worker.wait_for_layer_load(layer)

    def save_layer(self, layer):
        """A cache that layers share is written by the first of them."""
        in_step = self._orders is not None and not self._settings.saves_in_background
        if in_step and self._geometry.layer_of.get(layer) == layer:
            self._worker.save_layer(layer)

    def end(self):
        """The step's last layer has been computed. vLLM hears with its end what others could not load in it."""
        if self._confirms is not None:
            self._steps.append(self._confirms)
            self._confirms = None
        if self._orders is None:
            return
        if self.has_layers():
            self._worker.wait_for_save()
        else:
            self._worker.note_computed()
        if self.ends_saves:
            self._worker.settle()
        if self._orders.loads:
            self._steps.append(self._orders.step)
            self._collect(waits=True)  # whether a load of this step failed is said with this step
        self._orders = None

    # What came of it --------------------------------------------------------------------------

    def quiesce(self, timeout=60):
        """All that was ordered ends. For recordings and their replay, whose answers depend on no thread's pace."""
        self._worker.settle()
        self._worker.progress()
        until = time.monotonic() + timeout
        self._collect(waits=True)
        while self._awaited > 0:
            if time.monotonic() > until:
                raise TimeoutError(f"towpath: {self._awaited} loads have not ended within {timeout} s")
            self._worker.wait_for_news(1)
            self._collect(waits=True)

    def _collect(self, waits=False):
        """What the driver has gathered; with `waits` all that came up to now."""
        sent, received, failed, failed_requests, reports = self._worker.take_news(waits)
        self._sent.update(sent)
        self._received.update(received)
        self._awaited -= len(received)
        self._failed.update(failed)
        self._failed_requests.update(failed_requests)
        self._reports += reports

    def _look(self):
        if self._worker is not None and self._worker.has_news:
            self._collect()

    def take_finished(self):
        """Requests sent; received; and of those, that lack a block."""
        self._look()
        self._has_looked = True
        sent, received = self._sent, self._received
        self._sent, self._received = set(), set()  # those that were given are the engine's
        failed = self._failed_requests & received
        self._failed_requests -= failed
        return sent, received, failed

    def take_failed_blocks(self):
        if self._orders is not None and self._orders.loads:
            self._collect(waits=True)  # the step's end comes later, with drafts
        failed, self._failed = self._failed, set()
        return failed

    def take_reports(self, make=Reports):
        """None: there is nothing to say. Within a step take_finished() has looked."""
        if not self._has_looked:
            self._look()
        self._has_looked = False
        if not self._reports and not self._steps:
            return None
        data, self._reports = self._reports, []
        steps, self._steps = self._steps, []
        return make(self._epoch, data, steps)

    def first_reports(self):
        """What is there from the start."""
        if self._worker is not None:
            self._collect(waits=True)
        return self.take_reports()

    def figures(self):
        """Since the last call, those that count."""
        if self._worker is None:
            return {}
        figures = self._worker.figures(lately=True)
        now = {name: value for name, value in figures.items() if isinstance(value, int)}
        now["quarantined"] = sum(figures["quarantined"].values())
        since = {name: value - self._figures_at.get(name, 0) for name, value in now.items()}
        self._figures_at = now
        self._warn_of_failures(figures)
        return {name: value for name, value in since.items() if value}

    def _warn_of_failures(self, figures):
        """A full disk or a name that another has costs misses, and would not be seen."""
        for name, failure in figures.items():
            if failure is not None and "failure" in name and str(failure) != self._failures.get(name):
                self._failures[name] = str(failure)
                _logger.warning("towpath: %s: %s", name.replace("_", " "), failure)

    # Its end ----------------------------------------------------------------------------------

    def _throw_away(self, epoch):
        """Whatever was kept, here and in files. What is computed from now on may be of weights that no file has, so
        it is kept under a name by which no later life looks, and shared with nobody."""
        self._discard()
        self._settings = self._settings.alone()
        if not self._name_space.endswith(_RESET):
            self._name_space += _RESET
            self.register(self._geometry)
            self._discard()  # what an earlier life left under this name
        self._reports, self._steps = [], []  # of what there was
        self._epoch = epoch
        self.register(self._geometry)
        _logger.info("towpath: all blocks that were kept have been thrown away")

    def _discard(self):
        folder = self._worker.folder
        self.close()
        if folder:
            throw_away(self._settings.directory, folder)

    def close(self):
        if self._worker is None:
            return
        self._worker.settle()
        self._collect(waits=True)
        self._worker.close()
        self._worker = self._orders = None
        self._figures_at = {}
