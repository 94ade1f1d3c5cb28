"""What the proxy beside llama-server keeps: names of conversations, and their states in files."""
import hashlib
import json
import logging
import os
import pathlib
import threading

from towpath.connector import Blobs
from towpath.errors import Corrupt, Error, NotFound

_logger = logging.getLogger("towpath.llama")


def as_bytes(value):
    """Equal for equal values, whatever order their keys are in."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Conversation:
    """What a request is about: pieces, of which a later request of the same conversation has the same first ones."""

    def __init__(self, body):
        messages, prompt = body.get("messages"), body.get("prompt")
        facts = {key: body.get(key) for key in ("model", "lora", "tools", "chat_template_kwargs")}
        self._facts, self.length, self._bytes_of = as_bytes(facts), 0, None
        if isinstance(messages, list):
            self._take("chat", messages, lambda part: b"".join(as_bytes(one) + b"," for one in part))
        elif isinstance(prompt, str):
            self._take("text", prompt, lambda part: part.encode("utf-8", "surrogatepass"))
        elif isinstance(prompt, list) and all(type(one) is int for one in prompt):
            self._take("tokens", prompt, lambda part: b"".join(b"%d," % token for token in part))

    def _take(self, kind, pieces, bytes_of):
        self.kind, self._pieces, self.length, self._bytes_of = kind, pieces, len(pieces), bytes_of

    def _names(self, lengths):
        """Of its beginnings, of ascending lengths."""
        hashed, at = hashlib.sha256(self._facts), 0
        for length in lengths:
            hashed.update(self._bytes_of(self._pieces[at:length]))
            at = length
            yield f"{self.kind}-{length}-{hashed.hexdigest()[:32]}"

    @property
    def name(self):
        return next(self._names([self.length]))

    def known(self, names):
        """Those of `names` that are beginnings of this one, the longest first."""
        of_kind = [name for name in names if name.startswith(f"{self.kind}-")]
        lengths = sorted({int(name.split("-")[1]) for name in of_kind})
        return [name for name in self._names([length for length in lengths if length <= self.length]) if name in names][::-1]


class States:
    """States of one server's identity, in a folder that is one proxy's and has `limit` bytes at most. Thread: any."""

    def __init__(self, folder, limit, identity):
        self._blobs, self._limit, self._identity = Blobs(folder), limit, identity
        self._lock = threading.Lock()
        for left in pathlib.Path(folder).glob("unfinished-*"):  # by a save that was killed
            left.unlink(missing_ok=True)
        files = [(os.stat(os.path.join(folder, one["file"])).st_mtime, one) for one in self._blobs.list()]
        # By blob, the one that was used longest ago first; another identity's before those.
        order = sorted(files, key=lambda file: (file[1]["context"] == identity and not file[1]["error"], file[0]))
        self._lengths = {one["name"] or one["file"].removesuffix(".blob"): one["length"] for _, one in order}
        self.figures = {"restored": 0, "kept": 0, "damaged": 0, "evicted": 0, "failed": 0}

    def _blob(self, name):
        return f"{self._identity[:12]}.{name}"

    def names(self):
        with self._lock:
            return {blob.split(".", 1)[1] for blob in self._lengths if blob.startswith(self._blob(""))}

    def restore(self, name):
        """The bytes; None: it is not there any more, or not as it was."""
        blob = self._blob(name)
        with self._lock:
            if blob not in self._lengths:
                return None
            self._lengths[blob] = self._lengths.pop(blob)  # used last
        try:
            return self._blobs.restore(blob, context=self._identity)
        except NotFound:
            return None  # evicted meanwhile
        except Corrupt as why:
            self.count("damaged", why)
            self._remove(blob)
        except Error as why:  # of this moment: no memory, no descriptor
            self.count("failed", why)
        return None

    def keep(self, name, data):
        """Whether it is kept."""
        if len(data) > self._limit:
            self.count("failed", f"a state of {len(data):,} bytes, and {self._limit:,} may be kept in all")
            return False
        blob = self._blob(name)
        with self._lock:
            before = self._lengths.pop(blob, None)
            kept, oldest = sum(self._lengths.values()) + len(data), []
            for other, length in self._lengths.items():
                if kept <= self._limit:
                    break
                oldest.append(other)
                kept -= length
            self._lengths[blob] = len(data)  # its room is taken before it is written
        for other in oldest:
            self._remove(other)
            self.count("evicted")
        try:
            self._blobs.save(blob, data, context=self._identity)
        except Error as why:
            self.count("failed", why)
            with self._lock:
                self._lengths.pop(blob, None)
                if before is not None:
                    self._lengths[blob] = before  # which is there as it was
            return False
        with self._lock:
            is_ours = blob in self._lengths
        if not is_ours:  # evicted while it was written
            self._remove(blob)
            return False
        self.count("kept")
        return True

    def count(self, what, why=None):
        """One more of the figures; `why` is for the log."""
        with self._lock:
            self.figures[what] += 1
        if why is not None:
            _logger.warning("%s", why)

    def _remove(self, blob):
        with self._lock:
            self._lengths.pop(blob, None)
        try:
            self._blobs.remove(blob)
        except NotFound:
            pass
        except Error as why:
            _logger.warning("%s", why)
