"""TowpathScheduler and TowpathWorker: KvCacheConnectorScheduler and KvCacheConnectorWorker of TensorRT-LLM, by its release
candidates of 1.3 and 1.4. Both are of one process, and work on one Keeper.

Within an iteration the engine calls, for each new request, get_num_new_matched_tokens() and update_state_after_alloc(); then
build_connector_meta(), start_load_kv(), the model's layers, wait_for_save(), and get_finished().
Source: tensorrt_llm/_torch/pyexecutor/connectors/kv_cache_connector.py, py_executor.py and resource_manager.py.
"""
import dataclasses
from typing import Dict, List, Tuple

try:
    from tensorrt_llm._torch.pyexecutor.connectors.kv_cache_connector import KvCacheConnectorScheduler, KvCacheConnectorWorker
except ImportError:  # where it was before it moved
    from tensorrt_llm._torch.pyexecutor.kv_cache_connector import KvCacheConnectorScheduler, KvCacheConnectorWorker

from towpath.trtllm import geometry, naming
from towpath.trtllm.keeping import NotPromised, Save, Staged, keeper_of


@dataclasses.dataclass
class Orders:
    """What the worker does in an iteration."""
    loads: List[Tuple[List[int], List[int]]] = dataclasses.field(default_factory=list)  # slots, and the engine's blocks
    saves: List[Save] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class _Request:
    staged: Staged
    tokens: int  # that the keeper knows
    said: int = 0  # of these, by the engine in its iterations; it said the prompt before, when it was matched
    computed: int = 0  # before its first step, loads counted
    saved: int = 0  # blocks that are saved, ordered to be, or the engine had
    blocks: List[int] = dataclasses.field(default_factory=list)


class TowpathScheduler(KvCacheConnectorScheduler):

    def __init__(self, llm_args):
        super().__init__(llm_args)
        self._keeper = keeper_of(llm_args)
        self._requests: Dict[int, _Request] = {}

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        """(tokens that are proven, False: they are in the request's first step)"""
        self._forget(request.request_id)  # asked again, it has other blocks
        room, per_block = naming.room_of(request), self._keeper.per_block
        tokens = [] if room is None else list(request.get_tokens(0))
        if not tokens or num_computed_tokens > len(tokens):
            return 0, False
        staged = self._keeper.begin(str(request.request_id), tokens, num_computed_tokens, room)
        promised = len(staged.slots) * per_block
        self._requests[request.request_id] = _Request(staged, len(tokens), computed=num_computed_tokens + promised,
                                                      saved=staged.first + len(staged.slots))
        return promised, False

    def update_state_after_alloc(self, request, block_ids):
        """build_connector_meta() hears of the same blocks."""

    def build_connector_meta(self, scheduler_output):
        orders = Orders()
        for data in scheduler_output.new_requests:
            state = self._requests.get(data.request_id)
            if state is not None:
                self._note(state, data)
                self._order_loads(state, data, orders)
                self._order_saves(state, data, state.computed + data.num_scheduled_tokens, orders)
        for data in scheduler_output.cached_requests:
            state = self._requests.get(data.request_id)
            if state is not None:
                self._note(state, data)
                self._order_saves(state, data, data.computed_position + data.num_scheduled_tokens, orders)
        return orders

    def _note(self, state, data):
        new = data.new_tokens[max(state.tokens - state.said, 0):]
        if new:
            self._keeper.learn(str(data.request_id), new)
        state.said += len(data.new_tokens)
        state.tokens += len(new)
        state.blocks += data.new_block_ids

    def _order_loads(self, state, data, orders):
        staged = state.staged
        if not staged.slots:
            return
        blocks = state.blocks[staged.first:staged.first + len(staged.slots)]
        if len(blocks) < len(staged.slots) or min(blocks) < 0:
            raise NotPromised(f"towpath: request {data.request_id} was promised blocks {staged.first} to "
                              f"{staged.first + len(staged.slots)}, and the engine's table for it is {state.blocks}")
        orders.loads.append((staged.slots, blocks))
        state.staged = Staged()

    def _order_saves(self, state, data, computed, orders):
        """Blocks that are complete with so many tokens, as far as these are known: an iteration that was prepared before the
        last one's tokens came knows fewer."""
        per_block = self._keeper.per_block
        end = min(computed // per_block, state.tokens // per_block, len(state.blocks))
        if end <= state.saved:
            return
        blocks = state.blocks[state.saved:end]
        if min(blocks) < 0:  # a window has passed them: what comes is not kept either
            self._forget(data.request_id)
            return
        orders.saves.append(Save(str(data.request_id), state.saved, blocks))
        state.saved = end

    def request_finished(self, request, cache_block_ids):
        """False: what is saved is saved within the step, so its blocks need not stay."""
        self._forget(request.request_id)
        return False

    def request_reset(self, request):
        self._forget(request.request_id)

    def cancel_load(self, request, start, end):
        """Only KVCacheManagerV2 does, which is refused."""
        raise NotPromised(f"towpath: {geometry.V2}")

    def _forget(self, number):
        state = self._requests.pop(number, None)
        if state is not None:
            self._keeper.give_back(state.staged.slots)
            self._keeper.end(str(number))


class TowpathWorker(KvCacheConnectorWorker):
    """Layers do not wait one by one: what is loaded is in the engine's memory before the first of them, and a captured graph
    would call nobody."""

    def __init__(self, llm_args):
        super().__init__(llm_args)
        self._keeper = keeper_of(llm_args)

    def register_kv_caches(self, kv_cache_tensor):
        self._keeper.register(kv_cache_tensor)

    def register_kv_cache_layout(self, layout):
        raise geometry.GeometryError(f"towpath: {geometry.V2}")

    def start_load_kv(self, stream):
        if self._metadata is not None:
            loads, self._metadata.loads = self._metadata.loads, []  # once, however long the engine keeps them
            for slots, blocks in loads:
                self._keeper.bring(slots, blocks, stream)

    def wait_for_layer_load(self, layer_idx, stream):
        pass

    def save_kv_layer(self, layer_idx, stream):
        pass

    def wait_for_save(self, stream):
        if self._metadata is not None:
            saves, self._metadata.saves = self._metadata.saves, []
            self._keeper.save(saves, stream)

    def get_finished(self, finished_gen_req_ids, started_loading_req_ids):
        """Nothing is in the background."""
        return [], []

    def figures(self):
        return self._keeper.figures()

    def shutdown(self):
        """Newer releases call it; else the process's end closes the files."""
        self._keeper.close()
