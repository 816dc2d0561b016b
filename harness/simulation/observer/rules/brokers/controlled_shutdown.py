"""CS-04: a controller lets a broker shut down only when it may.

A controller lets a broker shut down in three cases (`nodes.controller.shutdown`). Each has a condition, checked against
the controller's image and the other brokers' state at the time of the decision:

    fenced already           no condition: the broker has no role left
    leads nothing            it leads nothing, in the image by which the controller decides
    marked as stopping       the same, and no broker that the image counts as active regards it as a leader

The third case is why the check runs at the moment of the decision: later, a broker with older metadata may have come
back.

A broker that has been told to shut down stays fenced in that incarnation, whatever arrives of it later: it would be
elected, and lead nothing for a session. Asserted when an image is newer than any before, and as new as that by which
the controller decided. Legal: a later incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.controller.shutdown import leads_anything
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.requests.session import ServerRequest


class ControlledShutdown(Rule):
    """See the module."""

    events = ("broker_let_go",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._undue: list[str] = []
        self._let_go: dict[int, tuple[int, int]] = {}
        """By broker id, the broker epoch that a controller has told to shut down, and the end of its image then."""
        self._looked_at = -1

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.BROKER_HEARTBEAT or request.answer is None:
            return
        asked, told = request.body, request.answer.response
        if not isinstance(asked, BrokerHeartbeatRequest) or not isinstance(told, BrokerHeartbeatResponse):
            return
        decider = node_of_quorum(node)
        image = None if decider is None or decider.controller is None else decider.controller.image
        if told.should_shut_down and not told.error_code and image is not None:
            self._let_go[asked.broker_id] = asked.broker_epoch, image.last_offset

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        """Check at once, before the decision changes the controller's image."""
        node = node_of_quorum(self.cluster.running(int(fields["node"])))
        image = None if node is None or node.controller is None else node.controller.image
        undue = None if image is None else undue_leave(image, int(fields["broker"]), self.cluster.running)
        if undue is not None:
            self._undue.append(undue)

    def died(self, process: SimProcess) -> None:
        self._undue.clear()

    def images_examined(self, process: SimProcess, node: BaseNode) -> None:
        undue, self._undue = self._undue, []
        if undue:
            raise InvariantBroken("CS-04", undue[0])
        image = self.cluster.images.newest_image
        if self._let_go and image is not None and image.last_offset > self._looked_at:
            self._looked_at = image.last_offset
            self._check_fenced(image)

    def _check_fenced(self, image: MetadataImage) -> None:
        for broker, (epoch, offset) in self._let_go.items():
            registration = image.brokers.get(broker)
            if registration is None or registration.epoch != epoch or image.last_offset < offset:
                continue
            if not registration.fenced:
                raise InvariantBroken(
                    "CS-04",
                    f"broker {broker} of epoch {epoch} was told to shut down, and is not fenced at offset "
                    f"{image.last_offset} of the metadata",
                )


def undue_leave(image: MetadataImage, broker: int, node_of: Callable[[int], BaseNode | None]) -> str | None:
    """Return why this image does not permit this broker to shut down; None if it does.

    `node_of` returns the node of a broker, if it runs.
    """
    leaving = image.brokers[broker]
    if leaving.fenced:
        return None
    if leads_anything(image, broker):
        return f"broker {broker} may stop, and leads {_led(image, broker)} by the controller's own image"
    if not leaving.in_controlled_shutdown:
        return None
    for other in image.brokers.values():
        node = node_of(other.id) if other.active else None
        if node is None or node.broker is None or node.broker.lifecycle.epoch != other.epoch:
            continue
        if leads_anything(node.broker.image, broker):
            return (
                f"broker {broker} may stop, but by what broker {other.id} knows it leads "
                f"{_led(node.broker.image, broker)}"
            )
    return None


def _led(image: MetadataImage, broker: int) -> str:
    """Name the first topic-partition that a broker leads, and how many more there are."""
    led = [
        f"{topic.name}-{number} in leader epoch {registration.leader_epoch}"
        for topic, number, registration in image.all_partitions()
        if registration.leader == broker
    ]
    return led[0] + (f" and {len(led) - 1} more" if led[1:] else "")
