"""Places where a rare but legal thing may happen: off everywhere but in simulation, as FoundationDB's buggify.

A correct node must cope with a segment that is rolled early, a fetch that brings nothing, a checkpoint that was not
written. Load and faults make such things happen seldom, or only at the usual moments. So the code names the place where
it may happen and asks the port `Buggify`, which the host passes by constructor: `happens(name)`. The answer of a host
that is no simulation is always no (`OFF`). Simulation draws which places are active in a run and how often each of them
happens then (docs/simulation.md, "Buggify").

What happens at a place must be legal: Kafka's promises hold, and clients and checks need not know of it. The catalogue
says for each place what happens and why it is legal. A place never weakens a promise; that would be a mutant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Buggify(Protocol):
    """Decides whether the rare thing happens at a place, each time that the code passes there."""

    def happens(self, name: str) -> bool: ...


class Never:
    """The answer of every host but a simulated one: nothing rare is made to happen."""

    def happens(self, name: str) -> bool:
        return False


OFF = Never()


@dataclass(frozen=True, slots=True)
class Place:
    """One place. `chance` is the largest probability of a visit in simulation; places often visited have a small one.

    `requirement` is what makes it legal: an id or a rule of docs/requirements.md, or a proposal of Kafka's (KIP).
    """

    name: str
    happens: str
    legal: str
    requirement: str
    chance: float


def by_name(*places: Place) -> dict[str, Place]:
    """Return the places by name, in order."""
    return {place.name: place for place in places}


NODE_PLACES: dict[str, Place] = by_name(
    # -- the quorum -----------------------------------------------------------------------------------------------
    Place(
        "early-election-timer",
        "a voter's election timer is an eighth of what was drawn",
        "any voter may ask at any time; votes are given by logs, not by timers",
        "QC-05",
        0.3,
    ),
    Place(
        "early-fetch-timeout",
        "a voter gives its leader up an eighth of the fetch timeout after a response",
        "voters that hear the leader refuse the pre-vote",
        "rule 41",
        0.02,
    ),
    Place(
        "metadata-fetch-one-batch",
        "the active controller returns one batch to a fetch, though more would fit",
        "a fetch may return less than it allows, as long as it returns one batch",
        "KIP-74",
        0.3,
    ),
    Place(
        "snapshot-early",
        "a node writes a snapshot although neither bytes nor time require one",
        "every node snapshots when it likes; a snapshot holds what is committed",
        "SN-01",
        0.05,
    ),
    Place(
        "snapshot-paused",
        "a node that writes a snapshot goes on with it after a tenth of a second, each time",
        "the image is frozen when a snapshot begins; how long writing takes is open",
        "SN-01",
        0.7,
    ),
    Place(
        "snapshot-piece-tiny",
        "a piece of a snapshot has 64 bytes at most",
        "the fetcher asks by position for what is left",
        "SN-05",
        0.7,
    ),
    Place(
        "snapshot-loaded-in-parts",
        "a node loads one or two batches of a snapshot in each turn, and reads no more of the file at once",
        "a large snapshot is loaded so; the image takes its place once it is complete",
        "SN-04",
        0.7,
    ),
    # -- the controller -------------------------------------------------------------------------------------------
    Place(
        "isr-change-not-attempted",
        "the controller answers an ISR change with OPERATION_NOT_ATTEMPTED and writes nothing",
        "the leader keeps the committed ISR and may ask again",
        "rule 21",
        0.2,
    ),
    Place(
        "write-refused-once",
        "the active controller answers an administrator's write with NOT_CONTROLLER before it decides anything",
        "NOT_CONTROLLER says that nothing was changed; brokers ask again",
        "MD-09",
        0.2,
    ),
    Place(
        "decision-split",
        "the active controller writes a decision two records at a time, and waits for 30 ms up to five times",
        "a decision may have more records than a batch; their order makes every prefix of them legal",
        "rule 25",
        1.0,
    ),
    # -- a broker and the controller ------------------------------------------------------------------------------
    Place(
        "heartbeat-late",
        "a broker waits for two heartbeat intervals instead of one",
        "nothing but availability depends on heartbeats; a silent broker is fenced",
        "FD-01",
        0.1,
    ),
    Place(
        "isr-change-sent-late",
        "a leader waits 50 ms before it sends ISR changes",
        "a shrink counts only once it is committed, an expansion at once",
        "IS-04",
        0.3,
    ),
    Place(
        "metadata-applied-late",
        "a broker applies nothing of the metadata log for 50 ms",
        "images are as old as they are; epochs fence what follows from old ones",
        "MD-04",
        0.05,
    ),
    # -- serving and following ------------------------------------------------------------------------------------
    Place(
        "lag-check-early",
        "a leader looks for lagging followers an eighth of the interval after the last time",
        "who lags depends on the followers' own times, not on when the leader looks",
        "IS-03",
        0.5,
    ),
    Place(
        "fetch-one-batch",
        "one topic-partition of a fetch response has one batch at most",
        "a fetch may return less than it allows",
        "KIP-74",
        0.3,
    ),
    Place(
        "fetch-part",
        "one topic-partition of a fetch response ends halfway through what is available",
        "a fetch may return less than it allows",
        "KIP-74",
        0.3,
    ),
    Place(
        "fetch-cut",
        "one topic-partition of a fetch response ends within a batch that is not its first",
        "a broker may bound a response by bytes alone; the fetcher leaves out a batch that is not whole",
        "KIP-74",
        1.0,
    ),
    Place(
        "fetch-empty",
        "a fetch is answered at once and without records, although there are some",
        "the answer of a broker without memory; the next fetch brings them",
        "DP-05",
        0.1,
    ),
    Place(
        "fetch-session-dropped",
        "a broker forgets a fetch session: FETCH_SESSION_ID_NOT_FOUND",
        "sessions may be evicted at any time; the fetcher begins another",
        "KIP-227",
        0.02,
    ),
    Place(
        "parked-woken-early",
        "all parked requests are examined although nothing has changed",
        "a wake-up is a hint; a request is answered by its condition",
        "rule 16",
        0.1,
    ),
    # -- logs -----------------------------------------------------------------------------------------------------
    Place(
        "segment-rolled-early",
        "a batch begins a new segment although the last one has room",
        "segments are a replica's own; readers know offsets only",
        "rule 17",
        0.1,
    ),
    Place(
        "index-entry-omitted",
        "a batch gets no index entry although one is due",
        "an index is a hint about where batches begin, and sparse",
        "rule 17",
        0.5,
    ),
    Place(
        "epoch-saved-early",
        "the leader epoch cache is on the disk before the first batch of an epoch",
        "opening a log forgets an epoch in which nothing was written",
        "rule 14",
        0.5,
    ),
    Place(
        "producer-snapshot-skipped",
        "a log is closed cleanly without a snapshot of the producers",
        "opening reads the batches since the snapshot of the last segment",
        "rule 7",
        0.5,
    ),
    Place(
        "recovery-points-not-written",
        "a broker flushes no sealed segment and writes no recovery points for an interval",
        "an older recovery point costs reading, never records",
        "rule 17",
        0.5,
    ),
    Place(
        "high-watermarks-not-written",
        "a broker writes no high watermarks for an interval",
        "a new leader starts lower and rises as followers report",
        "rule 11",
        0.5,
    ),
)  # fmt: skip
"""The places in nodes, by name. `harness/scenario/buggify_places.py` has those of the simulated world."""
