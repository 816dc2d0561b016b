"""Define one replica of a topic-partition as its host described it: its batches and requirements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
BATCH_COLUMNS: Final = ("base", "last", "epoch", "digest", "count", "sound")


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Batches:
    """Batches in log order. `digest` is over content, `sound` 1, 0, or -1 if not computed."""

    base: Ints = field(default_factory=_none)
    last: Ints = field(default_factory=_none)
    epoch: Ints = field(default_factory=_none)
    digest: Ints = field(default_factory=_none)
    count: Ints = field(default_factory=_none)
    sound: Ints = field(default_factory=_none)

    def __len__(self) -> int:
        return len(self.base)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Batches:
        """Select some batches."""
        return Batches(*(getattr(self, name)[chosen] for name in BATCH_COLUMNS))

    def told(self, index: int) -> str:
        """`offsets 10 to 19 of leader epoch 3, content 0a1b2c3d`"""
        return (
            f"offsets {self.base[index]} to {self.last[index]} of leader epoch {self.epoch[index]}, "
            f"content {self.digest[index]:08x}"
        )


@dataclass(frozen=True, kw_only=True)
class Replica:
    """A replica and the facts that decide what it must hold.

    `in_sync`: a member of the committed ISR when replicas were described; `live`: its node ran before and after that;
    `collected`: its host could be reached. `required` is the offset below which every in-sync replica must have all
    records: the end of what was acknowledged or below the leader's high watermark, -1 if that is not known. `removal`:
    records may be deleted from the log's front, by retention or by request. `problem` is why the log could not be read
    (to its end), empty if it could. `files` names the files beside the log that contradict its batches, and how.
    """

    topic: str
    partition: int
    topic_id: str
    host: str
    node: int
    in_sync: bool
    live: bool
    start: int
    end: int
    batches: Batches
    leads: bool = False
    collected: bool = True
    required: int = -1
    removal: bool = False
    problem: str = ""
    files: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def counts(self) -> bool:
        """Whether it must have all that is committed."""
        return self.in_sync and self.live and self.collected

    def covers(self, offsets: Ints) -> npt.NDArray[np.bool_]:
        """Which of these offsets are in one of its batches."""
        if not len(self.batches):
            return np.zeros(len(offsets), np.bool_)
        at = np.searchsorted(self.batches.base, offsets, "right") - 1
        return (at >= 0) & (self.batches.last[np.maximum(at, 0)] >= offsets)
