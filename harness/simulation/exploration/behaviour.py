"""Record which behaviour of the nodes a run showed.

Code coverage is full after a few seeds; what differs between runs is the order of events and the states in which they
happen. A *feature* is a small tuple of those, and how often it occurred, in buckets as in AFL (1, 2, 3, 4–7, 8–15, …):

    pair        two consecutive trace events of one replica of a topic-partition, with its role
    quorum      a transition of a node's role in the quorum, and how its log stood to the others' (behind, equal, ahead)
    control     an event of the control plane, after which other one of the same node
    isr         the size of an ISR, the leader's place in it, and min ISR's distance
    lead, cut, high_watermark, log_opened, recovery_cut
                distances in buckets: how much a new leader holds above its high watermark, how much was truncated and
                how near to the high watermark, what recovery found: the near-misses of the invariants
    client      an operation with its outcome and error
    fault       a kind of fault, with the role of the node that it struck and the number of nodes that were down

`Behaviour` is a witness beside the observer: it reads the nodes' own trace and never changes a run.
"""

from __future__ import annotations

from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.node.node import Node
from squall.nodes.ports import Trace
from squall.workloads.core.operation import Event

Feature = tuple[object, ...]

MOST = 128
"""Counts from here on are one bucket."""
QUIET = frozenset({"append", "high_watermark", "metadata_applied", "fsync"})
"""Events of every moment; repetitions of them are no news."""


def bucket(number: int) -> int:
    """Return the smallest number of the bucket: 0, 1, 2, 3, 4, 8, 16, … `MOST`."""
    return number if number < 4 else min(MOST, 1 << (number.bit_length() - 1))


def coarse(number: int) -> int:
    """Return -1, 0, 1, 4, 16 or 64: the bucket of a distance."""
    if number <= 0:
        return -(number < 0)
    return 1 if number < 4 else 4 if number < 16 else 16 if number < 64 else 64


class Behaviour(Witness):
    """Collects the features of one run, each with its count's bucket."""

    def __init__(self) -> None:
        self.features: set[str] = set()
        self._counts: dict[Feature, int] = {}
        self._last: dict[tuple[object, ...], str] = {}
        self._roles: dict[object, str] = {}
        self._leads: dict[tuple[object, ...], bool] = {}

    def beside(self, trace: Trace) -> Trace:
        self._trace = trace
        return self

    def watch(self, world: SimWorld) -> None:
        self._world = world
        self._names = {place.name: place.node_id for place in world.places}

    def event(self, name: str, **fields: object) -> None:
        """Pass a node's trace event on, and record what it shows (nodes.ports.Trace)."""
        self._trace.event(name, **fields)
        if "topic" in fields:
            self._replica_event(name, fields)
        elif "log" in fields or name == "recovery_cut":
            self._storage_event(name, fields)
        else:
            self._control_event(name, fields)

    def operation(self, event: Event) -> None:
        if event.completion is None:
            return
        error = getattr(event.completion, "error", None)
        self._note(("client", event.operation.f, str(event.completion.type), "" if error is None else str(error)))

    def swarm_fault(self, kind: str, hosts: tuple[str, ...]) -> None:
        down = sum(process.node is None for process in self._world.processes.values())
        node = self._names.get(hosts[0])
        self._note(("fault", kind, self._roles.get(node, ""), coarse(self._led_by(node)), min(down, 2)))

    def _led_by(self, node: object) -> int:
        return sum(led for (broker, *_), led in self._leads.items() if broker == node)

    def _replica_event(self, name: str, fields: dict[str, object]) -> None:
        replica = (fields.get("broker"), fields["topic"], fields["partition"])
        last = self._last.get(replica)
        if last == name and name in QUIET:
            return
        self._last[replica] = name
        leads = self._leads.get(replica, False)
        self._note(("pair", leads, last, name))
        match name:
            case "leader" | "follower":
                self._leads[replica] = name == "leader"
                if name == "leader":
                    above = _number(fields, "end") - _number(fields, "high_watermark")
                    self._note(("lead", leads, coarse(above), bucket(_number(fields, "epoch"))))
            case "truncate":
                to, end = _number(fields, "to"), _number(fields, "end")
                self._note(("cut", leads, coarse(end - to), coarse(to - _number(fields, "high_watermark"))))
            case "high_watermark":
                self._note(("high_watermark", leads, coarse(_number(fields, "end") - _number(fields, "offset"))))
            case "isr" | "isr_proposed":
                members = fields.get("isr")
                size = len(members) if isinstance(members, list | tuple | frozenset) else -1
                self._note((name, leads, size, last))

    def _storage_event(self, name: str, fields: dict[str, object]) -> None:
        if name == "epoch":
            return
        length = _number(fields, "end") - _number(fields, "start")
        self._note((name, fields.get("clean"), coarse(length), coarse(_number(fields, "bytes") // 64)))

    def _control_event(self, name: str, fields: dict[str, object]) -> None:
        node = fields.get("node", fields.get("broker"))
        if name == "state":
            role = str(fields.get("role"))
            before = self._roles.get(node, "")
            self._roles[node] = role
            self._note(("quorum", before, role, self._relation(node)))
            return
        last = self._last.get((node,))
        if last == name and name in QUIET:
            return
        self._last[node,] = name
        self._note(("control", self._roles.get(node, ""), last, name))

    def _relation(self, node: object) -> str:
        """Compare the ends of the metadata log of this node and the others."""
        ends: dict[int, int] = {}
        for process in self._world.processes.values():
            if isinstance(process.node, Node):
                ends[process.node.config.node_id] = process.node.raft.end_offset
        own = ends.pop(node, None) if isinstance(node, int) else None
        if own is None or not ends:
            return "unknown"
        most = max(ends.values())
        return "behind" if own < most else "equal" if own == most else "ahead"

    def _note(self, feature: Feature) -> None:
        count = self._counts[feature] = self._counts.get(feature, 0) + 1
        if count <= 3 or (count & (count - 1) == 0 and count <= MOST):
            words = " ".join(str(part) for part in feature)
            self.features.add(f"{words} ×{count}")


def _number(fields: dict[str, object], key: str) -> int:
    value = fields.get(key, 0)
    return value if isinstance(value, int) else 0
