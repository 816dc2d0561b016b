"""The port through which a broker gets the cluster's metadata, whatever kind of controller decides over it (DA-04).

A source writes what it learns into the broker's image and yields what has changed. With a quorum it replays the
metadata log (`observer.py`); a ZooKeeper-era controller sends requests (`nodes.zookeeper`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from squall.nodes.metadata.image import MetadataDelta, MetadataImage


class MetadataSource(Protocol):
    """See the module."""

    snapshots_loaded: int
    last_applied_ms: int
    """The time of the newest change, -1 if unknown."""
    names_all: bool
    """Whether what has been applied names all topic-partitions of this broker: logs of others are strays then."""

    controller_id: int | None
    """The controller that clients are to be given, -1 if none is known; None if any broker will do."""

    @property
    def is_loading(self) -> bool:
        """Whether the source has more work that needs no input; the broker calls `advance` again soon."""
        ...

    @property
    def behind(self) -> bool:
        """Whether changes remain to be applied."""
        ...

    def advance(self, gathered: MetadataDelta | None = None) -> Iterator[MetadataDelta]:
        """Apply changes to the image, one step at a time; when a delta is yielded, the image is at its end.

        With `gathered`, all steps add to that one delta.
        """
        ...


MakeSource = Callable[[MetadataImage], MetadataSource]
"""Makes the source that writes into a broker's image."""
