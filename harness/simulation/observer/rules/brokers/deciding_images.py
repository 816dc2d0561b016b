"""Whether a controller decided by the image that a rule sees when the answer leaves.

A controller decides requests one after the other, and each decision changes its image. An answer waits until what was
decided before it is committed, which may be in the same turn: then requests that were handled in between have changed
the image. If the image ends where it ended after the controller's last turn, nothing has.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import node_of_quorum
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.base import BaseNode


class DecidingImages:
    """Where the image of each controller ended after its last turn."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int]] = {}
        """By host, its incarnation and the offset of the last record in the image."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        decider = node_of_quorum(node)
        image = None if decider is None or decider.controller is None else decider.controller.image
        if image is not None:
            self._ends[process.name] = process.incarnation, image.last_offset

    def is_as_before(self, process: SimProcess, image: MetadataImage) -> bool:
        """Return whether no request of this turn has changed the image so far."""
        return self._ends.get(process.name) == (process.incarnation, image.last_offset)
