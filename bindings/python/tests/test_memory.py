"""What registers, what does not, how long it lives; lists of descriptors; files."""
import gc
import mmap
import pickle
import weakref

import numpy
import pytest

import towpath


class Exporter:
    """An array that speaks only DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Tensor:
    """What a torch tensor answers, without torch."""

    class Device:
        type = "cpu"

    def __init__(self, array, contiguous=True):
        self.array, self.device, self.contiguous = array, self.Device(), contiguous

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_contiguous(self):
        return self.contiguous

    def detach(self):
        return Tensor(self.array, self.contiguous)


@pytest.mark.parametrize("memory, size", [
    (bytearray(100), 100),
    (numpy.zeros((3, 5), numpy.float64), 120),
    (numpy.zeros((3, 5), order="F"), 120),
    (mmap.mmap(-1, 4096), 4096),
    (Exporter(numpy.zeros(7, numpy.float32)), 28),
    (Tensor(numpy.zeros(7, numpy.float32)), 28),
    (towpath.SharedMemory(4096), 4096),
    (memoryview(bytearray(10))[2:5], 3),
])
def test_memory_of_many_kinds_registers(alone, memory, size):
    with alone.register(memory) as known:
        assert (known.size_bytes, known.kind, known.registered) == (size, "system", True)
        assert known.memory is memory
    assert not known.registered and known.memory is None


@pytest.mark.parametrize("memory, error", [
    (b"read only", towpath.InvalidArgument),
    (bytearray(), towpath.InvalidArgument),
    (numpy.array([[4096, 64, 0]], object), towpath.InvalidArgument),
    (numpy.zeros(4, [("at", "i8"), ("what", "O")]), towpath.InvalidArgument),
    (numpy.zeros((4, 4))[:, ::2], towpath.InvalidArgument),
    (Exporter(numpy.zeros((4, 4))[:, ::2]), towpath.InvalidArgument),
    (Tensor(numpy.zeros(4), contiguous=False), towpath.InvalidArgument),
    ("text", TypeError),
    (7, TypeError),
    ([bytearray(1)], TypeError),
])
def test_what_is_no_memory_is_refused(alone, memory, error):
    with pytest.raises(error):
        alone.register(memory)


def test_an_item_may_have_any_name(alone):
    assert alone.register(numpy.zeros(4, [("Offset", "i8"), ("O", "i4")])).size_bytes == 4 * 12


def test_a_dropped_array_lives_while_it_is_registered(alone):
    class Array(numpy.ndarray):
        pass

    array = numpy.full(1 << 16, 5, numpy.uint8).view(Array)
    gone = weakref.ref(array)
    known = alone.register(array)
    target = alone.register(numpy.zeros(1 << 16, numpy.uint8))
    pull = alone.create_transfer("read", target, alone.name, known)
    del array
    gc.collect()
    assert gone() is not None
    pull.post().wait()
    assert (target.memory == 5).all()
    pull.release()
    known.release()
    gc.collect()
    assert gone() is None


def test_a_dropped_registration_lets_go(alone):
    array = numpy.zeros(100, numpy.uint8).view(type("Array", (numpy.ndarray,), {}))
    gone = weakref.ref(array)
    alone.register(array)  # whose handle is dropped at once
    del array
    gc.collect()
    assert gone() is None


def test_memory_that_a_tensor_has_no_more_lives_while_it_is_registered(alone):
    """As torch's `tensor.data = other`, which engines do when they load other weights."""
    tensor = Tensor(numpy.full(1 << 16, 5, numpy.uint8).view(type("Array", (numpy.ndarray,), {})))
    gone = weakref.ref(tensor.array)
    known = alone.register(tensor)
    tensor.array = numpy.zeros(1 << 16, numpy.uint8)
    gc.collect()
    assert gone() is not None and known.memory is tensor
    target = alone.register(numpy.zeros(1 << 16, numpy.uint8))
    alone.create_transfer("read", target, alone.name, known).post().wait()
    assert (target.memory == 5).all()
    known.release()
    gc.collect()
    assert gone() is None


def test_a_registered_bytearray_cannot_be_resized(alone):
    memory = bytearray(100)
    with alone.register(memory):
        with pytest.raises(BufferError):
            memory.extend(b"more")
    memory.extend(b"more")


def test_the_agent_keeps_memory_until_it_is_closed():
    array = numpy.zeros(100, numpy.uint8).view(type("Array", (numpy.ndarray,), {}))
    gone = weakref.ref(array)
    agent = towpath.Agent("keeper", ["shm"])
    known = agent.register(array)
    del array
    agent.close()
    gc.collect()
    assert gone() is not None and not known.registered
    del known
    gc.collect()
    assert gone() is None


def test_shared_memory_is_zeroed_and_has_a_buffer():
    memory = towpath.SharedMemory(4096)
    view = numpy.frombuffer(memory, numpy.uint8)
    assert len(memory) == 4096 and not view.any()
    view[3] = 9
    del memory
    gc.collect()
    assert view[3] == 9
    with pytest.raises(towpath.InvalidArgument):
        towpath.SharedMemory(0)


def test_a_list_keeps_order_and_counts_extents():
    blocks = towpath.DescriptorList("system", [(0, 16, 0), (64, 16, 0), (128, 16, 0), (500, 8, 0)])
    assert len(blocks) == 4 and blocks.total_bytes == 56
    assert blocks.entries() == [(0, 16, 64, 3, 0), (500, 8, 0, 1, 0)]
    assert blocks[2] == (128, 16, 0) and blocks[-1] == (500, 8, 0)
    with pytest.raises(IndexError):
        blocks[4]
    blocks.add(1000, 4, stride=8, count=2, device=1)
    assert list(blocks)[-2:] == [(1000, 4, 1), (1008, 4, 1)]
    assert pickle.loads(pickle.dumps(blocks)) == blocks
    assert blocks != towpath.DescriptorList("disk", list(blocks)) and blocks != 3


@pytest.mark.parametrize("dtype", [numpy.uint64, numpy.int64])
def test_a_table_is_a_list(dtype):
    table = numpy.array([[4096 * i, 4096, 0] for i in range(1000)], dtype)
    blocks = towpath.DescriptorList("system", table)
    assert len(blocks) == 1000 and blocks.entries() == [(0, 4096, 4096, 1000, 0)]
    assert towpath.DescriptorList("system", table[::2]).entries() == [(0, 4096, 8192, 500, 0)]


def test_runs_never_change_what_a_list_says():
    random = numpy.random.default_rng(7)
    for _ in range(200):
        count = int(random.integers(0, 12))
        rows = [(int(random.integers(0, 6)) * 8, int(random.integers(1, 3)) * 8,
                 int(random.integers(0, 2))) for _ in range(count)]
        assert list(towpath.DescriptorList("system", rows)) == rows


@pytest.mark.parametrize("items, error", [
    (numpy.zeros((2, 3), numpy.int32), TypeError),
    (numpy.zeros((2, 4), numpy.int64), TypeError),
    (numpy.zeros((2, 3), numpy.float64), TypeError),
    (numpy.array([[0, -1, 0]]), ValueError),
    ([(0, 1)], TypeError),
    ([(0, 1, 2, 3)], TypeError),
    ([(-1, 1, 0)], OverflowError),
    ([(1 << 64, 1, 0)], OverflowError),
    ([((1 << 64) - 1, 2, 0)], towpath.OutOfRange),
    ([("a", 1, 0)], TypeError),
    (5, TypeError),
])
def test_wrong_descriptors_are_errors(items, error):
    with pytest.raises(error):
        towpath.DescriptorList("system", items)


def test_blocks_stay_inside_of_their_registration(alone):
    known = alone.register(bytearray(100))
    assert len(known.blocks(30)) == 3 and len(known.blocks(30, stride=35, offset=10)) == 2
    assert len(known.blocks(30, 0)) == 0
    for wrong in ({"length": 0}, {"length": 101}, {"length": 30, "count": 4},
                  {"length": 30, "offset": 71}, {"length": 30, "offset": 1 << 63}):
        with pytest.raises(towpath.OutOfRange):
            known.blocks(**wrong)


def test_files_are_memory(alone, tmp_path):
    host = alone.register(numpy.arange(8192, dtype=numpy.uint16).view(numpy.uint8))
    file = towpath.File(tmp_path / "blocks", 16384)
    disk = alone.register(file)
    assert (disk.kind, file.size_bytes, file.path) == ("disk", 16384, str(tmp_path / "blocks"))
    alone.create_transfer("write", host, alone.name, disk).post().wait()
    assert (tmp_path / "blocks").read_bytes() == host.memory.tobytes()
    host.memory[:] = 0
    alone.create_transfer("read", host.blocks(4096), alone.name, disk.blocks(4096)).post().wait()
    assert (host.memory.view(numpy.uint16) == numpy.arange(8192)).all()
    with pytest.raises(towpath.InvalidArgument):
        towpath.File(tmp_path / "other", 100, direct="perhaps")


def test_a_read_past_the_end_of_a_file_names_the_descriptor(alone, tmp_path):
    (tmp_path / "short").write_bytes(b"x" * 4096)
    with open(tmp_path / "short", "r+b") as short:
        disk = alone.register_address(0, 8192, kind="disk", device=short.fileno(),
                                      fd=short.fileno())
        host = alone.register(bytearray(8192))
        pull = alone.create_transfer("read", host.blocks(4096), alone.name, disk.blocks(4096))
        with pytest.raises(towpath.Error):
            pull.post().wait()
    assert [index for index, _ in pull.errors] == [1]
    assert bytes(host.memory[:4096]) == b"x" * 4096


def test_what_a_backend_knows_of_files(alone, tmp_path):
    (tmp_path / "there").write_bytes(b"123")
    places = [("disk", 0, 0, 0, -1, str(tmp_path / name)) for name in ("there", "not")]
    there, missing = alone.query("posix", places)
    assert there["size"] == "3" and missing is None
