"""The worker's half: a rank's towpath.connector.Worker, and a thread that drives it.

The engine's thread gives orders and takes results. Everything that waits, for a disk above all, happens
on the thread here. A step without orders costs the engine's thread no more than an exchange of lists.
"""
import logging
import os
import shutil
import threading
import time

from towpath.connector import Worker
from towpath.vllm.geometry import AXES
from towpath.vllm.scheduling import Orders, Reports

_logger = logging.getLogger("vllm.towpath")  # below vLLM's own, so that it is seen

# How long the thread naps when there was nothing to do, by how long that has been so; in seconds. It takes the
# interpreter from the engine each time, so it looks often only while a request waits for a load.
_NAPS = ((0.01, 0.001), (0.1, 0.005), (float("inf"), 0.05))
_FIGURES_EVERY_S = 0.25
_RESET = " reset"  # behind the name of what is kept after a reset


class Driver:
    """A thread that makes progress and collects what came of it. `lock` keeps reports in their order, and
    notifies of what was collected."""

    def __init__(self, worker):
        self.lock = threading.Condition()
        self.sent, self.received, self.failed, self.reports = set(), set(), set(), []
        self.failed_requests = set()  # of `received`, or soon
        self.awaited = 0  # background loads that were ordered, and not received yet
        self.figures, self.failure = worker.figures(), None
        self._worker, self._woken, self._closing = worker, threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="towpath-kv", daemon=True)
        self._thread.start()

    def wake(self):
        self._woken.set()

    def close(self):
        self._closing = True
        self.wake()
        self._thread.join()

    def collect(self):
        """Makes no progress itself. With the lock."""
        sent, received = self._worker.take_finished(progress=False)
        self.sent.update(sent)
        self.received.update(received)
        self.awaited -= len(received)
        self.failed.update(self._worker.take_failed_blocks())
        self.failed_requests.update(self._worker.take_failed_requests())
        report = self._worker.take_report(progress=False)
        if report is not None:
            self.reports.append(report)
        self.lock.notify_all()

    def _run(self):
        busy_at = counted_at = time.monotonic()
        try:
            while not self._closing:
                if time.monotonic() > counted_at + _FIGURES_EVERY_S:
                    self.figures, counted_at = self._worker.figures(), time.monotonic()
                woken, more = self._woken.is_set(), self._worker.progress()
                with self.lock:
                    self.collect()
                if more:
                    busy_at = time.monotonic()
                elif woken:
                    busy_at = time.monotonic()
                    self._woken.clear()  # what came since is_set() is looked for in the next round
                else:
                    idle = 0 if self.awaited > 0 else time.monotonic() - busy_at
                    self._woken.wait(next(nap for until, nap in _NAPS if idle < until))
        except Exception as failure:  # raised again where the engine asks for results
            self.failure = failure


class WorkerSide:

    def __init__(self, *, settings, name_space, rank=0, first_head=0, least_blocks=1):
        self._settings, self._name_space = settings, name_space
        self._place = {"rank": rank, "first_head": first_head}
        self._least_blocks = least_blocks
        self._geometry = self._worker = self._driver = None
        self._orders = self._begun = None
        self._epoch, self._steps = 0, []
        self._figures_at, self._failures = {}, {}
        self._sent, self._received, self._failed = set(), set(), set()  # of drivers that were closed

    def register(self, geometry):
        if self._worker is not None:
            self.close()
        settings, self._geometry = self._settings, geometry
        self._worker = Worker(
            geometry.caches, name_space=self._name_space, axes=AXES, directory=settings.directory,
            host_blocks=settings.blocks_in_memory(geometry.block_bytes, self._least_blocks),
            disk_bytes=settings.disk, direct=settings.direct, objects=settings.objects, policy=settings.policy, digest=settings.digest,
            min_accesses=settings.min_accesses, peers=settings.peers, **self._place)
        self._driver = Driver(self._worker)

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
        self._orders = orders if orders.data is not None else None
        if self._orders is not None:
            if orders.awaited:
                with self._driver.lock:
                    self._driver.awaited += orders.awaited
            self._worker.start_step(orders.data)
            self._driver.wake()

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
        """The step's last layer has been computed."""
        if self._orders is None:
            return
        self._worker.wait_for_save()
        self._driver.wake()
        if self._orders.loads:
            self._steps.append(self._orders.step)
            self._collect()  # whether a load of this step failed is said with this step
        self._orders = None

    # What came of it --------------------------------------------------------------------------

    def quiesce(self, timeout=60):
        """All that was ordered ends. For recordings and their replay, whose answers depend on no thread's pace."""
        driver = self._checked_driver()
        self._worker.settle()
        with driver.lock:
            driver.collect()
            if not driver.lock.wait_for(lambda: driver.awaited <= 0, timeout):
                raise TimeoutError(f"towpath: {driver.awaited} loads have not ended within {timeout} s")

    def _collect(self):
        with self._driver.lock:
            self._driver.collect()

    def _checked_driver(self):
        if self._driver is not None and self._driver.failure is not None:
            raise RuntimeError(f"towpath: the connector's thread has ended: {self._driver.failure!r}; restart the "
                               "engine") from self._driver.failure
        return self._driver

    def take_finished(self):
        """Requests sent; received; and of those, that lack a block."""
        driver = self._checked_driver()
        if driver is not None and (driver.sent or driver.received):
            self._take_from(driver)
        sent, received = self._sent, self._received
        if not sent and not received:
            return sent, received, set()
        failed = self._failed & received
        self._sent, self._received = set(), set()
        self._failed -= failed
        return sent, received, failed

    def _take_from(self, driver):
        with driver.lock:
            self._sent |= driver.sent
            self._received |= driver.received
            self._failed |= driver.failed_requests
            driver.sent, driver.received, driver.failed_requests = set(), set(), set()

    def take_failed_blocks(self):
        open_loads = self._orders is not None and self._orders.loads  # the step's end comes later, with drafts
        if self._driver is None or not (open_loads or self._driver.failed):
            return set()
        with self._driver.lock:
            if open_loads:
                self._driver.collect()
            failed, self._driver.failed = self._driver.failed, set()
        return failed

    def take_reports(self, make=Reports):
        """None: there is nothing to say."""
        if self._driver is None or not (self._driver.reports or self._steps):
            return None
        with self._driver.lock:
            data, self._driver.reports = self._driver.reports, []
        steps, self._steps = self._steps, []
        return make(self._epoch, data, steps) if data or steps else None

    def first_reports(self):
        """What is there from the start."""
        if self._driver is not None:
            self._collect()
        return self.take_reports()

    def figures(self):
        """Since the last call, those that count."""
        if self._driver is None:
            return {}
        figures = self._driver.figures
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
        it is kept under a name by which no later life looks."""
        self._discard()
        if not self._name_space.endswith(_RESET):
            self._name_space += _RESET
            self.register(self._geometry)
            self._discard()  # what an earlier life left under this name
        self._epoch = epoch
        self.register(self._geometry)
        _logger.info("towpath: all blocks that were kept have been thrown away")

    def _discard(self):
        folder = self._worker.folder
        self.close()
        if folder and os.path.isdir(folder):
            shutil.rmtree(folder)

    def close(self):
        if self._worker is None:
            return
        self._worker.settle()
        self._driver.close()
        self._collect()
        self._take_from(self._driver)
        self._worker.close()
        self._worker = self._driver = self._orders = None
        self._figures_at = {}
