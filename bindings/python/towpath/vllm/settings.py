"""`kv_connector_extra_config`: what may be said there, and what is meant where nothing is said."""
import dataclasses
import math
from typing import Any, Mapping, Optional, Union

from towpath._server import Server, read_server
from towpath._settings import checked, read_fields, size_in_bytes
from towpath.connector import Peers


@dataclasses.dataclass
class Settings:
    """One field for each key. Sizes are of one rank: a model of two ranks keeps twice as much.

    `memory`: what is kept in the host's memory; 0: 1 GiB, or as much as two steps need. `directory`: below it
    are files, at most `disk` bytes of them. `server` is the socket of a `towpath serve` of this host, which keeps the blocks of all its
    engines; or what it is started with by the first of them. `direct`, `objects`, `policy`, `digest`, `min_accesses` and `peers` are those
    of towpath.connector.Worker; `peers` has the fields of towpath.connector.Peers. `model` replaces the name
    that is made of the model's configuration and weights. With `loads_in_background` a load holds up no step,
    with `saves_in_background` no save does. `load`: "cheaper", so that what is computed sooner than it is loaded, by what both took
    lately, is computed; or "always". With `lasting_events` routers hear of a block once more, of the medium DISK, when it is
    in files or objects, synced, or with the server.
    """
    memory: int = 0
    directory: str = ""
    disk: int = 16 << 30
    direct: bool = False
    objects: str = ""
    server: Union[str, Server] = ""
    peers: Optional[Peers] = None
    policy: str = ""
    digest: str = ""
    min_accesses: int = 0
    model: str = ""
    loads_in_background: bool = True
    saves_in_background: bool = True
    load: str = "cheaper"
    lasting_events: bool = False

    def of_rank(self, rank, parallel) -> "Settings":
        """What one of several has for itself: replicas their files, all their names among peers."""
        mine, among = dataclasses.replace(self), ""
        if parallel.data_parallel_size > 1:
            if self.objects:
                raise ValueError(f"towpath: objects is {self.objects!r}, a place that one replica fills and empties, and "
                                 f"data_parallel_size is {parallel.data_parallel_size}: start each replica by itself, "
                                 "with a place of its own, or leave objects out")
            among = f"-{parallel.data_parallel_index}"
            mine.directory = f"{self.directory}/replica-{parallel.data_parallel_index}" if self.directory else ""
        if self.peers and parallel.tensor_parallel_size > 1:
            mine.peers = dataclasses.replace(
                self.peers, others=[f"{other}-{each}" for other in self.peers.others
                                    for each in range(parallel.tensor_parallel_size)])
            among += f"-{rank}"
        if isinstance(self.server, Server) and self.server.caches == 0:
            mine.server = dataclasses.replace(self.server, caches=parallel.tensor_parallel_size)
        if mine.peers and mine.peers.name:
            mine.peers = dataclasses.replace(mine.peers, name=mine.peers.name + among)
        return mine

    def alone(self) -> "Settings":
        """Without what is shared with others."""
        return dataclasses.replace(self, objects="", server="", peers=None)

    def blocks_in_memory(self, block_bytes: int, least: int) -> int:
        """Of so many bytes each; a step may need `least` of them at once."""
        if self.memory == 0:
            return max((1 << 30) // block_bytes, 2 * least)
        blocks = self.memory // block_bytes
        if blocks < least:
            raise ValueError(
                f"towpath: memory of {self.memory:,} bytes holds {blocks} blocks of {block_bytes:,} bytes, and a step "
                f"may need {least}: say \"memory\": \"{math.ceil(least * block_bytes / 2**20)}MiB\" or more in "
                f"kv_connector_extra_config, or a smaller max_num_batched_tokens")
        return blocks


def _peers(given, key) -> Peers:
    peers = read_fields(Peers, checked(key, given, dict), key, prefix=f"{key}.",
                        needed={"rendezvous": '"etcd://10.0.0.5:2379/kv?token-file=/etc/kv.token"'})
    for field in ("others", "backends"):
        for one in getattr(peers, field):
            checked(f"{key}.{field}", one, str)
    return peers


def _one_of(*choices):
    def read_one(given, key):
        if given not in choices:
            raise ValueError(f"towpath: {key} is {given!r}, and should be {' or '.join(map(repr, choices))}")
        return given
    return read_one


_READERS = {"memory": size_in_bytes, "disk": size_in_bytes, "peers": _peers, "server": read_server,
            "load": _one_of("cheaper", "always")}


def read(extra: Mapping[str, Any]) -> Settings:
    """Raises ValueError, with the value and what is meant instead."""
    return read_fields(Settings, extra, "kv_connector_extra_config", _READERS)
