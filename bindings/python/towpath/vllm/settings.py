"""`kv_connector_extra_config`: what may be said there, and what is meant where nothing is said."""
import dataclasses
import difflib
import math
import re
from typing import Any, Mapping, Optional

from towpath.connector import Peers

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
          "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def size_in_bytes(value, key) -> int:
    """A number of bytes, or a text such as "64GiB"."""
    text = str(value).strip()
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", text, re.IGNORECASE)
    if isinstance(value, bool) or not found:
        raise ValueError(f"towpath: {key} is {value!r}, and a size is a number of bytes or a text such as '64GiB'")
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])


@dataclasses.dataclass
class Settings:
    """One field for each key. Sizes are of one rank: a model of two ranks keeps twice as much.

    `memory`: what is kept in the host's memory; 0: 1 GiB, or as much as two steps need. `directory`: below it
    are files, at most `disk` bytes of them. `objects`, `policy`, `digest`, `min_accesses` and `peers` are those
    of towpath.connector.Worker; `peers` has the fields of towpath.connector.Peers. `model` replaces the name
    that is made of the model's configuration and weights. With `loads_in_background` a load holds up no step,
    with `saves_in_background` no save does.
    """
    memory: int = 0
    directory: str = ""
    disk: int = 16 << 30
    objects: str = ""
    peers: Optional[Peers] = None
    policy: str = ""
    digest: str = ""
    min_accesses: int = 0
    model: str = ""
    loads_in_background: bool = True
    saves_in_background: bool = True

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


def _refuse_unknown(given, known, where):
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key).lower(), known, n=1, cutoff=0.0)
            raise ValueError(f"towpath: {where} has no key {key!r}; the nearest is {near[0]!r} "
                             f"(all: {', '.join(sorted(known))})")


def _checked(key, value, kind):
    """`value`, if it is of the kind that the field has."""
    if kind is int and not isinstance(value, bool) and isinstance(value, int) and value >= 0:
        return value
    if kind is not int and isinstance(value, kind):
        return value
    words = {int: "a number, 0 or more", str: "a text", bool: "true or false", dict: "a table"}
    raise ValueError(f"towpath: {key} is {value!r}, and should be {words[kind]}")


def _peers(given) -> Peers:
    known = {field.name for field in dataclasses.fields(Peers)}
    _refuse_unknown(_checked("peers", given, dict), known, "peers")
    if "rendezvous" not in given:
        raise ValueError("towpath: peers need a rendezvous, such as \"etcd://10.0.0.5:2379/kv\"")
    # An engine computes for longer than its peers wait: a thread serves them meanwhile.
    return Peers(**{"serving_thread": True, **given})


_READERS = {"memory": size_in_bytes, "disk": size_in_bytes}
_KINDS = {"directory": str, "objects": str, "policy": str, "digest": str, "model": str, "min_accesses": int,
          "loads_in_background": bool, "saves_in_background": bool}


def read(extra: Mapping[str, Any]) -> Settings:
    """Raises ValueError, with the value and what is meant instead."""
    settings = Settings()
    _refuse_unknown(extra, {field.name for field in dataclasses.fields(Settings)}, "kv_connector_extra_config")
    for key, value in extra.items():
        if key == "peers":
            settings.peers = _peers(value)
        elif key in _READERS:
            setattr(settings, key, _READERS[key](value, key))
        else:
            setattr(settings, key, _checked(key, value, _KINDS[key]))
    return settings
