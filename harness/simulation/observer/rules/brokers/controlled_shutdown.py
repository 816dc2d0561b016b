"""CS-04: a controller lets a broker shut down only when it may.

A controller lets a broker shut down in three cases (`nodes.controller.shutdown`). Each has a condition, checked against
the controller's image and the other brokers' state at the time of the decision:

    fenced already           no condition: the broker has no role left
    leads nothing            it leads nothing, in the image by which the controller decides
    marked as stopping       the same, and no broker that the image counts as active regards it as a leader

The third case is why the check runs at the moment of the decision: later, a broker with older metadata may have come
back.

Whoever may stop is told so. A controller that has let a broker wait which is marked as stopping and leads nothing does
not let it wait again after all active brokers have reported that they have applied the metadata of that time. Only
reports count that were answered before the request to stop arrived, and only requests that are answered at once, by the
image that the controller had before (`worlds` seed 153: a broker registered again in that turn). The first of them may
be the one that had the broker marked (`worlds` seed 986, with one controller): the offset that others must have applied
is determined at the next.

The third case rests on what brokers report: none has applied less of the metadata than its heartbeat says. Asserted
when the heartbeat is answered, of every offset that the controller has noted by then. A controller that becomes active
has noted no offsets of an earlier epoch of the quorum: the brokers may be new incarnations, which have applied less.

A broker that has been told to shut down stays fenced in that incarnation, whatever arrives of it later: it would be
elected, and lead nothing for a session. Asserted when an image is newer than any before, and as new as that by which
the controller decided. Legal: a later incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from squall.harness.simulation.observer.rules.brokers.deciding_images import DecidingImages
from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.controller.shutdown import leads_anything
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.requests.session import ServerRequest


@dataclass(slots=True)
class _Leadership:
    """What one active controller has answered to heartbeats."""

    identity: tuple[int, int]
    """The process's incarnation and the quorum's epoch."""
    reported: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By broker id, how far it has applied the metadata, and when that was answered, in microseconds."""
    freed: dict[tuple[int, int], int] = field(default_factory=dict)
    """By id and epoch of a stopping broker without leaderships: where the metadata ended at its second wait."""
    waited: set[tuple[int, int]] = field(default_factory=set)
    """By id and epoch, the stopping brokers without leaderships that have waited once."""


class ControlledShutdown(Rule):
    """See the module."""

    events = ("broker_let_go",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._undue: list[str] = []
        self._let_go: dict[int, tuple[int, int]] = {}
        """By broker id, the broker epoch that a controller has told to shut down, and the end of its image then."""
        self._looked_at = -1
        self._leaderships: dict[str, _Leadership] = {}
        self._images = DecidingImages()
        self._active: dict[str, tuple[int, int]] = {}
        """By host, incarnation and epoch of the quorum in which it was last the active controller."""
        self._heard: set[int] = set()
        """The brokers whose heartbeats were answered in this turn."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        self._images.turned(process, node)
        heard, self._heard = self._heard, set()
        decider = node_of_quorum(node)
        if decider is None or decider.controller is None or decider.controller.image is None:
            return
        identity = process.incarnation, decider.raft.epoch
        if self._active.get(process.name) == identity:
            return
        self._active[process.name] = identity
        old = sorted(decider.controller.reported_offsets.keys() - heard - _waiting(decider))
        if old:
            raise InvariantBroken(
                "CS-04",
                f"controller {process.name} of epoch {decider.raft.epoch} has noted in an earlier epoch what brokers "
                f"{old} have applied of the metadata",
            )

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.BROKER_HEARTBEAT or request.answer is None:
            return
        asked, told = request.body, request.answer.response
        if not isinstance(asked, BrokerHeartbeatRequest) or not isinstance(told, BrokerHeartbeatResponse):
            return
        decider = node_of_quorum(node)
        if told.error_code or decider is None or decider.controller is None or decider.controller.image is None:
            return
        image = decider.controller.image
        self._heard.add(asked.broker_id)
        self._check_report(asked.broker_id, asked.broker_epoch, asked.current_metadata_offset)
        for broker, offset in decider.controller.reported_offsets.items():
            if broker in image.brokers:
                self._check_report(broker, image.brokers[broker].epoch, offset)
        if told.should_shut_down:
            self._let_go[asked.broker_id] = asked.broker_epoch, image.last_offset
        kept = self._leaderships.get(process.name)
        if kept is None or kept.identity != (process.incarnation, decider.raft.epoch):
            kept = self._leaderships[process.name] = _Leadership((process.incarnation, decider.raft.epoch))
        if asked.want_shut_down and not told.should_shut_down and self._images.is_as_before(process, image):
            _check_waits(process, image, kept, asked, request.received_at)
        kept.reported[asked.broker_id] = asked.current_metadata_offset, process.now

    def _check_report(self, broker_id: int, epoch: int, offset: int) -> None:
        """Check how much of the metadata a broker has said to have applied; it may have applied more since."""
        sender = self.cluster.running(broker_id)
        broker = None if sender is None else sender.broker
        if broker is None or broker.lifecycle.epoch != epoch or node_of_quorum(sender) is None:
            return
        if offset > broker.applied_offset:
            raise InvariantBroken(
                "CS-04",
                f"broker {broker_id} reports that it has applied the metadata up to {offset}, and has up to "
                f"{broker.applied_offset}",
            )

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        """Check at once, before the decision changes the controller's image."""
        node = node_of_quorum(self.cluster.running(int(fields["node"])))
        image = None if node is None or node.controller is None else node.controller.image
        undue = None if image is None else undue_leave(image, int(fields["broker"]), self.cluster.running)
        if undue is not None:
            self._undue.append(undue)

    def died(self, process: SimProcess) -> None:
        self._undue.clear()
        self._heard.clear()

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


def _waiting(node: Node) -> set[int]:
    """The brokers whose heartbeats have no answer yet."""
    requests = (inbound.request for inbound in node.connections.unanswered())
    return {one.body.broker_id for one in requests if one is not None and isinstance(one.body, BrokerHeartbeatRequest)}


def _check_waits(
    process: SimProcess, image: MetadataImage, kept: _Leadership, asked: BrokerHeartbeatRequest, arrived: int
) -> None:
    """Check that some active broker has not reported enough, for a stopping broker that the controller lets wait."""
    stopping, key = image.brokers.get(asked.broker_id), (asked.broker_id, asked.broker_epoch)
    if stopping is None or stopping.epoch != asked.broker_epoch or not stopping.in_controlled_shutdown:
        return
    if leads_anything(image, asked.broker_id) or arrived < process.now:
        return
    if key not in kept.waited:
        kept.waited.add(key)
        return
    end = kept.freed.get(key)
    if end is None:
        kept.freed[key] = image.last_offset
        return
    reports = [kept.reported.get(one.id) for one in image.brokers.values() if one.active]
    if all(one is not None and one[0] >= end and one[1] < arrived for one in reports):
        raise InvariantBroken(
            "CS-04",
            f"{process.name} lets broker {asked.broker_id} wait, which led nothing when the metadata ended at {end}; "
            "all active brokers have reported since that they have applied as much",
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
