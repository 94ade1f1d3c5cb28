"""`TRTLLM_TOWPATH`: what may be said there, and what is meant where nothing is said.

It is a variable since KvCacheConnectorConfig takes no keys but its own; and its name begins so since TensorRT-LLM hands only
such variables to the processes that it starts.
"""
import dataclasses
import json
import os
from typing import Mapping, Union

from towpath._server import Server, address_of, read_server
from towpath._settings import read_fields, size_in_bytes

VARIABLE = "TRTLLM_TOWPATH"

_BESIDE = 16  # blocks of the host's memory that are on their way to files while a step has the others


@dataclasses.dataclass
class Settings:
    """One field for each key.

    `staging`: memory through which blocks go to the engine and from it, pinned where the engine's is a GPU's; as much as
    fits there is loaded or saved at once. `memory`: what is kept in the host's memory; 0: twice the staging. `model_folder`:
    where the model's config.json is, if the engine was given no folder. `model` replaces the name that is made of the
    weights. `server` is as in towpath.vllm, the others are those of towpath.connector.Worker.
    """
    memory: int = 0
    staging: int = 1 << 30
    directory: str = ""
    disk: int = 16 << 30
    direct: bool = False
    objects: str = ""
    server: Union[str, Server] = ""
    policy: str = ""
    digest: str = ""
    min_accesses: int = 0
    model: str = ""
    model_folder: str = ""

    def blocks(self, block_bytes: int):
        """(in the staging memory, in the host's), of so many bytes each."""
        staged = self.staging // block_bytes
        if staged == 0:
            raise ValueError(f"towpath: staging of {self.staging:,} bytes holds no block of {block_bytes:,} bytes: say "
                             f"\"staging\": \"{-(-block_bytes // 2**20)}MiB\" or more in {VARIABLE}")
        kept = self.memory // block_bytes if self.memory else 2 * staged + _BESIDE
        if kept < staged + _BESIDE:
            raise ValueError(
                f"towpath: memory of {self.memory:,} bytes holds {kept} blocks of {block_bytes:,} bytes, and a step may need "
                f"{staged + _BESIDE}: say \"memory\": \"{-(-(staged + _BESIDE) * block_bytes // 2**20)}MiB\" or more in "
                f"{VARIABLE}, or less \"staging\"")
        return staged, kept

    def for_worker(self):
        """As arguments of towpath.connector.Worker."""
        return {"directory": self.directory, "disk_bytes": self.disk, "direct": self.direct, "objects": self.objects,
                "server": address_of(self.server), "policy": self.policy, "digest": self.digest,
                "min_accesses": self.min_accesses}


_READERS = {"memory": size_in_bytes, "staging": size_in_bytes, "disk": size_in_bytes, "server": read_server}


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """Of JSON, or of a file that has it. Raises ValueError, with the value and what is meant instead."""
    said = environment.get(VARIABLE, "").strip()
    if said and not said.startswith("{"):
        try:
            with open(said, encoding="utf-8") as file:
                said = file.read()
        except OSError as failure:
            raise ValueError(f"towpath: {VARIABLE} is {said!r}, and should be JSON such as '{{\"directory\": \"/nvme/kv\"}}', or "
                             f"a file that has it: {failure}") from failure
    try:
        given = json.loads(said or "{}")
    except ValueError as failure:
        raise ValueError(f"towpath: {VARIABLE} is no JSON: {failure}") from failure
    if not isinstance(given, dict):
        raise ValueError(f"towpath: {VARIABLE} is {given!r}, and should be a table such as {{\"directory\": \"/nvme/kv\"}}")
    return read_fields(Settings, given, VARIABLE, _READERS)
