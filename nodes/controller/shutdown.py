"""Controlled shutdown: when a stopping broker may stop (CS-01 to CS-04, rule 26).

The heartbeat carries the request to stop (CS-01), and its response the permission:

    UNFENCED ── wants to stop, leads something ──▶ CONTROLLED_SHUTDOWN   marked in the log, out of leaderships and ISRs
        └────── wants to stop, leads nothing ────▶ SHUTDOWN_NOW          fenced, may stop
    CONTROLLED_SHUTDOWN ── leads nothing, and every active broker knows ─▶ SHUTDOWN_NOW
    FENCED ── wants to stop ──▶ SHUTDOWN_NOW

The mark keeps a stopping broker from entering an ISR or being elected again meanwhile (KIP-841); the change records
come with it, in batches (CS-03). "Every active broker knows" is a comparison with the *shutdown offset*: the end of the
image at the first heartbeat that finds the broker without leaderships. Brokers report in their heartbeats how far they
have applied the log. Offsets exist only in the memory of the active controller: a new one waits until all active
brokers have reported, and takes its own shutdown offset, which is later and so safe (CS-04).
"""

from __future__ import annotations

from collections.abc import Mapping

from squall.nodes.metadata.image import MetadataImage

UNHEARD = -1


class ShutdownOffsets:
    """How far each broker has applied the log, and the offset that all must have applied before a broker may stop."""

    def __init__(self) -> None:
        self._applied: dict[int, int] = {}
        self._shutdown: dict[int, int] = {}

    def restart(self) -> None:
        """Forget all offsets: no broker has reported to a newly active controller."""
        self._applied.clear()
        self._shutdown.clear()

    @property
    def reported(self) -> Mapping[int, int]:
        """By broker, the last offset of the log that it has applied, as reported in its heartbeats."""
        return self._applied

    def heard(self, broker: int, applied: int) -> None:
        self._applied[broker] = applied

    def end(self, broker: int) -> None:
        """Forget a broker whose incarnation has ended or that is fenced."""
        self._applied.pop(broker, None)
        self._shutdown.pop(broker, None)

    def leads(self, image: MetadataImage, broker: int) -> bool:
        """Whether a broker marked as stopping leads something. Once it does not, it never will: it is not active."""
        if broker not in self._shutdown and not leads_anything(image, broker):
            self._shutdown[broker] = image.last_offset
        return broker not in self._shutdown

    def may_go(self, image: MetadataImage, broker: int) -> bool:
        """Whether a broker marked as stopping may stop now."""
        if self.leads(image, broker):
            return False
        offset = self._shutdown[broker]
        return all(self._applied.get(one.id, UNHEARD) >= offset for one in image.brokers.values() if one.active)


def leads_anything(image: MetadataImage, broker: int) -> bool:
    """Whether a broker leads something.

    Costs in proportion to its topic-partitions, by the index of `metadata.topic`.
    """
    return any(
        topic.partitions[number].leader == broker
        for topic in image.topics.values()
        for number in topic.of_broker(broker)
    )
