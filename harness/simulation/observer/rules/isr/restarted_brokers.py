"""EL-05: a broker that died is eligible nowhere from its next registration on, and a clean stop costs nothing.

A broker that was killed, or lost power, may lack records that it had acknowledged. With eligible leader replicas
(KIP-966) the batch that registers its next incarnation takes it out of every ISR and ELR. A broker that stopped cleanly
has proof of that, and keeps its place. The observer knows how each process ended, and asserts at each committed
registration of another incarnation:

* the incarnation that was registered before died: the broker is in no ISR and no ELR after the batch;
* it stopped cleanly, so did those that have started since, nothing was lost on that disk, and it knew that it was
  registered: no topic-partition counts the broker among those that had everything once.

The proof is the broker epoch that a clean stop leaves on the disk (FD-03), asserted when a process has stopped cleanly:
it is that of its registration; if it was not registered, that of the proof which it found; none, if it found none.

Legal: an incarnation that died while it closed, which may have left its proof, or not; the first registration of a
broker; a cluster without eligible leader replicas, where the last member stays in the ISR.
"""

from __future__ import annotations

from dataclasses import dataclass

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.observer.state.observed_metadata import Reregistered
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.clean_shutdown import clean_epoch
from squall.nodes.broker.hosting.config import NO_EPOCH
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.node import Node
from squall.nodes.storage.checkpoints import CLEAN_SHUTDOWN


@dataclass(slots=True)
class _Incarnation:
    """One incarnation of a broker: the process's number for it, the newest epoch it knew, and how it ended."""

    number: int
    epoch: int = NO_EPOCH
    end: str = ""


class RestartedBrokers(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        cluster.metadata.on_reregistered = self._reregistered
        self._seen: dict[bytes, _Incarnation] = {}
        """By the incarnation id with which brokers register."""
        self._ends: dict[tuple[str, int], str] = {}
        """By host and incarnation, how it ended."""
        self._losses: dict[str, int] = {}
        """By host, the newest incarnation after which its disk lost something."""
        self._running: dict[str, _Incarnation] = {}
        """By host, the running incarnation of its broker."""
        self._proofs: dict[str, int] = {}
        """By host, the epoch that its disk proves; nothing where it is not known."""

    def messages_seen(self, process: SimProcess, node: Node) -> None:
        if node.broker is None:
            return
        lifecycle = node.broker.lifecycle
        seen = self._seen.setdefault(lifecycle.incarnation_id, _Incarnation(process.incarnation))
        seen.epoch = lifecycle.epoch
        self._running[process.name] = seen

    def died(self, process: SimProcess) -> None:
        self._ends[process.name, process.incarnation] = process.how_it_ended
        seen = self._running.pop(process.name, None)
        found = self._proofs.pop(process.name, None)
        if seen is None or not process.disk.keeps_promises or process.how_it_ended == "died while it closed":
            return
        if process.how_it_ended == "died":
            self._proofs[process.name] = NO_EPOCH
            return
        content = process.disk.content(CLEAN_SHUTDOWN)
        left = self._proofs[process.name] = clean_epoch(None if content is None else content.decode())
        expected = found if seen.epoch == NO_EPOCH else seen.epoch
        if expected is not None and left != expected:
            raise InvariantBroken(
                "EL-05",
                f"{process.name} has stopped cleanly, and has left the proof of broker epoch {left}, instead of "
                f"{expected}",
            )

    def power_lost(self, name: str) -> None:
        self._proofs.pop(name, None)
        self._losses[name] = self.cluster.processes[name].incarnation

    def _reregistered(self, broker: Reregistered, image: MetadataImage) -> None:
        before, now = self._seen.get(broker.incarnation_before), self._seen.get(broker.incarnation)
        if before is None or now is None or not image.keeps_eligible_leaders:
            return
        name = self.cluster.names[broker.id]
        ends = [self._ends.get((name, number), "") for number in range(before.number, now.number)]
        if ends and ends[0] == "died":
            self._refuse_eligible(broker, image)
        lost = self._losses.get(name, -1) >= before.number
        if ends and set(ends) == {"stopped"} and not lost and before.epoch == broker.epoch_before:
            self._refuse_forgotten(broker, image)

    def _refuse_eligible(self, broker: Reregistered, image: MetadataImage) -> None:
        for topic, number, now in image.all_partitions():
            if broker.id in now.isr or broker.id in now.elr:
                raise InvariantBroken(
                    "EL-05",
                    f"{topic.name}-{number}: broker {broker.id} is registered again at offset {broker.epoch} after it "
                    f"died, and is still in ISR {list(now.isr)} or ELR {list(now.elr)}",
                )

    def _refuse_forgotten(self, broker: Reregistered, image: MetadataImage) -> None:
        for topic, number, now in image.all_partitions():
            known = broker.id in now.last_known_elr and broker.id not in (*now.isr, *now.elr)
            if known and (topic.id, number) in broker.eligible_before:
                raise InvariantBroken(
                    "EL-05",
                    f"{topic.name}-{number}: broker {broker.id} is registered again at offset {broker.epoch} after a "
                    f"clean stop, and counts no more as one that has everything: ISR {list(now.isr)}, ELR "
                    f"{list(now.elr)}",
                )
