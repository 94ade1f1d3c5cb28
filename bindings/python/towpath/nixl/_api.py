"""What `nixl._api` offers: `nixl_agent` and what goes with it.

Duties, in the order of this file: configuration, handles, then of the agent: plugins, descriptors,
memory, connections and metadata, transfers, notifications.

Memory that is registered as an object (array, tensor, bytearray) is kept alive until it is
deregistered; a torch storage that is resized meanwhile is not. Bare addresses are the caller's to keep
alive.
"""
import enum
import io
import pickle

from towpath import _towpath
from towpath._forks import ForkedLock
from towpath.nixl import _bindings as nixlBind
from towpath.nixl.logging import get_logger

__all__ = [
    "DEFAULT_COMM_PORT", "logger", "nixlBind", "nixl_agent", "nixl_agent_config",
    "nixl_backend_handle", "nixl_prepped_dlist_handle", "nixl_thread_sync_t", "nixl_xfer_handle"
]

logger = get_logger("api")

DEFAULT_COMM_PORT = nixlBind.DEFAULT_COMM_PORT
nixl_backend_handle = int
nixl_prepped_dlist_handle = _towpath.nixl_prepped_dlist_handle
nixl_xfer_handle = _towpath.nixl_xfer_handle

_SUCCESS = nixlBind.NIXL_SUCCESS
_THREAD_PARAMS = {
    "UCX": "num_threads",
    "OBJ": "num_threads",
    "LIBFABRIC": "num_threads",
    "GDS_MT": "thread_count",
    "UCCL": "num_cpus"
}


class nixl_thread_sync_t(enum.Enum):
    NIXL_THREAD_SYNC_NONE = nixlBind.NIXL_THREAD_SYNC_NONE
    NIXL_THREAD_SYNC_STRICT = nixlBind.NIXL_THREAD_SYNC_STRICT
    NIXL_THREAD_SYNC_RW = nixlBind.NIXL_THREAD_SYNC_RW
    NIXL_THREAD_SYNC_DEFAULT = nixlBind.NIXL_THREAD_SYNC_DEFAULT


class nixl_agent_config:
    """As NIXL's; `sync_mode` changes nothing, since an agent may be used from any thread.
    `transfer_timeout` (seconds) is ours, since NIXL's transfers have no deadline; None: what
    TOWPATH_TRANSFER_TIMEOUT_MS says, else five minutes."""

    def __init__(self, enable_prog_thread=True, enable_listen_thread=False,
                 listen_port=DEFAULT_COMM_PORT, capture_telemetry=False, num_threads=0,
                 backends=("UCX",), sync_mode=None,
                 transfer_timeout=None):
        if sync_mode is not None and not isinstance(sync_mode, nixl_thread_sync_t):
            raise TypeError(f"sync_mode must be a nixl_thread_sync_t, not {sync_mode!r}")
        self.enable_pthread = enable_prog_thread
        self.enable_listen = enable_listen_thread
        self.port = listen_port
        self.capture_telemetry = capture_telemetry
        self.num_threads = num_threads
        self.backends = list(backends)
        self.sync_mode = sync_mode
        self.transfer_timeout = transfer_timeout

    def for_binding(self):
        """As the fields are now: they may have been changed since."""
        strict, none = nixl_thread_sync_t.NIXL_THREAD_SYNC_STRICT, nixl_thread_sync_t.NIXL_THREAD_SYNC_NONE
        config = nixlBind.nixlAgentConfig()
        config.useProgThread = self.enable_pthread
        config.useListenThread = self.enable_listen
        config.listenPort = self.port
        config.syncMode = (self.sync_mode or (strict if self.enable_listen else none)).value
        config.captureTelemetry = self.capture_telemetry
        config.transferTimeout = self.transfer_timeout
        return config


class nixl_agent:
    """One end of transfers, with the methods of NIXL's Python agent."""

    def __init__(self, agent_name, nixl_conf=None, instantiate_all=False):
        if not agent_name:
            raise ValueError("an agent needs a name")
        if nixl_conf and instantiate_all:
            logger.warning("instantiate_all has no effect beside a configuration, which names the backends")
            instantiate_all = False
        nixl_conf = nixl_conf or nixl_agent_config()
        self.name = agent_name
        self.nixl_mems = {
            "DRAM": nixlBind.DRAM_SEG,
            "VRAM": nixlBind.VRAM_SEG,
            "FILE": nixlBind.FILE_SEG,
            "BLOCK": nixlBind.BLK_SEG,
            "OBJ": nixlBind.OBJ_SEG,
            "cpu": nixlBind.DRAM_SEG,
            "cuda": nixlBind.VRAM_SEG
        }
        self.nixl_ops = {"READ": nixlBind.NIXL_READ, "WRITE": nixlBind.NIXL_WRITE}
        self.notifs = {}
        self._notifs_lock = ForkedLock()  # each update makes another dict of what the last one had
        self.agent = nixlBind.nixlAgent(agent_name, nixl_conf.for_binding())
        self.plugin_list = self.agent.getAvailPlugins()
        self.plugin_b_options, self.plugin_mem_types = {}, {}
        for plugin in self.plugin_list:
            params, mems = self.agent.getPluginParams(plugin)
            self.plugin_b_options[plugin], self.plugin_mem_types[plugin] = params, mems
        self.backends, self.backend_mems, self.backend_options = {}, {}, {}
        self._create_wanted(nixl_conf, instantiate_all)

    def _create_wanted(self, conf, instantiate_all):
        """One that is not in this build is a warning; when none is, there would be no way to move
        a byte, and that is an error."""
        wanted = self.plugin_list if instantiate_all else conf.backends
        missing = [name for name in wanted if name.upper() not in self.plugin_list]
        if missing and len(missing) == len(wanted):
            raise nixlBind.nixlNotFoundError(
                f"NIXL_ERR_NOT_FOUND: {', '.join(missing)} is not in this build of Towpath "
                f"(hint: ask for others of {', '.join(self.plugin_list)}, for example "
                "nixl_agent_config(backends=['SHM']))")
        for name in wanted:
            if name in missing:
                logger.warning("backend %s is not in this build; there are %s", name,
                               ", ".join(self.plugin_list))
                continue
            self.create_backend(name, self._thread_params(name, conf.num_threads))

    def _thread_params(self, name, threads):
        param = _THREAD_PARAMS.get(name.upper())
        reads_it = param in self.plugin_b_options.get(name.upper(), {})
        return {param: str(threads)} if threads > 0 and reads_it else {}

    # ---- plugins

    def get_plugin_list(self):
        return self.plugin_list

    def get_plugin_mem_types(self, backend):
        return self._known(self.plugin_mem_types, backend, "plugin", [])

    def get_plugin_params(self, backend):
        return self._known(self.plugin_b_options, backend, "plugin", {})

    def get_backend_mem_types(self, backend):
        return self._known(self.backend_mems, backend, "backend", [])

    def get_backend_params(self, backend):
        return self._known(self.backend_options, backend, "backend", {})

    @staticmethod
    def _known(table, name, what, otherwise):
        if name not in table:
            logger.warning("%s %s does not exist; there are %s", what, name, ", ".join(table))
            return otherwise
        return table[name]

    def create_backend(self, backend, initParams=None):
        handle = self.agent.createBackend(backend, initParams or {})
        self.backends[backend] = handle
        self.backend_options[backend], self.backend_mems[backend] = (
            self.agent.getBackendParams(handle))

    def _handles(self, backends):
        if not backends:
            return ()
        try:
            return [self.backends[name] for name in backends]
        except KeyError as missing:
            raise KeyError(f"backend {missing} was not created; there are "
                           f"{', '.join(self.backends) or 'none'}") from None

    # ---- descriptors

    def get_xfer_descs(self, descs, mem_type=None):
        """Tuples (address, length, device), an Nx3 table of 64-bit integers, or memory: an array,
        tensor, bytearray, or a list of them. None for what is none of these, and a logged error.
        An array of integers with two dimensions is always a table, never memory. `mem_type` is that
        of addresses: memory says its own."""
        if isinstance(descs, nixlBind.nixlXferDList):
            return descs
        if isinstance(descs, nixlBind.nixlRegDList):
            return descs.trim()
        return self._make(nixlBind.nixlXferDList, descs, mem_type, columns=3)

    def get_reg_descs(self, descs, mem_type=None):
        """The same, with tuples (address, length, device, meta)."""
        if isinstance(descs, nixlBind.nixlRegDList):
            return descs
        return self._make(nixlBind.nixlRegDList, descs, mem_type, columns=4)

    def get_remote_descs(self, descs, mem_type=None):
        """Tuples (address, length, device, agent)."""
        if isinstance(descs, nixlBind.nixlRemoteDList):
            return descs
        if not self._are_tuples(descs, 4):
            logger.error("expected tuples (address, length, device, agent)")
            return None
        return self._addresses(nixlBind.nixlRemoteDList, descs, mem_type)

    def _make(self, kind, descs, mem_type, columns):
        if self._are_tuples(descs, columns):
            return self._addresses(kind, descs, mem_type)
        if self._is_table(descs):
            if descs.shape[1] == 3:
                return self._addresses(kind, descs, mem_type)
            logger.error("a table of %d columns; one of descriptors has 3: address, length, device",
                         descs.shape[1])
            return None
        memories = descs if isinstance(descs, (list, tuple)) else [descs]
        if not all(getattr(memory, "is_contiguous", lambda: True)() for memory in memories):
            logger.error("a tensor must be contiguous")
            return None
        try:
            with nixlBind.translated:
                facts = [_towpath.memory_facts(memory) for memory in memories]
        except TypeError as error:
            logger.error("these are no descriptors: %s", error)
            return None
        if len({segment for segment, _, _, _ in facts}) != 1:
            logger.error("the memory of one list must be of one type")
            return None
        return self._from_memory(kind, memories, facts)

    @staticmethod
    def _from_memory(kind, memories, facts):
        segment = facts[0][0]
        if kind is nixlBind.nixlXferDList:
            return kind(segment, [fact[1:] for fact in facts])
        made = kind(segment, [(*fact[1:], b"") for fact in facts])
        for index, memory in enumerate(memories):
            made.own(index, memory)
        return made

    def _addresses(self, kind, descs, mem_type):
        if mem_type is None:
            logger.error("say of which memory type these addresses are: mem_type='DRAM' ...")
            return None
        return kind(self.nixl_mems[mem_type], descs)

    @staticmethod
    def _are_tuples(descs, columns):
        if not isinstance(descs, (list, tuple)):
            return False
        if not descs:
            raise IndexError("an empty list of descriptors")
        return isinstance(descs[0], tuple) and len(descs[0]) == columns

    @staticmethod
    def _is_table(descs):
        """A numpy array of integers with two dimensions."""
        shape = getattr(descs, "shape", ())
        return len(shape) == 2 and getattr(getattr(descs, "dtype", None), "kind", "f") in "ui"

    def get_serialized_descs(self, descs):
        return pickle.dumps(descs)

    def deserialize_descs(self, serialized_descs):
        """Only lists come out: other objects that a pickle may name are refused."""
        return _ListUnpickler.load_bytes(serialized_descs)

    # ---- memory

    def register_memory(self, reg_list, mem_type=None, backends=()):
        descs = self.get_reg_descs(reg_list, mem_type)
        self.agent.registerMem(descs, self._handles(backends))
        return descs

    def deregister_memory(self, dereg_list, backends=()):
        self.agent.deregisterMem(dereg_list, self._handles(backends))

    def query_memory(self, reg_list, backend, mem_type=None):
        if backend not in self.backends:
            raise ValueError(f"backend {backend!r} was not created; there are "
                             f"{', '.join(self.backends) or 'none'}")
        return self.agent.queryMem(self.get_reg_descs(reg_list, mem_type), self.backends[backend])

    # ---- connections and metadata

    def make_connection(self, remote_agent, backends=()):
        self.agent.makeConnection(remote_agent, self._handles(backends))

    def get_agent_metadata(self):
        return self.agent.getLocalMD()

    def get_partial_agent_metadata(self, descs, inc_conn_info=False, backends=()):
        return self.agent.getLocalPartialMD(descs, inc_conn_info, self._handles(backends))

    def add_remote_agent(self, metadata):
        """The name of the agent, as bytes."""
        return self.agent.loadRemoteMD(metadata)

    def remove_remote_agent(self, agent):
        self.agent.invalidateRemoteMD(agent)

    def send_local_metadata(self, ip_addr="", port=DEFAULT_COMM_PORT):
        self.agent.sendLocalMD(ip_addr, port)

    def send_partial_agent_metadata(self, descs, inc_conn_info=False, backends=(), ip_addr="",
                                    port=DEFAULT_COMM_PORT, label=""):
        self.agent.sendLocalPartialMD(descs, inc_conn_info, self._handles(backends), ip_addr, port,
                                      label)

    def fetch_remote_metadata(self, remote_agent, ip_addr="", port=DEFAULT_COMM_PORT, label=""):
        self.agent.fetchRemoteMD(remote_agent, ip_addr, port, label)

    def invalidate_local_metadata(self, ip_addr="", port=DEFAULT_COMM_PORT):
        self.agent.invalidateLocalMD(ip_addr, port)

    def check_remote_metadata(self, agent, descs=None):
        if descs is None:
            descs = nixlBind.nixlXferDList(nixlBind.DRAM_SEG)
        return self.agent.checkRemoteMD(agent, descs) == nixlBind.NIXL_SUCCESS

    # ---- transfers

    def prep_xfer_dlist(self, agent_name, xfer_list, mem_type=None, backends=()):
        """`agent_name` "" or "NIXL_INIT_AGENT": this agent's side.

        `xfer_list`: what get_xfer_descs() takes, or an Nx5 table of 64-bit integers (address, length,
        device, stride, count), of which `mem_type` must be given. Each row is `count` blocks of
        `length` bytes, `stride` bytes apart; it is kept as it is. Indices count blocks, across rows.
        """
        if agent_name == "NIXL_INIT_AGENT":
            agent_name = nixlBind.NIXL_INIT_AGENT
        if self._is_table(xfer_list) and xfer_list.shape[1] == 5:
            if mem_type is None:
                raise ValueError("a table of strides needs its memory type: mem_type='DRAM' ...")
            descs = (self.nixl_mems[mem_type], xfer_list)
        else:
            descs = (self.get_xfer_descs(xfer_list, mem_type),)
        handle = self.agent.prepXferDlist(agent_name, *descs, self._handles(backends))
        return nixl_prepped_dlist_handle(self.agent, handle)

    def make_prepped_xfer(self, operation, local_xfer_side, local_indices, remote_xfer_side,
                          remote_indices, notif_msg=b"", backends=(), skip_desc_merge=False):
        handle = self.agent.makeXferReq(self.nixl_ops[operation], local_xfer_side,
                                        local_indices, remote_xfer_side, remote_indices,
                                        notif_msg, self._handles(backends) if backends else (),
                                        skip_desc_merge)
        return nixl_xfer_handle(self.agent, handle)

    def initialize_xfer(self, operation, local_descs, remote_descs, remote_agent, notif_msg=b"",
                        backends=()):
        agent = self.agent
        return nixl_xfer_handle(agent, agent.createXferReq(
            self.nixl_ops[operation], local_descs, remote_descs, remote_agent, notif_msg,
            self._handles(backends) if backends else ()))

    def transfer(self, handle, notif_msg=b""):
        """Posts it. "DONE" or "PROC"; failures are raised. A notification given here replaces the
        one that it was made with."""
        done = self.agent.postXferReq(handle, notif_msg) is _SUCCESS
        return "DONE" if done else "PROC"

    def check_xfer_state(self, handle):
        """"DONE", or "PROC" while bytes may still move; failures are raised."""
        return "DONE" if self.agent.getXferStatus(handle) is _SUCCESS else "PROC"

    def estimate_xfer_cost(self, req_handle):
        duration, margin, method = self.agent.estimateXferCost(req_handle)
        return duration, margin, method.name.removeprefix("NIXL_COST_")

    def get_xfer_telemetry(self, handle):
        return self.agent.getXferTelemetry(handle)

    def query_xfer_backend(self, handle):
        """The name of the backend that moves it, as it was created."""
        chosen = self.agent.queryXferBackend(handle)
        return next(name for name, known in self.backends.items() if known == chosen)

    def release_xfer_handle(self, handle):
        handle.release() if type(handle) is nixl_xfer_handle else self.agent.releaseXferReq(handle)

    def release_dlist_handle(self, handle):
        if type(handle) is nixl_prepped_dlist_handle:
            handle.release()
        else:
            self.agent.releasedDlistH(handle)

    def prep_mem_view(self, dlist, *, backends=None):
        """A handle of elements of this agent (nixlXferDList), or of several peers (nixlRemoteDList,
        "NULL_AGENT" for a hole), in host memory. make_prepped_xfer() takes it as a side: indices name
        its elements, all of one peer."""
        return self.agent.prepMemView(dlist, self._handles(backends))

    def release_mem_view(self, mvh):
        """One that is no view is a logged warning, as in NIXL."""
        try:
            self.agent.releaseMemView(mvh)
        except nixlBind.nixlInvalidParamError as error:
            logger.warning("%s", error)

    # ---- notifications

    def get_new_notifs(self, backends=()):
        return self.agent.getNotifs({}, self._handles(backends))

    def update_notifs(self, backends=()):
        with self._notifs_lock.here():
            return self._update_notifs(backends)

    def _update_notifs(self, backends):
        self.notifs = self.agent.getNotifs(self.notifs, self._handles(backends))
        return self.notifs

    def check_remote_xfer_done(self, remote_agent_name, lookup_tag, backends=(),
                               tag_is_prefix=True):
        """Whether a notification of this agent is there that begins with `lookup_tag`, or has it anywhere.
        It is taken away."""
        if isinstance(lookup_tag, str):
            lookup_tag = lookup_tag.encode()
        if isinstance(remote_agent_name, bytes):
            remote_agent_name = remote_agent_name.decode("utf-8", "surrogateescape")
        with self._notifs_lock.here():
            messages = self._update_notifs(backends).get(remote_agent_name, [])
            for index, message in enumerate(messages):
                if message.startswith(lookup_tag) if tag_is_prefix else lookup_tag in message:
                    del messages[index]
                    return True
        return False

    def send_notif(self, remote_agent_name, notif_msg, backend=None):
        self.agent.genNotif(remote_agent_name, notif_msg,
                            self._handles([backend] if backend else []))


class _ListUnpickler(pickle.Unpickler):
    """A pickle may name any function of any module, and call it. Here it may name the lists."""

    def find_class(self, module, name):
        if module == "towpath._towpath" and name in ("nixlXferDList", "nixlRegDList",
                                                     "nixlRemoteDList", "DescriptorList"):
            return getattr(_towpath, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no list of descriptors")

    @classmethod
    def load_bytes(cls, data):
        return cls(io.BytesIO(data)).load()
