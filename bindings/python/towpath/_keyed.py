"""What plug-ins that only store have in common: their settings, the blocks in a directory, and troubles said once."""
import dataclasses
import os
import shutil

from towpath._settings import read_fields, size_in_bytes
from towpath._towpath import KeyedBlocks, discard_store
from towpath.errors import NotFound


@dataclasses.dataclass
class Settings:
    """`directory`: one process's at a time; `disk`: how much of it at most, in bytes or as "200GiB"; `direct`: past the
    page cache (O_DIRECT), which takes blocks of whole multiples of 4,096 bytes."""
    directory: str
    disk: int = 16 << 30
    direct: bool = False


@dataclasses.dataclass
class ModelSettings(Settings):
    """`model`: the user's own name for what the blocks are of, instead of what the engine was started with."""
    model: str = ""


def read_settings(given, where, cls=Settings) -> Settings:
    """A `cls`, which may have more fields. Raises ValueError, with the value and what is meant instead."""
    return read_fields(cls, given, where, {"disk": size_in_bytes}, needed={"directory": '"/nvme/kv"'})


def throw_away(directory, folder):
    """The store that was in `folder` below `directory`, which may be a drive, or a file that is one. It is not open.
    Raises OSError, or an Error."""
    if os.path.isdir(folder):
        shutil.rmtree(folder)
    else:
        discard_store(directory, folder)


class Store:
    """`blocks` in a `folder`. `logger` is the engine's, `noun` what it calls a block."""

    def __init__(self, folder, settings, logger, noun):
        self._logger, self._noun, self._failure = logger, noun, ""
        self.blocks = KeyedBlocks(folder, disk_bytes=settings.disk, direct=settings.direct)
        if self.blocks.direct_refusal:
            logger.warning("towpath: direct is not done, files go through the page cache: %s", self.blocks.direct_refusal)
        logger.info("towpath: %d %s are in %s", self.blocks.blocks_at_opening, noun, folder)

    def judge(self, answers):
        """(whether each went well, why not). A block that is not there is an answer; what else went wrong is logged, once."""
        failures = [str(why) for why in answers if why is not None and not isinstance(why, NotFound)]
        failure = failures[0] if failures else ""
        if failure and failure != self._failure:
            self._failure = failure
            self._logger.warning("towpath: %d of %d %s: %s", len(failures), len(answers), self._noun, failure)
        return [why is None for why in answers], failure
