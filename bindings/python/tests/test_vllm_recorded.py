"""TowpathConnector against calls that a real vLLM made of it (tests/engines/record.py): two lives of an
engine, with requests that share a beginning, are preempted, resumed and chunked, and one of a tenant;
between the lives a bit is flipped in a file.

The engine's part is played here: at each step the blocks that it completes are filled with what follows
from the tokens up to there, and those that were loaded must hold just that.
"""
import hashlib
import json
import pathlib
import types

import numpy
import pytest

import fake_vllm

fake_vllm.install()
from towpath.vllm import TowpathConnector
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

RECORDINGS = sorted(pathlib.Path(__file__).with_name("recorded").glob("vllm_*.jsonl"))


class Player:
    """An engine that makes the recorded calls: a method for each."""

    def __init__(self, directory):
        self.directory = directory
        self.requests, self.blocks, self.connector = {}, {}, {}
        self.sent, self.received, self.failed = set(), set(), set()
        self.figures = {"loaded": 0, "failed": 0, "preempted": 0, "checked": 0}

    def play(self, lines):
        for line in lines:
            getattr(self, "on_" + line.pop("call"))(**line)
        return self.figures

    # Its beginning and end

    def on_init(self, role, num_blocks, extra, in_a_step, spec, vllm):
        self.per_block = spec["block_size"]
        config = fake_vllm.config({**extra, "directory": str(self.directory)}, in_a_step)
        caches = fake_vllm.FullAttentionSpec()
        vars(caches).update(spec)
        self.connector[role] = TowpathConnector(
            config, KVConnectorRole[role], fake_vllm.cache_config(caches, num_blocks))
        if len(self.connector) == 2:
            self.scheduler, self.worker = self.connector["SCHEDULER"], self.connector["WORKER"]
            self.scheduler.set_xfer_handshake_metadata({0: self.worker.get_handshake_metadata()})

    def on_register(self, caches):
        length = max(cache["offset"] + cache["bytes"] * (1 + sum(
            stride * (extent - 1) for stride, extent in zip(cache["strides"], cache["shape"])))
                     for cache in caches.values())
        memory = numpy.full(length, 255, numpy.uint8)  # what nobody has computed
        self.caches = []
        for cache in caches.values():
            flat = memory[cache["offset"]:].view({2: numpy.uint16, 4: numpy.uint32}[cache["bytes"]])
            self.caches.append(numpy.lib.stride_tricks.as_strided(
                flat, cache["shape"], [stride * cache["bytes"] for stride in cache["strides"]]))
        self.names = list(caches)
        self.connector["WORKER"].register_kv_caches(dict(zip(self.names, self.caches)))

    def on_shutdown(self):
        self.worker._worker._worker.sync()
        self.worker.shutdown()

    # What is in a block

    def content(self, name, block, layer):
        """What computing the request's tokens gives."""
        text = repr((self.requests[name].all_token_ids[:(block + 1) * self.per_block], layer)).encode()
        seed = int.from_bytes(hashlib.sha256(text).digest()[:8], "little")
        cache = self.caches[layer]
        return numpy.random.default_rng(seed).integers(0, 2**16, cache.shape[1:], cache.dtype)

    def is_right(self, name, block, layer):
        return numpy.array_equal(self.caches[layer][self.blocks[name][block]], self.content(name, block, layer))

    def compute(self, name, block, layer):
        """Upon a wrong block nothing right is computed."""
        content = self.content(name, block, layer)
        is_wrong = block > 0 and not self.is_right(name, block - 1, layer)
        self.caches[layer][self.blocks[name][block]] = ~content if is_wrong else content

    def check_loaded(self, failed):
        """All that the engine takes for computed, where a request begins, but for what failed."""
        for name in self.beginning:
            for block in range(self.computed[name] // self.per_block):
                if self.blocks[name][block] in failed:
                    break  # what is behind it may have been computed upon it
                for layer in range(len(self.caches)):
                    assert self.is_right(name, block, layer), f"block {block} of {name} is wrong"
                self.figures["checked"] += 1

    # Requests

    def note(self, request):
        known = self.requests.setdefault(request["id"], types.SimpleNamespace(
            request_id=request["id"], all_token_ids=[], mm_features=[], lora_request=None, prompt_embeds=None))
        del known.all_token_ids[request["from"]:]
        known.all_token_ids += request["tokens"]
        known.cache_salt, known.num_preemptions = request["salt"], request["preemptions"]
        known.num_computed_tokens, known.num_in_flight_tokens = request["computed"], request["in_flight"]
        known.status = types.SimpleNamespace(name=request["status"])
        return known

    def on_match(self, request, local, found, background):
        answer = self.scheduler.get_num_new_matched_tokens(self.note(request), local)
        assert answer == (found, background), f"{request['id']} got {(found, background)} in the engine"

    def on_allocate(self, request, blocks, loaded):
        self.blocks[request["id"]] = list(blocks)
        groups = types.SimpleNamespace(get_block_ids=lambda: (blocks,))
        self.scheduler.update_state_after_alloc(self.note(request), groups, loaded)
        self.figures["loaded"] += loaded // self.per_block

    def on_finish(self, request, stays):
        assert self.scheduler.request_finished(self.note(request), [])[0] == stays

    # Steps

    def on_build(self, step, requests):
        for request in requests:
            self.note(request)
        names, resumed, new_blocks, computed = step["cached"]
        for name, blocks in zip(names, new_blocks):
            if name not in resumed and blocks:
                self.blocks[name] += blocks
        self.computed = {**dict(step["new"]), **dict(zip(names, computed))}
        self.beginning = [name for name, _ in step["new"]] + resumed
        self.scheduled = step["scheduled"]
        self.figures["preempted"] += len(step["preempted"])
        space = types.SimpleNamespace
        self.metadata = self.scheduler.build_connector_meta(space(
            scheduled_new_reqs=[space(req_id=name, num_computed_tokens=count) for name, count in step["new"]],
            scheduled_cached_reqs=space(req_ids=names, resumed_req_ids=set(resumed), num_computed_tokens=computed,
                                        new_block_ids=[None if blocks is None else (blocks,) for blocks in new_blocks]),
            num_scheduled_tokens=self.scheduled, scheduled_spec_decode_tokens={},
            preempted_req_ids=set(step["preempted"])))

    def on_handle_preemptions(self):
        self.worker.handle_preemptions(self.metadata)

    def on_bind(self):
        self.worker.bind_connector_metadata(self.metadata)

    def on_start_load_kv(self):
        self.worker.start_load_kv(None)

    def on_wait(self, layer):
        self.worker.wait_for_layer_load(self.names[layer])

    def on_save(self, layer):
        for name, count in self.scheduled.items():
            before, known = self.computed[name], len(self.requests[name].all_token_ids)
            for block in range(before // self.per_block, min(before + count, known) // self.per_block):
                self.compute(name, block, layer)
        self.worker.save_kv_layer(self.names[layer], None, None)

    def on_wait_for_save(self):
        self.worker.wait_for_save()

    # What came of them

    def on_get_finished(self, ended, sent, received):
        self.worker._worker.quiesce()
        now = self.worker.get_finished(set(ended))
        self.sent |= now[0]
        self.received |= now[1]
        assert self.sent >= set(sent) and self.received >= set(received), (
            f"sent {sent}, received {received} in the engine; here {self.sent}, {self.received}")
        self.sent -= set(sent)
        self.received -= set(received)

    def on_failed(self, blocks):
        self.failed |= self.worker.get_block_ids_with_load_errors()
        assert self.failed >= set(blocks), f"blocks {blocks} failed in the engine, here {self.failed}"
        self.failed -= set(blocks)
        self.figures["failed"] += len(blocks)
        self.check_loaded(set(blocks))

    def on_reports(self):
        self.reports = self.worker.build_connector_worker_meta()
        self.worker.clear_connector_metadata()

    def hear(self, reports, sent=(), received=()):
        self.scheduler.update_connector_output(types.SimpleNamespace(
            kv_connector_worker_meta=reports, finished_sending=sent, finished_recving=received))

    def on_update(self, sent, received):
        self.hear(self.reports, sent, received)


def lives(recording):
    """The calls of each engine, one after the other."""
    found = []
    for line in map(json.loads, recording.read_text().splitlines()):
        if line["call"] == "init" and line["role"] == "WORKER":
            found.append([])
        found[-1].append(line)
    return found


def flip_a_bit(directory):
    """In the block that was written first."""
    path = sorted(directory.glob("*/segment-*"))[0]
    data = bytearray(path.read_bytes())
    data[2 * 4096 + 999] ^= 16
    path.write_bytes(data)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_what_the_engine_called_gives_what_it_got(recording, tmp_path):
    first, second = lives(recording)
    assert first[0]["vllm"].startswith("0.3"), "record anew: ./dev engines --record"
    figures = Player(tmp_path).play(first)
    assert figures["preempted"] > 0 and figures["loaded"] > 5 and figures["failed"] == 0, figures
    assert figures["checked"] > 5, figures
    flip_a_bit(tmp_path)
    figures = Player(tmp_path).play(second)
    assert figures["failed"] == 1 and figures["loaded"] > 5 and figures["checked"] > 5, figures


def test_there_are_recordings():
    assert [path.stem for path in RECORDINGS] == ["vllm_background", "vllm_in_step"]
