"""What `nixl._bindings` offers, over Towpath's agent.

Handles are plain integers; failures are the twelve exceptions, with the library's own sentence and
hint in them. Every call that may wait gives up the interpreter's lock (it happens in the
extension).
"""
import datetime

from towpath import _towpath, errors
from towpath._towpath import nixlRegDList, nixlRemoteDList, nixlXferDList
from towpath.nixl import _status
from towpath.nixl._status import (  # noqa: F401 - offered from here
    nixl_cost_t, nixl_mem_t, nixl_status_t, nixl_thread_sync_t, nixl_xfer_op_t, nixlBackendError,
    nixlCancelledError, nixlInvalidParamError, nixlMismatchError, nixlNoTelemetryError,
    nixlNotAllowedError, nixlNotFoundError, nixlNotPostedError, nixlNotSupportedError,
    nixlRemoteDisconnectError, nixlRepostActiveError, nixlUnknownError, translate, translated)
from towpath.nixl._metadata import Metadata

_ENUMS = (nixl_mem_t, nixl_xfer_op_t, nixl_cost_t, nixl_thread_sync_t, nixl_status_t)
for _enum in _ENUMS:
    globals().update(_enum.__members__)

__all__ = [
    "DEFAULT_COMM_PORT", "HAVE_UCX_GPU_DEVICE_API", "NIXL_INIT_AGENT", "nixlAgent",
    "nixlAgentConfig", "nixlBackendError", "nixlCancelledError", "nixlInvalidParamError",
    "nixlMismatchError", "nixlNoTelemetryError", "nixlNotAllowedError", "nixlNotFoundError",
    "nixlNotPostedError", "nixlNotSupportedError", "nixlRegDList", "nixlRemoteDList",
    "nixlRemoteDisconnectError", "nixlRepostActiveError", "nixlUnknownError", "nixlXferDList",
    "nixlXferTelemetry", *(_enum.__name__ for _enum in _ENUMS),
    *(_name for _enum in _ENUMS for _name in _enum.__members__)
]

NIXL_INIT_AGENT = ""
DEFAULT_COMM_PORT = 8888
HAVE_UCX_GPU_DEVICE_API = False

_KIND = {
    nixl_mem_t.DRAM_SEG: "system",
    nixl_mem_t.VRAM_SEG: "device",
    nixl_mem_t.BLK_SEG: "block",
    nixl_mem_t.OBJ_SEG: "object",
    nixl_mem_t.FILE_SEG: "disk"
}
_SEGMENT = {kind: segment for segment, kind in _KIND.items()} | {"pinned": nixl_mem_t.DRAM_SEG}


class nixlAgentConfig:
    """The fields may be read and written. `transferTimeout` (seconds) is ours, since NIXL's
    transfers have no deadline; None: TOWPATH_TRANSFER_TIMEOUT_MS, else five minutes."""

    def __init__(self, use_prog_thread=False, use_listen_thread=False, port=DEFAULT_COMM_PORT,
                 sync_mode=nixl_thread_sync_t.NIXL_THREAD_SYNC_NONE, num_workers=1, pthr_delay=0,
                 lthr_delay=100000, capture_telemetry=False):
        del num_workers  # accepted for old callers; NIXL ignores it too
        self.useProgThread = use_prog_thread
        self.useListenThread = use_listen_thread
        self.listenPort = port
        self.syncMode = sync_mode
        self.captureTelemetry = capture_telemetry
        self.pthrDelay = pthr_delay
        self.lthrDelay = lthr_delay
        self.etcdWatchTimeout = datetime.timedelta(seconds=5)
        self.transferTimeout = None


class nixlXferTelemetry:
    """What one posting cost: microseconds and bytes."""

    __slots__ = ("startTime", "postDuration", "xferDuration", "totalBytes", "descCount")

    def __init__(self, startTime=0, postDuration=0, xferDuration=0, totalBytes=0, descCount=0):
        self.startTime = startTime
        self.postDuration = postDuration
        self.xferDuration = xferDuration
        self.totalBytes = totalBytes
        self.descCount = descCount

    def __repr__(self):
        return (f"nixlXferTelemetry(startTime={self.startTime}, postDuration={self.postDuration}, "
                f"xferDuration={self.xferDuration}, totalBytes={self.totalBytes}, "
                f"descCount={self.descCount})")


def _segment_names(kinds):
    return sorted({_SEGMENT[kind].name for kind in kinds})


class nixlAgent(_towpath.NixlAgent):
    """One end of transfers, with NIXL's methods; those that are called again and again are the base's."""

    def __init__(self, name, config=None):
        config = config or nixlAgentConfig()
        if not name:
            raise ValueError("an agent needs a name")
        self.name = name
        threaded = config.useProgThread or config.useListenThread
        with translated:
            timeout = config.transferTimeout
            if timeout is None:
                timeout = _towpath.settings()["transfer_timeout"]
            self._agent = _towpath.Agent(name, progress_thread=threaded, default_timeout=timeout,
                                         telemetry=bool(config.captureTelemetry))
            self._captures = self._agent.telemetry is not None
        super().__init__(self._agent)
        self._backends = {}  # handles, by name
        with translated:
            self._metadata = Metadata(self._agent, config)

    # ---- plugins and backends

    def getAvailPlugins(self):
        return [name.upper() for name in self._agent.nixl_plugins()]

    def getPluginParams(self, name):
        with translated:
            known = self._agent.nixl_plugin(name)
        return known["params"], _segment_names(known["kinds"])

    def createBackend(self, name, params=None):
        with translated:
            known = self._agent.create_nixl_backend(name, dict(params or {}))
        handle = self._backends[known["name"]] = self.add_backend(known)
        return handle

    def getBackendParams(self, backend):
        known = self.backend_of(backend)
        return dict(known["params"]), _segment_names(known["kinds"])

    # ---- connections and metadata

    def makeConnection(self, remote_agent, backends=()):
        """Connections are made when they are first used; here only that they can be is examined."""
        if remote_agent == self._agent.name:
            return nixl_status_t.NIXL_SUCCESS
        peer = self._peer(remote_agent)
        wanted = set(self.types_of(backends)) or set(peer["backends"])
        if peer["lost"]:
            raise nixlRemoteDisconnectError(
                f"NIXL_ERR_REMOTE_DISCONNECT: {remote_agent}: {peer['lost_why']}")
        if not wanted & set(peer["backends"]):
            raise nixlBackendError(f"NIXL_ERR_BACKEND: {remote_agent} is reached over "
                                   f"{peer['backends']}, not over {sorted(wanted)}")
        return nixl_status_t.NIXL_SUCCESS

    def _peer(self, name):
        name = name.decode("utf-8", "surrogateescape") if isinstance(name, (bytes, bytearray)) else name
        for peer in self._agent.peers():
            if peer["name"] == name:
                return peer
        raise nixlNotFoundError(f"NIXL_ERR_NOT_FOUND: no peer called {name!r} is known")

    def getLocalPartialMD(self, descs, inc_conn_info=False, backends=()):
        del backends  # metadata reports all ways; the peer chooses among them
        with translated:
            return self._agent.metadata(_place_list(descs), connection_info=inc_conn_info or not len(descs))

    def loadRemoteMD(self, metadata):
        """The agent's name, as bytes."""
        with translated:
            return _name_bytes(self._agent.load_metadata(metadata))

    def invalidateRemoteMD(self, agent):
        try:
            self._agent.forget_peer(agent)
        except errors.Error as error:
            return _status.translate(error).status
        return nixl_status_t.NIXL_SUCCESS

    def checkRemoteMD(self, agent, descs):
        try:
            self._metadata.report()
            self._agent.progress()  # what came since may say that it is lost
            found = self._agent.knows(agent, _place_list(descs) if len(descs) else None)
        except errors.Error as error:
            return _status.translate(error).status
        return nixl_status_t.NIXL_SUCCESS if found else nixl_status_t.NIXL_ERR_NOT_FOUND

    def sendLocalMD(self, ip_addr="", port=DEFAULT_COMM_PORT):
        with translated:
            self._metadata.send(ip_addr, port)

    def sendLocalPartialMD(self, descs, inc_conn_info=False, backends=(), ip_addr="",
                           port=DEFAULT_COMM_PORT, label=""):
        del backends
        with translated:
            self._metadata.send_partial(_place_list(descs), inc_conn_info or not len(descs),
                                        ip_addr, port, label)

    def fetchRemoteMD(self, remote_agent, ip_addr="", port=DEFAULT_COMM_PORT, label=""):
        with translated:
            self._metadata.fetch(remote_agent, ip_addr, port, label)

    def invalidateLocalMD(self, ip_addr="", port=DEFAULT_COMM_PORT):
        with translated:
            self._metadata.invalidate(ip_addr, port)

    # ---- transfers

    def estimateXferCost(self, req_handle):
        """(microseconds, margin, method). Where ways are measured (those of device memory, by their
        first transfers) the margin is how much longer than that the slowest trial took. Else it is 0:
        what a backend declares, or measures of itself, is one number without a spread."""
        transfer = self.transfer_of(req_handle)
        for candidate in transfer.explain().candidates:
            if candidate.chosen and candidate.estimate_seconds > 0:
                return (int(candidate.estimate_seconds * 1e6), int(candidate.margin_seconds * 1e6),
                        nixl_cost_t.NIXL_COST_ANALYTICAL_BACKEND)
        raise nixlNotSupportedError("NIXL_ERR_NOT_SUPPORTED: the cost of this transfer is not known")

    def getXferTelemetry(self, reqh):
        transfer = self.transfer_of(reqh)
        if not self._captures:
            raise nixlNoTelemetryError("NIXL_ERR_NO_TELEMETRY: figures were not asked for (hint: "
                                       "capture_telemetry, or NIXL_TELEMETRY_ENABLE=y)")
        self.getXferStatus(reqh)  # raises that it was not posted, and why it failed
        with translated:
            report = transfer.report()
        post = max(1, round(report.post_us))
        return nixlXferTelemetry(report.start_us, post, max(post, round(report.transfer_us)),
                                 report.bytes, report.descriptors)

    def queryXferBackend(self, handle):
        """The handle of the backend that moves it: of those that were asked for, if any were."""
        transfer = self.transfer_of(handle)
        asked = [self.backend_of(backend)["name"] for backend in self.asked_of(handle)]
        served = self._agent.nixl_backend_of(transfer.backend, asked)
        if served in self._backends:
            return self._backends[served]
        raise nixlNotFoundError(f"NIXL_ERR_NOT_FOUND: {transfer.backend} serves no backend "
                                "of this agent")

    # ---- the end

    def close(self):
        """Ends all transfers and lets go of all memory. Happens by itself with the last reference."""
        self._agent.close()


def _name_bytes(name):
    return name.encode("utf-8", "surrogateescape")


def _place_list(descs):
    """A list without what only registration needs."""
    return descs.trim() if isinstance(descs, nixlRegDList) else descs
