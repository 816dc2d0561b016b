"""MD-03: a node applies only metadata that its own replica of the metadata log knows to be committed (rule 30).

Source: KIP-631. Asserted in each turn that touches the quorum or an image. Legal: an image behind the high watermark.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.node import Node


class AppliedMetadata(Rule):
    """See the module."""

    def metadata_touched(self, process: SimProcess, node: Node) -> None:
        high_watermark = node.raft.high_watermark
        images = [] if node.controller is None else [("controller", node.controller.committed)]
        images += [] if node.broker is None else [("broker", node.broker.image)]
        for role, image in images:
            if image.last_offset >= high_watermark:
                raise InvariantBroken(
                    "MD-03",
                    f"{process.name} ({role}) has applied metadata up to {image.last_offset}, only what is below "
                    f"{high_watermark} is known to be committed",
                )
