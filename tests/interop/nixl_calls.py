"""Calls of NIXL's Python package, each with what it answered, as a line of JSON: {"call", "answer"}.

nixl_wheel.py runs this with NIXL's own wheel and with towpath.nixl, and compares. An answer is a value
that both must give alike, or the name of the exception; never an address or a text of either.
"""
import copy
import itertools
import json
import logging
import os
import pickle
import time

import nixl
import numpy as np
from nixl import _bindings as bind
from nixl._api import nixl_agent, nixl_agent_config

BLOCK, COUNT = 64, 16
WAIT_S = 60
names = itertools.count()


def agent(*backends, **options):
    return nixl_agent(f"agent-{next(names)}", nixl_agent_config(backends=list(backends), **options))


def plain(value):
    if isinstance(value, (str, int, bool, float, type(None))):
        return value
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in sorted(value.items())}
    return type(value).__name__


def call(name, function, *args, **options):
    try:
        answer = plain(function(*args, **options))
    except Exception as error:
        answer = f"raised {type(error).__name__}"
    print(json.dumps({"call": name, "answer": answer}), flush=True)


def wait(ready):
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if (found := ready()) is not None:
            return found
    return "nothing came"


# What `import nixl` gives, but for what its modules import themselves.
NAMES = """
    BLK_SEG DEFAULT_COMM_PORT DRAM_SEG FILE_SEG LOGGING_CONFIG NIXL_COST_ANALYTICAL_BACKEND NIXL_ERR_BACKEND
    NIXL_ERR_INVALID_PARAM NIXL_ERR_MISMATCH NIXL_ERR_NOT_ALLOWED NIXL_ERR_NOT_FOUND NIXL_ERR_NOT_POSTED
    NIXL_ERR_NOT_SUPPORTED NIXL_ERR_REPOST_ACTIVE NIXL_ERR_UNKNOWN NIXL_INIT_AGENT NIXL_IN_PROG NIXL_READ
    NIXL_SUCCESS NIXL_THREAD_SYNC_DEFAULT NIXL_THREAD_SYNC_NONE NIXL_THREAD_SYNC_RW NIXL_THREAD_SYNC_STRICT
    NIXL_WRITE OBJ_SEG VRAM_SEG ba_buf free_passthru get_logger logger malloc_passthru nixlAgent
    nixlAgentConfig nixlBackendError nixlCancelledError nixlInvalidParamError nixlMismatchError
    nixlNoTelemetryError nixlNotAllowedError nixlNotFoundError nixlNotPostedError nixlNotSupportedError
    nixlRegDList nixlRemoteDList nixlRemoteDisconnectError nixlRepostActiveError nixlUnknownError nixlXferDList
    nixlXferTelemetry nixl_agent nixl_agent_config nixl_backend_handle nixl_cost_t nixl_mem_t
    nixl_prepped_dlist_handle nixl_status_t nixl_thread_sync_t nixl_xfer_handle nixl_xfer_op_t
    set_log_level_by_env setup_logging verify_transfer HAVE_UCX_GPU_DEVICE_API""".split()


def what_is_exported():
    call("names that are missing", lambda: [name for name in NAMES if not hasattr(nixl, name)])
    call("numbers of names", lambda: {
        name: int(getattr(nixl, name)) for name in NAMES
        if name.isupper() and not isinstance(getattr(nixl, name), (dict, str, bool))})
    call("numbers as text", lambda: {name: [f"{getattr(nixl, name)}", repr(getattr(nixl, name))] for name in NAMES
                                     if name.endswith("_SEG") or name in ("NIXL_IN_PROG", "NIXL_READ")})
    def numbers(ask):
        return lambda: {name: ask(getattr(nixl, name)) for name in NAMES
                        if isinstance(getattr(nixl, name), (bind.nixl_status_t, bind.nixl_mem_t, bind.nixl_xfer_op_t))}

    for name, ask in (("true", bool), ("equal to a number", lambda one: [one == int(one), int(one) == one, one != int(one)]),
                      ("keys", lambda one: [{one: 1}.get(int(one)), hash(one) == hash(int(one))]),
                      ("copied", lambda one: [copy.deepcopy(one) == one, pickle.loads(pickle.dumps(one)) == one]),
                      ("called", lambda one: type(one)(int(one)) == one), ("indices", lambda one: one.__index__()),
                      ("equal to others", lambda one: [one == other for other in (bind.NIXL_SUCCESS, None, "", one.name)])):
        call(f"numbers as {name}", numbers(ask))
    call("numbers, a memory type and an operation", lambda: [
        bind.DRAM_SEG == bind.NIXL_READ, bind.NIXL_WRITE != bind.VRAM_SEG, len({bind.DRAM_SEG, bind.NIXL_READ})])
    call("errors", lambda: {name: getattr(nixl, name).__mro__[1].__name__ for name in NAMES if name.endswith("Error")})

    def level(said):
        os.environ["NIXL_LOG_LEVEL"] = said
        one = logging.getLogger("a test's")
        one.setLevel(logging.NOTSET)
        one.addHandler(logging.NullHandler())
        one.propagate = False
        nixl.set_log_level_by_env(one)
        return one.level

    before = os.environ["NIXL_LOG_LEVEL"]
    for said in ("TRACE", "debug", "INFO", "WARN", "ERROR", "FATAL", "LOUD", ""):
        call(f"log level {said}", level, said)
    os.environ["NIXL_LOG_LEVEL"] = before
    call("logging configured again", nixl.setup_logging)
    call("a logger's name", lambda: nixl.get_logger("_api").name)
    call("logging's configuration", lambda: sorted(nixl.LOGGING_CONFIG))


def agents():
    call("agent without a name", nixl_agent, "", nixl_agent_config(backends=["UCX"]))
    call("agent of a name with a zero", lambda: nixl_agent("a\0b", nixl_agent_config(backends=["UCX"])).name)
    one, other = (nixl_agent(letter * 10_000, nixl_agent_config(backends=["UCX"])) for letter in "xy")
    call("long name", lambda: one.add_remote_agent(other.get_agent_metadata()) == other.name.encode())
    other.add_remote_agent(one.get_agent_metadata())

    def hello():
        one.send_notif(other.name, b"hello")
        return wait(lambda: other.get_new_notifs() or one.get_new_notifs() or None) == {one.name: [b"hello"]}

    call("message to and from long names", hello)
    call("known by a long name", one.check_remote_metadata, other.name)
    call("known, an agent that is not", one.check_remote_metadata, "nobody")
    call("connection to an agent that is not known", one.make_connection, "nobody")
    call("metadata that is none", one.add_remote_agent, b"junk")
    call("an agent that is not known removed", one.remove_remote_agent, "nobody")
    call("a peer removed", one.remove_remote_agent, other.name)
    call("a peer removed, known", one.check_remote_metadata, other.name)


def backends():
    def created(name, **params):
        return agent().create_backend(name, params)

    call("UCX with engine_config", created, "UCX", engine_config="TLS=tcp,self")
    call("UCX with engine_config that UCX does not know", created, "UCX", engine_config="NONSENSE=1")
    call("UCX with engine_config that is none", created, "UCX", engine_config="TLS")
    call("UCX with the parameters that NIXL lists", created, "UCX", num_workers="1", ucx_devices="",
         ucx_error_handling_mode="peer")
    call("UCX with a parameter that it has not", created, "UCX", nonsense="1")
    call("backend of no plug-in", created, "SLATE")
    one = agent("UCX")
    call("backend twice", one.create_backend, "UCX")
    call("parameters of a plug-in", lambda: sorted(
        {"num_workers", "ucx_devices", "ucx_error_handling_mode"} & set(one.get_plugin_params("UCX"))))
    for name, ask in (("plug-in's parameters", one.get_plugin_params), ("plug-in's memory", one.get_plugin_mem_types),
                      ("backend's parameters", one.get_backend_params), ("backend's memory", one.get_backend_mem_types)):
        call(f"{name}, of none", ask, "SLATE")
    call("backend's memory", lambda: sorted(one.get_backend_mem_types("UCX")))
    call("all of them, beside a configuration", lambda: sorted(
        nixl_agent("a", nixl_agent_config(backends=["POSIX"]), instantiate_all=True).backends))
    known = one.get_reg_descs([(4096, 1, 0, "")], "DRAM")
    for name, ask in (("registered", one.register_memory), ("taken back", one.deregister_memory),
                      ("metadata", lambda descs, backends: one.get_partial_agent_metadata(descs, True, backends))):
        call(f"{name}, for a backend that was not created", ask, known, backends=["SLATE"])
    call("message over a backend that was not created", one.send_notif, "nobody", b"x", "SLATE")


def taken_back():
    """Of memory that two backends have, from one, and from both."""
    memory = np.zeros(BLOCK, np.uint8)

    def in_turn(*steps):
        one, answers = agent("UCX", "POSIX"), []
        known = one.get_reg_descs([(memory.ctypes.data, BLOCK, 0, "")], "DRAM")
        for step, *backends in steps:
            try:
                answers.append(plain({"+": one.register_memory, "-": one.deregister_memory}[step](known, backends=backends)))
            except Exception as error:
                answers.append(type(error).__name__)
        return answers

    both, only, other = ("UCX", "POSIX"), ("UCX",), ("POSIX",)
    for steps in ((("+",), ("-", *other), ("-", *only), ("-",)), (("+",), ("-", *other), ("-", *other)),
                  (("+",), ("-", *only), ("-",), ("-",)), (("+", *both), ("-", *both), ("-",)),
                  (("+", *only), ("-", *both), ("-",)), (("+", *only), ("-", *other), ("-", *only)),
                  (("+", *only), ("+", *other), ("-",), ("-",)), (("+",), ("+",), ("-",), ("-", *both), ("-",)),
                  (("-",),), (("-", *only),)):
        call("taken back: " + " ".join(f"{step}{','.join(backends)}" for step, *backends in steps), in_turn, *steps)
    two = Two()
    known = two.mine.get_reg_descs([(two.here.ctypes.data, two.here.nbytes, 0, "")], "DRAM")
    call("taken back from one, moved by the other", lambda: [two.mine.deregister_memory(known, ["POSIX"]), two.write()])
    call("taken back with other words", two.mine.deregister_memory,
         bind.nixlRegDList(bind.DRAM_SEG, [(*known[0][:3], "words")]))
    call("taken back, moved", two.write)


def no_bytes():
    one, memory = agent("UCX"), np.zeros(BLOCK, np.uint8)
    for name, address in (("null", 0), ("an address", memory.ctypes.data)):
        empty = one.get_reg_descs([(address, 0, 0, "")], "DRAM")
        call(f"no bytes at {name}, registered", one.register_memory, empty)
        call(f"no bytes at {name}, taken back", one.deregister_memory, empty)
    known = one.register_memory([(memory.ctypes.data, BLOCK, 0, "")], "DRAM")
    call("no bytes, prepared", lambda: type(one.prep_xfer_dlist("", [(memory.ctypes.data, 0, 0)], "DRAM")).__name__)
    for name, options in (("view of host memory", {}), ("view of host memory, by a backend", {"backends": ["UCX"]})):
        call(name, lambda: isinstance(one.prep_mem_view(
            one.get_xfer_descs([(memory.ctypes.data, BLOCK, 0)], "DRAM"), **options), int))
    call("memory taken back", one.deregister_memory, known)
    call("memory taken back twice", one.deregister_memory, known)


class Two:
    """`mine` knows `theirs`; both have registered their memory."""

    def __init__(self, **options):
        self.mine, self.theirs = agent("UCX", "POSIX", **options), agent("UCX")
        self.here = np.arange(BLOCK * COUNT, dtype=np.uint64).view(np.uint8)
        self.there = np.zeros_like(self.here)
        for one, memory in ((self.mine, self.here), (self.theirs, self.there)):
            one.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
        self.peer = self.mine.add_remote_agent(self.theirs.get_agent_metadata()).decode()

    def lists(self):
        return [self.mine.get_xfer_descs([(memory.ctypes.data, BLOCK, 0)], "DRAM") for memory in (self.here, self.there)]

    def write(self, **options):
        return self.finish(self.mine.initialize_xfer("WRITE", *self.lists(), self.peer, **options))

    def got(self):
        return wait(lambda: self.theirs.get_new_notifs() or self.mine.get_new_notifs() or None)

    def finish(self, handle):
        state = self.mine.transfer(handle)
        if state == "PROC":
            state = wait(lambda: (now := self.mine.check_xfer_state(handle)) != "PROC" and now or None)
        self.mine.release_xfer_handle(handle)
        return state


def tables():
    two = Two()
    here, there = two.here.ctypes.data, two.there.ctypes.data

    def local(*rows, dtype=np.uint64, mem_type="DRAM"):
        side = two.mine.prep_xfer_dlist("NIXL_INIT_AGENT", np.array(rows, dtype), mem_type=mem_type)
        return type(side).__name__

    good = (here, BLOCK, 0, 2 * BLOCK, 4)
    call("table of strides", local, good)
    call("table of strides, signed", local, good, dtype=np.int64)
    call("table of strides without a type", local, good, mem_type=None)
    call("table of strides of a strange type", local, good, mem_type="SLATE")
    call("table of strides of 32 bits", local, (1, 2, 3, 4, 5), dtype=np.uint32)
    for name, row in (("no blocks", (here, BLOCK, 0, BLOCK, 0)), ("no bytes", (here, 0, 0, BLOCK, 1)),
                      ("overlapping", (here, BLOCK, 0, 1, 2)), ("beyond", (here, BLOCK, 0, BLOCK, 1 << 20)),
                      ("unknown", (1 << 40, BLOCK, 0, BLOCK, 1))):
        call(f"table of strides, {name}", local, row)
    for columns in (1, 2, 4, 6):
        call(f"table of {columns} columns", local, tuple(range(columns)))
        call(f"descriptors of {columns} columns", two.mine.get_xfer_descs,
             np.zeros((2, columns), np.uint64), "DRAM")
    call("descriptors of strides", two.mine.get_xfer_descs, np.array([good], np.uint64), "DRAM")
    call("registration of strides", two.mine.register_memory, np.array([good], np.uint64), "DRAM")

    ours = two.mine.prep_xfer_dlist("", np.array([good, (here + 512, BLOCK, 0, BLOCK, 3)], np.uint64),
                                    mem_type="DRAM")
    theirs = two.mine.prep_xfer_dlist(two.peer, np.array([(there, BLOCK, 0, BLOCK, COUNT)], np.uint64),
                                      mem_type="cpu")

    def write(mine, at):
        done = two.finish(two.mine.make_prepped_xfer("WRITE", ours, mine, theirs, at))
        return [done, int(two.there.astype(np.uint64) @ np.arange(two.there.size, dtype=np.uint64))]

    call("blocks across rows", write, [6, 0, 4], [0, 5, 9])
    call("blocks by a table", write, np.array([3, 5], np.int32), np.array([2, 1], np.int32))
    for name, mine, at in (("past the end", [7], [0]), ("far past the end", [0], [COUNT]),
                           ("negative", [-1], [0]), ("unlike counts", [0, 1], [0]), ("none", [], [])):
        call(f"index {name}", write, mine, at)


def lists():
    one = agent("UCX")
    for name, make, *args in (
            ("tuples without a type", one.get_xfer_descs, [(1, 2, 3)]),
            ("tuples of another length", one.get_xfer_descs, [(1, 2)], "DRAM"),
            ("tuples of a strange type", one.get_xfer_descs, [(1, 2, 3)], "SLATE"),
            ("lists of lists", one.get_xfer_descs, [[1, 2, 3]], "DRAM"),
            ("a word", one.get_xfer_descs, "word", "DRAM"),
            ("a table without a type", one.get_xfer_descs, np.zeros((2, 3), np.uint64)),
            ("registration without a type", one.get_reg_descs, [(1, 2, 3, "")]),
            ("registration of tuples of three", one.get_reg_descs, [(1, 2, 3)], "DRAM"),
            ("registration of a transfer list", one.get_reg_descs,
             bind.nixlXferDList(bind.DRAM_SEG, [(1, 2, 3)])),
            ("remote without a type", one.get_remote_descs, [(1, 2, 3, "a")]),
            ("remote tuples of three", one.get_remote_descs, [(1, 2, 3)], "DRAM"),
            ("no tuples", one.get_xfer_descs, [], "DRAM"),
            ("registration of no tuples", one.get_reg_descs, []),
            ("no remote tuples", one.get_remote_descs, (), "DRAM"),
            ("register none", one.register_memory, [], "DRAM"),
            ("prepare none", one.prep_xfer_dlist, "", [], "DRAM"),
            ("register malformed", one.register_memory, [(1, 2, 3)], "DRAM"),
            ("register no bytes", one.register_memory, [(4096, 0, 0, "")], "DRAM"),
            ("query of nobody", one.query_memory, [(0, 0, 0, "/")], "SLATE", "FILE"),
            ("view of nothing", one.prep_mem_view, bind.nixlXferDList(bind.DRAM_SEG)),
            ("view of an unauthenticated connection", one.prep_mem_view,
             bind.nixlRemoteDList(bind.DRAM_SEG, [(1, 2, 0, "nobody")])),
            ("view of no list", one.prep_mem_view, None),
            ("release no view", one.release_mem_view, 0)):
        call(name, make, *args)
    known = bind.nixlRegDList(bind.DRAM_SEG, [(1, 2, 3, "a"), (4, 5, 6, "b")])
    call("index by place", known.index, (4, 5, 6, "another"))
    call("index of none", known.index, (4, 5, 7, "b"))
    call("list by name", lambda: [bind.nixlXferDList(type=bind.DRAM_SEG, init_size=2).descCount(),
                                  bind.nixlXferDList(type=bind.DRAM_SEG, descs=[(1, 2, 3)])[0]])
    call("plug-ins", lambda: sorted({"UCX", "POSIX", "GDS", "GDS_MT", "OBJ"} & set(one.get_plugin_list())))
    for backend in ("UCX", "POSIX"):
        call(f"memory of {backend}", lambda name=backend: sorted(one.get_plugin_mem_types(name)))


def what_lists_hold():
    for kind, rest in ((bind.nixlXferDList, ()), (bind.nixlRegDList, ("a",)), (bind.nixlRemoteDList, ("a",))):
        def made(*rows, kind=kind, rest=rest):
            one = kind(bind.DRAM_SEG, [(*row, *rest) for row in rows])
            return [one[i] for i in range(one.descCount())]

        name, good = kind.__name__, [(1, 2, 3, *rest), (4, 5, 6, *rest)]
        call(f"{name}, true", lambda: [bool(kind(bind.DRAM_SEG)), bool(kind(bind.DRAM_SEG, good))])
        call(f"{name}, compared", lambda: [kind(bind.DRAM_SEG, good) == other for other in (
            kind(bind.DRAM_SEG, good), kind(bind.VRAM_SEG, good), kind(bind.DRAM_SEG, good[::-1]), None, good)])
        call(f"{name}, changed", lambda: changed(kind(bind.DRAM_SEG, good), good[0]))
        for what, row in (("numbers of numpy", (np.int64(1), np.uint8(2), np.int32(3))), ("truth", (True, 2, 3)),
                          ("the largest", ((1 << 64) - 1, 2, 1 << 40))):
            call(f"{name} of {what}", made, row)
        for what, word in (("bytes", b"a\0b"), ("a bytearray", bytearray(b"a")), ("text", "\u00e9")):
            call(f"{name} with {what}", made, (1, 2, 3), rest=(word,)[:len(rest)])
        for what, items in (("nothing", None), ("lists", [[1, 2, 3, *rest]]), ("none", [None])):
            call(f"{name} of {what}", kind, bind.DRAM_SEG, items)
        call(f"{name} without a type", kind)
        if rest and kind is bind.nixlRemoteDList:
            continue
        call(f"{name} copied", lambda: [copy.copy(kind(bind.DRAM_SEG, good)) == kind(bind.DRAM_SEG, good),
                                        pickle.loads(pickle.dumps(kind(bind.DRAM_SEG))).descCount()])
        for what, table in (("signed", np.array([[1, 2, 3]], np.int64)), ("no rows", np.zeros((0, 3), np.uint64)),
                            ("a negative device", np.array([[1, 2, -1]], np.int64))):
            call(f"{name}, table of {what}", lambda: kind(bind.DRAM_SEG, table).descCount())


def changed(one, item):
    one.append(item)
    one.addDesc(item)
    one[1] = item
    one.remDesc(0)
    before = [one[i] for i in range(one.descCount())]
    one.clear()
    return [before, one.isEmpty(), str(one.getType())]


def what_is_asked_for():
    two = Two(capture_telemetry=True)
    for name, backends in (("one", ["UCX"]), ("a tuple", ("UCX",)), ("a set", {"UCX"}), ("both", ["UCX", "POSIX"]),
                           ("one twice", ["UCX", "UCX"]), ("the wrong one", ["POSIX"]), ("one in small letters", ["ucx"]),
                           ("a word", "UCX"), ("a number", 3), ("nothing", ())):
        call(f"moved by {name}", two.write, backends=backends)
        call(f"messages over {name}", two.theirs.get_new_notifs, backends)
        call(f"prepared for {name}", lambda: two.mine.prep_xfer_dlist("", two.lists()[0], backends=backends)._released)
    call("messages over what brings none", two.mine.update_notifs, ["POSIX"])
    call("a message over what brings none", two.mine.agent.genNotif, two.peer, b"x", [two.mine.backends["POSIX"]])
    for name, peer in (("bytes", two.peer.encode()), ("a bytearray", bytearray(two.peer.encode())), ("nobody", "nobody"),
                       ("none", None), ("a number", 3)):
        call(f"moved to {name}", lambda: two.finish(two.mine.initialize_xfer("WRITE", *two.lists(), peer)))
    for name, sides in (("nothing", [bind.nixlXferDList(bind.DRAM_SEG)] * 2), ("a table", [np.zeros((1, 3), np.uint64)] * 2),
                        ("more than there", [two.mine.get_xfer_descs([two.lists()[0][0]] * 2, "DRAM"), two.lists()[1]])):
        call(f"moved {name}", two.mine.initialize_xfer, "WRITE", *sides, two.peer)
    for operation in ("read", "", None, 0, b"WRITE"):
        call(f"operation {operation!r}", two.mine.initialize_xfer, operation, *two.lists(), two.peer)
    sides = two.mine.prep_xfer_dlist("", two.lists()[0]), two.mine.prep_xfer_dlist(two.peer, two.lists()[1])
    for name, indices in (("a tuple", (0,)), ("a range", range(1)), ("a set", {0}), ("truth", [False]),
                          ("64 bits", np.array([0])), ("numbers of numpy", [np.int64(0)]), ("a bytearray", bytearray(1)),
                          ("every second", np.zeros(2, np.int32)[::2])):
        call(f"indices, {name}", lambda: two.finish(two.mine.make_prepped_xfer("WRITE", sides[0], indices, sides[1], [0])))
    for name, pair in (("swapped", sides[::-1]), ("of this agent", sides[:1] * 2), ("of the peer", sides[1:] * 2)):
        call(f"sides, {name}", two.mine.make_prepped_xfer, "WRITE", pair[0], [0], pair[1], [0])
    handle = two.mine.initialize_xfer("WRITE", *two.lists(), two.peer)
    call("by name", lambda: [len(two.mine.agent.estimateXferCost(req_handle=handle._handle)), two.finish(handle)])
    call("released again", lambda: [handle.release(), two.mine.release_xfer_handle(handle), handle._released])
    for name, value in (("text", "hi"), ("bytes", b"hi"), ("a bytearray", bytearray(b"hi")), ("a number", 5),
                        ("letters", "\u00e9")):
        call(f"message with a transfer, {name}", lambda: [two.write(notif_msg=value), list(two.got().values())])
    call("the map of messages", two.mine.agent.getNotifs, {"a": (b"x",)})
    del two.mine
    call("released after its agent", lambda: sides[0].release())


def questions():
    two = Two(capture_telemetry=True)
    asked = two.mine.get_reg_descs([(0, 0, 0, __file__), (0, 0, 0, "/no/such")], "FILE")
    posix = two.mine.backends["POSIX"]
    call("query", two.mine.query_memory, asked, "POSIX")
    call("query by handle", two.mine.agent.queryMem, asked, posix)
    call("query by a list of handles", two.mine.agent.queryMem, asked, [posix])
    call("query of a network", two.mine.query_memory, asked, "UCX")
    call("figures of a transfer that was not posted", lambda: two.mine.get_xfer_telemetry(two.mine.initialize_xfer(
        "READ", *(two.mine.get_xfer_descs([(side.ctypes.data, BLOCK, 0)], "DRAM") for side in (two.here, two.there)),
        two.peer)))
    side = two.mine.prep_xfer_dlist("", [(two.here.ctypes.data, 1, 0)], "DRAM")
    call("handle's parts", lambda: [isinstance(side._handle, int), side._agent is two.mine.agent, side._released])
    call("handle's parts, released", lambda: [side.release(), isinstance(side._handle, int), side._released])
    call("handle as text", lambda: repr(two.mine.prep_xfer_dlist(
        "", [(two.here.ctypes.data, 1, 0)], "DRAM")).split("(")[0])


def messages():
    two = Two()

    def send(size):
        message = np.random.default_rng(size).bytes(size)
        two.mine.send_notif(two.peer, message)
        got = wait(lambda: two.theirs.get_new_notifs() or two.mine.get_new_notifs() or None)
        return got == {two.mine.name: [message]}

    for size in (0, 1, 65535, 65536, 1 << 20, 16 << 20):
        call(f"message of {size} bytes", send, size)

    def burst(count=10_000):
        for number in range(count):
            two.mine.send_notif(two.peer, str(number).encode())
        got = []
        wait(lambda: got.extend(two.theirs.get_new_notifs().get(two.mine.name, [])) or
             two.mine.get_new_notifs() or (len(got) >= count or None))
        return got == [str(number).encode() for number in range(count)]

    call("a burst", burst)
    for name, message in (("none", None), ("a number", 5)):
        call(f"message that is {name}", two.mine.send_notif, two.peer, message)
    call("message to nobody", two.mine.send_notif, "nobody", b"x")
    two.mine.send_notif(two.peer, b"room_kv_last")
    wait(lambda: two.mine.get_new_notifs() or two.theirs.update_notifs().get(two.mine.name) or None)
    for tag, options in ((b"kv", {}), (b"kv", {"tag_is_prefix": False}), (b"room", {})):
        call(f"message with {tag}, {options}", two.theirs.check_remote_xfer_done, two.mine.name, tag, **options)


def main():
    for part in (what_is_exported, agents, backends, taken_back, no_bytes, tables, lists, what_lists_hold, what_is_asked_for,
                 questions, messages):
        part()
    print(json.dumps({"call": "end", "answer": True}), flush=True)
    os._exit(0)  # NIXL's wheel dies by a signal in the destructors of its libraries


main()
