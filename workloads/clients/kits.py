"""The client libraries a suite may name, and the kits that make their clients.

`mixed` gives every other client to each library, so that one history shows what both did to the same logs. Libraries
are imported when they are asked for: a load worker should start in a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from squall.workloads.clients.client import Client, ClientKit, ClientPlan

Library = Literal["confluent", "kafka-python", "mixed"]

Bootstrap = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class MixedKit:
    """Makes clients of several libraries in turn, by the client's number."""

    kits: tuple[ClientKit, ...]
    name: str = "mixed"

    def client(self, plan: ClientPlan) -> Client:
        return self.kits[plan.client % len(self.kits)].client(plan)


def kit_of(library: Library, bootstrap: Bootstrap) -> ClientKit:
    """The kit of that name for one cluster."""
    if library == "mixed":
        return MixedKit((kit_of("confluent", bootstrap), kit_of("kafka-python", bootstrap)))
    if library == "kafka-python":
        from squall.workloads.clients.kafka_python import KafkaPythonKit

        return KafkaPythonKit(bootstrap)
    from squall.workloads.clients.confluent import ConfluentKit

    return ConfluentKit(bootstrap)
