"""What the settings of every engine's plug-in have in common: sizes in words, and keys that are misspelt."""
import dataclasses
import difflib
import re
from typing import Sequence

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
          "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def size_in_bytes(value, key) -> int:
    """A number of bytes, or a text such as "64GiB"."""
    text = str(value).strip()
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", text, re.IGNORECASE)
    if isinstance(value, bool) or not found:
        raise ValueError(f"towpath: {key} is {value!r}, and a size is a number of bytes or a text such as '64GiB'")
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])


def _refuse_unknown(given, known, where):
    """Raises ValueError for a key of `given` that is none of `known`, with the nearest that is."""
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key).lower(), known, n=1, cutoff=0.0)
            raise ValueError(f"towpath: {where} has no key {key!r}; the nearest is {near[0]!r} "
                             f"(all: {', '.join(sorted(known))})")


def checked(key, value, kind):
    """`value`, if it is of the kind that the field has."""
    if kind is int and not isinstance(value, bool) and isinstance(value, int) and value >= 0:
        return value
    if kind is not int and isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    words = {int: "a number, 0 or more", str: "a text", bool: "true or false", dict: "a table",
             list: "a list of texts", (int, float): "a number of seconds"}
    raise ValueError(f"towpath: {key} is {value!r}, and should be {words[kind]}")


_KINDS = {float: (int, float), Sequence[str]: list}  # what JSON has for a field's type, where it is another


def read_fields(cls, given, where, readers=None, needed=None, prefix=""):
    """A `cls`, a dataclass, whose fields are what `given` has. `readers`: by key, functions of (value, key) for what is
    written in another form than the field's; `needed`: by key, an example of what must be there; errors name a key
    behind `prefix`. Raises ValueError, with the value and what is meant instead."""
    kinds = {field.name: _KINDS.get(field.type, field.type) for field in dataclasses.fields(cls)}
    _refuse_unknown(given, kinds, where)
    for key, example in (needed or {}).items():
        if key not in given:
            raise ValueError(f"towpath: {where} need a {key}, such as {example}")
    readers = readers or {}
    return cls(**{key: readers[key](value, prefix + key) if key in readers else
                  checked(prefix + key, value, kinds[key]) for key, value in given.items()})
