"""Tables of descriptors in towpath.nixl: three columns, five columns, and all that are neither.

The calls are those of vLLM 0.33 and SGLang 0.5.23, and what is expected is what NIXL 1.5.1's wheel does.
"""
import itertools
import resource

import numpy
import pytest

from nixl import _bindings as bind
from nixl._api import nixl_agent, nixl_agent_config
from test_nixl import finish

numbers = itertools.count()
LAYERS, BLOCKS, BYTES = 3, 8, 512
STRIDE = LAYERS * BYTES  # the layers lie block by block, as vLLM's BLHNC


def make_agent():
    return nixl_agent(f"tables-{next(numbers)}", nixl_agent_config(backends=["SHM"]))


def table(*rows, dtype=numpy.uint64):
    return numpy.array(rows, dtype=dtype)


def layers_of(memory, blocks=BLOCKS, length=BYTES, stride=STRIDE, dtype=numpy.uint64):
    base = memory.ctypes.data
    return table(*((base + layer * BYTES, length, 0, stride, blocks) for layer in range(LAYERS)),
                 dtype=dtype)


class Two:
    def __init__(self):
        self.mine, self.theirs = make_agent(), make_agent()
        self.here = numpy.zeros(BLOCKS * STRIDE, numpy.uint8)
        values = numpy.arange(1, BLOCKS * LAYERS + 1, dtype=numpy.uint8)
        self.there = numpy.repeat(values, BYTES)
        self.mine.register_memory(self.here)
        self.theirs.register_memory(self.there)
        self.peer = self.mine.add_remote_agent(self.theirs.get_agent_metadata()).decode()

    def pull(self, local, local_ids, remote, remote_ids):
        handle = self.mine.make_prepped_xfer("READ", local, local_ids, remote, remote_ids)
        assert finish(self.mine, handle) == "DONE"

    def blocks(self):
        """(block, layer) -> the value of its first byte; all its bytes are one."""
        bytes_of = self.here.reshape(BLOCKS, LAYERS, BYTES)
        assert (bytes_of == bytes_of[:, :, :1]).all()
        return bytes_of[:, :, 0]


@pytest.fixture
def two():
    return Two()


def local_side(agent, rows, mem_type="DRAM"):
    return agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows, mem_type=mem_type)


@pytest.mark.parametrize("dtype", [numpy.uint64, numpy.int64])
def test_indices_count_blocks_across_the_rows(two, dtype):
    local = local_side(two.mine, layers_of(two.here, dtype=dtype), "cpu")
    remote = two.mine.prep_xfer_dlist(two.peer, layers_of(two.there, dtype=dtype), mem_type="DRAM")
    wanted, places = numpy.array([6, 1]), numpy.array([0, 3])
    regions = numpy.arange(LAYERS)[:, None] * BLOCKS  # vLLM's ids: by region, then by block
    two.pull(local, (regions + places).ravel(), remote, (regions + wanted).ravel())
    expected = numpy.zeros((BLOCKS, LAYERS), numpy.uint8)
    expected[places] = two.there[::BYTES].reshape(BLOCKS, LAYERS)[wanted]
    assert (two.blocks() == expected).all()


def test_rows_of_unlike_counts_and_lengths_are_found_by_index(two):
    rows = layers_of(two.there)
    rows[:, 4] = [2, 5, 1]
    rows[2, 1] = 64
    remote = two.mine.prep_xfer_dlist(two.peer, rows, mem_type="DRAM")
    local = local_side(two.mine, [(two.here.ctypes.data + at, length, 0)
                                  for at, length in ((0, BYTES), (BYTES, BYTES), (2 * BYTES, 64))])
    two.pull(local, [0, 1, 2], remote, [1, 2 + 4, 7])
    values = two.there[::BYTES].reshape(BLOCKS, LAYERS)
    assert [*two.here[[0, BYTES, 2 * BYTES]]] == [values[1, 0], values[4, 1], values[0, 2]]
    assert not two.here[2 * BYTES + 64:].any()
    for local_ids, remote_ids in (([0], [8]), ([0], [7]), ([3], [0])):
        with pytest.raises(bind.nixlInvalidParamError):
            two.mine.make_prepped_xfer("READ", local, local_ids, remote, remote_ids)


def test_a_row_is_kept_as_it_is_however_many_blocks_it_has(two):
    memory = numpy.zeros(1 << 26, numpy.uint8)
    two.mine.register_memory(memory)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    side = local_side(two.mine, table((memory.ctypes.data, 1, 0, 1, memory.nbytes)))
    last = two.mine.make_prepped_xfer("WRITE", side, [memory.nbytes - 1], two.mine.prep_xfer_dlist(
        two.peer, [(two.there.ctypes.data, 1, 0)], "DRAM"), [0])
    memory[-1] = 99
    assert finish(two.mine, last) == "DONE" and two.there[0] == 99
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (1 << 16), "KiB"


def test_the_binding_takes_the_three_forms(two):
    raw, rows = two.mine.agent, layers_of(two.here)
    remote = raw.prepXferDlist(two.peer, bind.DRAM_SEG, layers_of(two.there), [])
    plain = two.mine.get_xfer_descs([(two.here.ctypes.data, BYTES, 0)], "DRAM")
    for local in (raw.prepXferDlist(bind.NIXL_INIT_AGENT, bind.DRAM_SEG, rows),
                  raw.prepXferDlist(agent_name="", mem_type=bind.DRAM_SEG, descs=rows, backend=[]),
                  raw.prepXferDlist(plain), raw.prepXferDlist(plain, backend=[]),
                  raw.prepXferDlist("", plain, [])):
        two.here[:] = 0
        two.pull(local, [0], remote, [LAYERS])
        assert two.here[0] == two.there[LAYERS * STRIDE] and not two.here[BYTES:].any()
    with pytest.raises(TypeError, match="rows of 5 integers"):
        raw.prepXferDlist("", bind.DRAM_SEG, plain)


@pytest.mark.parametrize("change, why", [
    ({4: 0}, "row 1: 0 blocks"),
    ({1: 0}, "of 0 bytes"),
    ({3: BYTES - 1}, "bytes apart"),
    ({3: 0, 4: 1}, "bytes apart"),
    ({3: 1 << 62}, "64-bit space"),
])
def test_a_row_that_makes_no_sense_is_refused_by_its_number(two, change, why):
    rows = layers_of(two.here)
    for column, value in change.items():
        rows[1, column] = value
    with pytest.raises((bind.nixlInvalidParamError, bind.nixlNotFoundError), match=why) as raised:
        local_side(two.mine, rows)
    assert "row 1" in str(raised.value)


def test_blocks_beyond_the_memory_are_not_found(two):
    rows = layers_of(two.here, blocks=BLOCKS + 1)
    with pytest.raises(bind.nixlNotFoundError, match=f"descriptor {BLOCKS}"):
        local_side(two.mine, rows)
    with pytest.raises(bind.nixlNotFoundError):
        two.mine.prep_xfer_dlist("nobody", layers_of(two.there), mem_type="DRAM")
    with pytest.raises(ValueError, match="negative"):
        local_side(two.mine, table((-5, 64, 0, 64, 1), dtype=numpy.int64))


def test_a_table_of_strides_needs_its_memory_type(two):
    with pytest.raises(ValueError, match="mem_type"):
        two.mine.prep_xfer_dlist("", layers_of(two.here))
    with pytest.raises(KeyError):
        local_side(two.mine, layers_of(two.here), "SLATE")


@pytest.mark.parametrize("columns", [1, 2, 4, 6])
def test_other_tables_are_no_descriptors(two, columns):
    rows = numpy.zeros((2, columns), numpy.uint64)
    assert two.mine.get_xfer_descs(rows, "DRAM") is None
    assert two.mine.get_reg_descs(rows, "DRAM") is None
    with pytest.raises(TypeError):
        local_side(two.mine, rows)
    with pytest.raises(TypeError):
        two.mine.register_memory(rows, "DRAM")


@pytest.mark.parametrize("columns", [3, 5])
@pytest.mark.parametrize("dtype", [numpy.int32, numpy.uint16, numpy.uint8])
def test_descriptors_have_64_bits(two, columns, dtype):
    with pytest.raises(TypeError, match="64 bits"):
        local_side(two.mine, numpy.ones((2, columns), dtype))


def test_a_table_of_strides_is_for_prepared_lists_alone(two, log_lines):
    """Its own memory is registered, so that taking it for memory would work."""
    rows = layers_of(two.here)
    two.mine.register_memory([(rows.ctypes.data, rows.nbytes, 0, "")], "DRAM")
    for memory_type in ("DRAM", None):
        assert two.mine.get_xfer_descs(rows, memory_type) is None
        assert two.mine.get_reg_descs(rows, memory_type) is None
        with pytest.raises(TypeError):
            two.mine.register_memory(rows, memory_type)
    assert log_lines and all("a table of 5 columns" in line for line in log_lines)


@pytest.mark.parametrize("kind, rest", [(bind.nixlXferDList, ()), (bind.nixlRegDList, (b"",)),
                                        (bind.nixlRemoteDList, ("a",))])
def test_a_number_that_changes_the_list_it_is_read_for_is_put_into_the_changed_one(kind, rest):
    descs = kind(bind.DRAM_SEG, [(1, 1, 0, *rest)])

    class Growing:

        def __index__(self):
            for _ in range(10000):
                descs.append((2, 2, 0, *rest))
            return 7

    descs[0] = (Growing(), 1, 0, *rest)
    assert descs[0] == (7, 1, 0, *rest) and len(descs) == 10001


def test_a_number_that_takes_its_tuple_away_is_read_to_the_end():
    tuples, others = [], []

    class Clearing:

        def __index__(self):
            tuples.clear()
            others.extend(tuple([number] * 3) for number in range(2000))  # in the memory of what went
            return 4096

    tuples += [(Clearing(), 10**15, 10**15 + 1), (1, 1, 0)]
    descs = bind.nixlXferDList(bind.DRAM_SEG, tuples)
    assert len(descs) == 1 and descs[0] == (4096, 10**15, 10**15 + 1)


@pytest.mark.parametrize("change", [lambda descs: descs.remDesc(0), lambda descs: descs.clear()])
def test_an_owner_that_changes_the_list_at_its_end_finds_it_whole(change):
    descs = bind.nixlRegDList(bind.DRAM_SEG, [(number, 1, 0, b"x" * 50) for number in range(100)])

    class Owner:

        def __del__(self):
            for _ in range(10000):
                descs.append((2, 2, 0, b"m" * 100))

    descs.own(0, Owner())
    change(descs)
    kept = [*descs]
    assert kept[-10000:] == [(2, 2, 0, b"m" * 100)] * 10000
    assert kept[:-10000] in ([], [(number, 1, 0, b"x" * 50) for number in range(1, 100)])
