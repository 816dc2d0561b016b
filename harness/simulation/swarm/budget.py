"""The fault budget: which faults a swarm may combine while Kafka still promises durability (docs/simulation.md).

Kafka promises that acknowledged records survive fewer *unclean* broker restarts than min.insync.replicas, counted until
all replicas are in sync again, with eligible leader replicas kept (KIP-966). A controller cannot distinguish an unclean
restart that lost data from a harmless one. So as soon as one of them does lose data (`power-loss`, `wipe-disk`) or is
unregistered, which tells the controller that it has, all of them count:

* without eligible leader replicas no broker may lose data;
* with them, brokers that have crashed since all ISRs were last full are fewer than min ISR, if one of them lost data;
* a crash without loss is free while no loss is outstanding;
* another min.insync.replicas, or switching off eligible leader replicas, empties the list of eligible leader replicas,
  as in Kafka (EL-06). Then only the ISR's promise is left, and the ISR may be one broker. So no broker loses data from
  an operator's change of that setting until all ISRs are full again, and no operator changes it while a loss is
  outstanding. The change lasts until the operator has its answers, however long these take; one without an answer may
  still arrive later, for as long as a fault can hold a message. This holds for any topic, also for one that a stranger
  (`strangers`) has made and changes for good (seed 1001965 of worlds);
* a broker that stops and does not know whether it is registered waits for an answer, but not for ever. Without one it
  proves an earlier epoch at its next start, if any, and the controller may take its stop for a crash (seed 60105 of
  worlds). So its clean restart counts as a crash;
* where brokers sync every record before they answer for it (`flush.messages` 1 on all topics), a power loss takes no
  record, and counts as a crash;
* failing disks of controllers are a minority at any time. Durable data of controllers is never removed;
* a fault of a controller that is also a broker counts as a fault of the broker.

The budget examines the world when a fault is due: the newest committed image, and whether each crashed broker runs, is
registered with its present incarnation, and serves. Faults that do not fit are postponed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from squall.harness.scenario.suite import TopicOptions
from squall.harness.simulation.swarm.drawn.kinds import LOSE_INDEXES, MOVE_VOTER, RECONFIGURE_BROKER, UNREGISTER_BROKER
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.broker.hosting.config import NO_EPOCH
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.topic_configs import MIN_ISR
from squall.nodes.node.node import Node

LOSSY = ("power-loss-broker", "wipe-disk", UNREGISTER_BROKER)
FLUSH_MESSAGES = "flush.messages"
CRASHING = (
    "crash-broker",
    "crash-with-tail-broker",
    "crash-in-disk-call-broker",
    "disk-error-broker",
    RECONFIGURE_BROKER,
    LOSE_INDEXES,
)
"""A reconfigured broker stops cleanly, and is killed if it takes too long."""
CLEAN_STOPS = ("restart-broker", MOVE_VOTER)
LATEST_ARRIVAL = 15.0
"""Seconds within which a request arrives that no answer came to: the longest fault of a link."""
DISK_ERRORS = ("disk-error-broker", "disk-error-controller")


class FaultBudget:
    """Which brokers have crashed since the cluster was last whole, and which may crash next."""

    def __init__(self, world: SimWorld, topics: Mapping[str, TopicOptions]) -> None:
        """`topics`, by name, are those with records that must survive. The smallest min.insync.replicas counts."""
        self._world = world
        self._topics = sorted(topics)
        self._min_isr = min((topic.min_insync_replicas for topic in topics.values()), default=1)
        self._all_synced = bool(topics) and all(topic.config.get(FLUSH_MESSAGES) == 1 for topic in topics.values())
        self._crashed: dict[str, bool] = {}
        self._under_way: dict[str, list[str]] = {}
        """By host, the kinds of the allowed faults that count and are not over; they may be late to begin."""
        self._failing_controllers: dict[str, float] = {}
        self._edits: int = 0
        self._edited_until: float | None = None
        self._settings: list[str | None] | None = None

    def allows(self, kind: str, host: str, duration: float, *, at_once: bool = False) -> bool:
        """Return whether this fault fits now. If it does, count it until `ended` is called, or only `at_once`."""
        cluster = self._world.cluster
        if host in cluster.controllers:
            if kind == "wipe-disk":
                return False
            if kind in DISK_ERRORS and not self._allows_failing_controller(host, duration):
                return False
        counted = self._counted_as(kind, host)
        if counted is None:
            return True
        image = self._settle()
        crashed = self._crashed | {host: counted in LOSSY or self._crashed.get(host, False)}
        if any(crashed.values()):
            if image is None or not image.keeps_eligible_leaders:
                return False
            if len(crashed) >= self._min_isr or self._edited_until is not None:
                return False
        self._crashed = crashed
        if not at_once:
            self._under_way.setdefault(host, []).append(kind)
        return True

    def ended(self, kind: str, host: str) -> None:
        """Record that an allowed fault is over."""
        if kind in self._under_way.get(host, ()):
            self._under_way[host].remove(kind)

    def _counted_as(self, kind: str, host: str) -> str | None:
        """Return the kind that a fault counts as, None if it takes nothing from a broker."""
        if host in self._world.cluster.brokers:
            kind = kind.replace("-controller", "-broker")
        if kind == "power-loss-broker" and self._all_synced:
            kind = "crash-broker"
        if kind in CLEAN_STOPS and host in self._world.cluster.brokers and not self._knows_its_registration(host):
            kind = "crash-broker"
        return kind if kind in LOSSY or kind in CRASHING else None

    def _knows_its_registration(self, host: str) -> bool:
        node = self._world.processes[host].node
        return node is None or node.broker is None or node.broker.lifecycle.epoch != NO_EPOCH

    def allows_edit(self, duration: float) -> bool:
        """Return whether an operator may change min.insync.replicas now and restore it after `duration` seconds.

        Zero where nothing is restored, as with topics of strangers.
        """
        image = self._settle()
        if any(self._crashed.values()):
            return False
        if self._edited_until is None:
            self._settings = None if image is None else rules_of(image, self._topics)
        self._edited_until = max(self._edited_until or 0.0, self._world.kernel.time() + duration)
        return True

    def edit_begun(self) -> None:
        """Record that an operator begins a change that `allows_edit` has allowed."""
        self._edits += 1

    def edit_ended(self, *, answered: bool) -> None:
        """Record that it is over, and whether the cluster has answered all of its requests."""
        self._edits -= 1
        until = self._world.kernel.time() + (0.0 if answered else LATEST_ARRIVAL)
        self._edited_until = max(self._edited_until or 0.0, until)

    def _settle(self) -> MetadataImage | None:
        """Forget faults that are over, judged by the newest committed image."""
        image = self.newest_image()
        if image is not None and (self._crashed or self._edited_until is not None) and self._is_whole(image):
            self._crashed.clear()
            over = self._edited_until is not None and self._edited_until < self._world.kernel.time()
            if over and not self._edits and self._settings == rules_of(image, self._topics):
                self._edited_until = None
        return image

    def _allows_failing_controller(self, host: str, duration: float) -> bool:
        now = self._world.kernel.time()
        open_now = {name: until for name, until in self._failing_controllers.items() if until > now}
        open_now[host] = max(open_now.get(host, 0.0), now + duration)
        if len(open_now) > (len(self._world.cluster.controllers) - 1) // 2:
            return False
        self._failing_controllers = open_now
        return True

    def newest_image(self) -> MetadataImage | None:
        """Return the newest committed image of any running node."""
        nodes = [process.node for process in self._world.processes.values() if process.node is not None]
        images = [node.controller.committed for node in nodes if isinstance(node, Node) and node.controller is not None]
        images += [node.broker.image for node in nodes if node.broker is not None]
        return max(images, key=lambda image: image.last_offset, default=None)

    def _is_whole(self, image: MetadataImage) -> bool:
        """Return whether every crashed broker is permanently back and every replica is in sync."""
        return all(self._is_back(name, image) for name in self._crashed) and all(
            set(partition.isr) == set(partition.replicas) for _, _, partition in image.all_partitions()
        )

    def _is_back(self, name: str, image: MetadataImage) -> bool:
        """Return whether the broker runs, is not about to crash, and is registered with the incarnation that runs.

        An allowed fault may crash its host at any time until it is over. Until then a running broker does not count as
        back: a fault of a millisecond begins two milliseconds after it was allowed (seed 981321 of worlds).
        """
        if self._under_way.get(name):
            return False
        process = self._world.processes[name]
        if process.node is None or process.node.broker is None:
            return False
        if process.disk.failing or process.disk.crash_after is not None:
            return False
        registered = image.brokers.get(process.node.config.node_id)
        return registered is not None and registered.active and registered.epoch == process.node.broker.lifecycle.epoch


def rules_of(image: MetadataImage, topics: Iterable[str]) -> list[str | None]:
    """Return whether eligible leaders are kept, then the min ISR of each of these topics."""
    return [str(image.keeps_eligible_leaders), *(image.topic_settings(name).get(MIN_ISR) for name in topics)]
