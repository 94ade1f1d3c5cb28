"""TowpathConnector, and every call that the engine makes of it as a line of JSON: what CI replays without
an engine (bindings/python/tests/test_vllm_recorded.py). `./dev engines --record` writes the recordings.

    {"kv_connector": "RecordingConnector", "kv_connector_module_path": "recording", ...}

The file is named by TOWPATH_RECORDING. Both roles write to it, in one process.
"""
import json
import os

import vllm
from towpath.vllm import TowpathConnector

_state = {"file": None, "tokens": {}, "layers": []}


def write(**line):
    if _state["file"] is None:
        _state["file"] = open(os.environ["TOWPATH_RECORDING"], "a")
    _state["file"].write(json.dumps(line, separators=(",", ":")) + "\n")
    _state["file"].flush()


def request_now(request):
    """What the connector may read of a request; of its tokens those that were not written yet."""
    known = _state["tokens"].get(request.request_id, 0)
    tokens = request.all_token_ids[:]
    _state["tokens"][request.request_id] = len(tokens)
    return {"id": request.request_id, "from": known, "tokens": tokens[known:], "status": request.status.name,
            "salt": request.cache_salt, "preemptions": request.num_preemptions,
            "computed": request.num_computed_tokens, "in_flight": request.num_in_flight_tokens}


def step_now(output):
    cached = output.scheduled_cached_reqs
    return {"new": [[new.req_id, new.num_computed_tokens] for new in output.scheduled_new_reqs],
            "cached": [cached.req_ids, sorted(cached.resumed_req_ids),
                       [list(blocks[0]) if blocks else None for blocks in cached.new_block_ids],
                       cached.num_computed_tokens],
            "scheduled": output.num_scheduled_tokens, "preempted": sorted(output.preempted_req_ids or ())}


class RecordingConnector(TowpathConnector):

    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config, role, kv_cache_config)
        group, = kv_cache_config.kv_cache_groups
        spec = group.kv_cache_spec
        self._running = {}
        write(call="init", role=role.name, vllm=vllm.__version__, num_blocks=kv_cache_config.num_blocks,
              extra={**self._kv_transfer_config.kv_connector_extra_config, "directory": "the replay's"},
              in_a_step=vllm_config.scheduler_config.max_num_batched_tokens,
              spec={name: getattr(spec, name) for name in ("block_size", "num_heads", "num_kv_heads", "num_states",
                                                           "state_content_size_bytes")})

    # The worker's side

    def register_kv_caches(self, kv_caches):
        first = min(cache.data_ptr() for cache in kv_caches.values())
        write(call="register", caches={
            name: {"shape": list(cache.shape), "strides": list(cache.stride()), "bytes": cache.element_size(),
                   "offset": cache.data_ptr() - first} for name, cache in kv_caches.items()})
        _state["layers"] = list(kv_caches)
        super().register_kv_caches(kv_caches)

    def handle_preemptions(self, kv_connector_metadata):
        write(call="handle_preemptions")
        super().handle_preemptions(kv_connector_metadata)

    def bind_connector_metadata(self, connector_metadata):
        write(call="bind")
        super().bind_connector_metadata(connector_metadata)

    def start_load_kv(self, forward_context, **kwargs):
        write(call="start_load_kv")
        super().start_load_kv(forward_context, **kwargs)

    def wait_for_layer_load(self, layer_name):
        write(call="wait", layer=_state["layers"].index(layer_name))
        super().wait_for_layer_load(layer_name)

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs):
        write(call="save", layer=_state["layers"].index(layer_name))
        super().save_kv_layer(layer_name, kv_layer, attn_metadata, **kwargs)

    def wait_for_save(self):
        write(call="wait_for_save")
        super().wait_for_save()

    def get_finished(self, finished_req_ids):
        self._worker.quiesce()
        sent, received = super().get_finished(finished_req_ids)
        write(call="get_finished", ended=sorted(finished_req_ids), sent=sorted(sent), received=sorted(received))
        return sent, received

    def get_block_ids_with_load_errors(self):
        failed = super().get_block_ids_with_load_errors()
        write(call="failed", blocks=sorted(failed))
        return failed

    def build_connector_worker_meta(self):
        write(call="reports")
        return super().build_connector_worker_meta()

    # The scheduler's side

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        found, background = super().get_num_new_matched_tokens(request, num_computed_tokens)
        self._running[request.request_id] = request
        write(call="match", request=request_now(request), local=num_computed_tokens, found=found,
              background=background)
        return found, background

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        write(call="allocate", request=request_now(request), blocks=list(blocks.get_block_ids()[0]),
              loaded=num_external_tokens)
        super().update_state_after_alloc(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output):
        names = [name for name in scheduler_output.num_scheduled_tokens if name in self._running]
        write(call="build", step=step_now(scheduler_output),
              requests=[request_now(self._running[name]) for name in names])
        return super().build_connector_meta(scheduler_output)

    def update_connector_output(self, connector_output):
        write(call="update", sent=sorted(connector_output.finished_sending or ()),
              received=sorted(connector_output.finished_recving or ()))
        super().update_connector_output(connector_output)

    def request_finished(self, request, block_ids):
        stays, params = super().request_finished(request, block_ids)
        self._running.pop(request.request_id, None)
        write(call="finish", request=request_now(request), stays=stays)
        return stays, params

    def shutdown(self):
        if self._role.name == "WORKER":
            write(call="shutdown")
        super().shutdown()
