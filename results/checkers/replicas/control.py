"""Judge the control plane by what nodes left: ELECT, HWM, EPOCH and ISR on hosts (docs/requirements.md).

Two sources are compared. The *metadata log* of every node, batch by batch, with the committed end that the quorum's
leader stated (`QuorumFacts`), and its records on topic-partitions, replayed here into states by partition epoch
(`metadata.py`). And the *control trace* of every node: who led which epoch, how far a node knew the metadata to be
committed, which ISR a broker adopted (`TraceEvent`).

* one node at most leads an epoch of the quorum, or of a topic-partition                                  (ELECT)
* a voter votes for one candidate at most in an epoch of the quorum, restarted or not           (ELECT, QC-04, QC-08)
* what the quorum has committed is on a majority of voters, and no node that knew a record to be committed
  has another one there or none; while a node runs, its high watermark never falls, and it cuts nothing below (HWM)
* a broker leads in an epoch, or takes up an ISR of a partition epoch, only as committed records say  (EPOCH, IMAGE)
* a leader that committed records name is in the ISR that they leave, after an unclean election as well   (ELECT, IS-02)
* every decision that was committed is one that a controller may make                                 (`decisions.py`)
* the files beside a running node's metadata log agree with its batches                                     (DP-13)
* epochs never go back: in the log, at a node while it runs, in what a broker follows                      (EPOCH)

Legal, and must raise nothing: an uncommitted tail at a node that lags; a high watermark that starts again when a node
restarts; a voter that returns without its epoch, because its disk was emptied, and votes again; trace events of epochs
beyond the committed end that was requested, or before the oldest snapshot; a topic created again under its name, which
has another id; a topic-partition without a leader, whatever its ISR; half a line or lost lines of a node that was
killed. A trace is not a complete record, so nothing is concluded from what is missing in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from squall.results.checkers.common.text import grouped, listed
from squall.results.checkers.replicas.anomalies import (
    EPOCH_REGRESS,
    LEADER_OUTSIDE_ISR,
    LOG_MATCHING,
    METADATA_MISMATCH,
    METADATA_REPLACED,
    TWO_LEADERS,
    TWO_VOTES,
)
from squall.results.checkers.replicas.decisions import judge_decisions
from squall.results.checkers.replicas.facts import Findings
from squall.results.checkers.replicas.logs import different_at, holes_of, look_at_files, mismatches
from squall.results.checkers.replicas.metadata import QUORUM, MetadataRecord, States, replayed
from squall.results.checkers.replicas.replica import Replica

LEADER = "leader"
VOTE = "vote"
NODE_STARTED, LINES_LOST, TORN_LINE = "node_started", "lines_lost", "torn_line"
"""Events about the trace itself: a process began it, could not write so many lines (`offset`), left half a line."""
NOT_TRACED = "not_traced"
"""Stands for the trace of a node whose system writes none."""
WITHOUT_TRACE = "nodes of a system without control traces"


@dataclass(frozen=True, kw_only=True)
class QuorumFacts:
    """The state of the quorum by its leader, before logs were read: `committed` is its high watermark.

    None stands for it if no controller stated it.
    """

    leader: int
    epoch: int
    committed: int
    voters: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TraceEvent:
    """A line of a node's control trace; `incarnation` counts its processes.

    `offset` is a high watermark, or where a log was truncated; `members` is an ISR, or the candidate of a vote.
    """

    host: str
    node: int
    incarnation: int
    event: str
    role: str = ""
    topic: str = ""
    topic_id: str = ""
    partition: int = -1
    epoch: int = -1
    partition_epoch: int = -1
    offset: int = -1
    members: tuple[int, ...] = ()


def judge_control(
    quorum: QuorumFacts | None,
    logs: Sequence[Replica],
    records: Sequence[MetadataRecord],
    events: Sequence[TraceEvent],
    findings: Findings,
) -> Findings:
    """Judge the control plane. `logs` are the nodes' metadata logs; `records` are the quorum leader's, in order."""
    findings.looked_at["metadata logs"] += sum(one.collected for one in logs)
    findings.looked_at["metadata batches"] += sum(len(one.batches) for one in logs)
    findings.looked_at["trace events"] += sum(one.event != NOT_TRACED for one in events)
    known = _known_committed(events)
    newest = {one.node: one.incarnation for one in events}
    still = _known_committed(one for one in events if one.incarnation == newest[one.node])
    if quorum is None:
        findings.undecided.append("no controller said up to where the metadata is committed")
    else:
        _look_at_metadata(quorum, logs, known, still, findings)
        states = replayed(records, quorum.committed)
        _look_at_states(states, findings)
        _look_at_brokers(states, events, findings)
        if not any(one.event == NOT_TRACED for one in events):
            judge_decisions(records, quorum.committed, findings)
    for index, one in enumerate(logs):
        for other in logs[index + 1 :]:
            _match(one, other, findings)
        _look_at_epochs_of(one, findings)
        if one.live and one.collected:
            look_at_files(one, findings)
    _look_at_traces(logs, events, findings)
    _look_at_leaders(events, findings)
    _look_at_votes(events, findings)
    _look_at_progress(events, findings)
    return findings


def _known_committed(events: Iterable[TraceEvent]) -> dict[int, int]:
    """By node: the highest metadata high watermark that it ever reported."""
    known: dict[int, int] = {}
    for one in events:
        if one.event == "high_watermark" and not one.topic:
            known[one.node] = max(known.get(one.node, 0), one.offset)
    return known


# -- the metadata log ------------------------------------------------------------------------------------------


def _look_at_metadata(
    quorum: QuorumFacts,
    logs: Sequence[Replica],
    known: Mapping[int, int],
    still: Mapping[int, int],
    findings: Findings,
) -> None:
    """Judge the metadata logs.

    `known` is how far each node ever knew the log to be committed; `still` how far since its last start. What an
    observer has not made durable may be missing after a power loss, until it is fetched again.
    """
    reference = next((one for one in logs if one.node == quorum.leader and one.collected), None)
    if reference is None:
        findings.undecided.append(f"the metadata log of node {quorum.leader}, which led the quorum, could not be read")
        return
    committed = quorum.committed
    if len(holes_of(reference, reference.start, committed)):
        findings.accuse(
            METADATA_REPLACED,
            QUORUM,
            reference.end,
            (
                reference.host,
                f"leads quorum epoch {quorum.epoch} and said that all below {grouped(committed)} is committed",
            ),
            (reference.host, f"has offsets {grouped(reference.start)} to {grouped(reference.end - 1)}"),
        )
    whole = []
    for one in logs:
        if not one.collected:
            continue
        upper = min(known.get(one.node, 0), committed)
        _look_at_committed(reference, one, upper, min(still.get(one.node, 0), committed), findings)
        if one.node in quorum.voters and _has_all(reference, one, committed):
            whole.append(one.node)
    _look_at_majority(quorum, logs, whole, findings)


def _look_at_committed(reference: Replica, one: Replica, upper: int, there: int, findings: Findings) -> None:
    """Require that a node agrees with the leader below `upper`, as far as it knew the commit, and has all below
    `there`.
    """
    low = max(reference.start, one.start)
    places = list(map(int, different_at(reference, one, low, upper)))
    missing = [int(first) for first, _ in holes_of(one, one.start, there)] if one.live else []
    if places or missing:
        first = min([*places, *missing])
        findings.accuse(
            METADATA_REPLACED,
            QUORUM,
            first,
            (one.host, f"knew all below offset {grouped(upper)} to be committed"),
            (one.host, f"has {_at(one, first)}"),
            (reference.host, f"which leads the quorum, has {_at(reference, first)}"),
            count=len(places) + len(missing),
        )


def _has_all(reference: Replica, one: Replica, committed: int) -> bool:
    low = max(reference.start, one.start)
    return not len(holes_of(one, one.start, committed)) and not len(different_at(reference, one, low, committed))


def _look_at_majority(quorum: QuorumFacts, logs: Sequence[Replica], whole: Sequence[int], findings: Findings) -> None:
    voters = len(quorum.voters)
    if len(whole) * 2 > voters:
        return
    seen = {one.node for one in logs if one.collected}
    unseen = [one for one in quorum.voters if one not in seen]
    if (len(whole) + len(unseen)) * 2 > voters:
        findings.undecided.append(
            f"whether a majority of voters has what is committed is not known: node {listed(list(map(str, unseen)))} "
            "could not be looked at"
        )
        return
    findings.accuse(
        METADATA_REPLACED,
        QUORUM,
        quorum.committed - 1,
        ("committed", f"everything below offset {grouped(quorum.committed)}, said node {quorum.leader}"),
        ("voters", f"{listed(list(map(str, quorum.voters)))}; only {len(whole)} of them have all of it"),
    )


def _at(one: Replica, offset: int) -> str:
    index = int(np.searchsorted(one.batches.base, offset, "right")) - 1
    if index < 0 or one.batches.last[index] < offset:
        return f"nothing at offset {grouped(offset)}"
    return one.batches.told(index)


def _match(one: Replica, other: Replica, findings: Findings) -> None:
    places = mismatches(one, other, max(one.start, other.start))
    if len(places):
        first = int(places[0])
        findings.accuse(
            LOG_MATCHING,
            QUORUM,
            first,
            (one.host, f"has {_at(one, first)}"),
            (other.host, f"has {_at(other, first)}"),
            count=len(places),
        )


def _look_at_epochs_of(one: Replica, findings: Findings) -> None:
    falls = np.flatnonzero(np.diff(one.batches.epoch) < 0)
    if len(falls):
        index = int(falls[0])
        findings.accuse(
            EPOCH_REGRESS,
            QUORUM,
            int(one.batches.base[index + 1]),
            (one.host, f"has {one.batches.told(index + 1)}"),
            (one.host, f"before it stands {one.batches.told(index)}"),
            count=len(falls),
        )


# -- traces ----------------------------------------------------------------------------------------------------


def _look_at_traces(logs: Iterable[Replica], events: Sequence[TraceEvent], findings: Findings) -> None:
    """Require a trace of each node that writes one; killed nodes and full disks may lose lines, which are counted."""
    untraced = {one.node for one in events if one.event == NOT_TRACED}
    begun = {one.node for one in events if one.event == NODE_STARTED} | untraced
    findings.undecided += [f"no control trace of {one.host} was collected" for one in logs if one.node not in begun]
    torn = sum(one.event == TORN_LINE for one in events)
    lost = sum(one.offset for one in events if one.event == LINES_LOST)
    findings.noted.update(
        {
            name: count
            for name, count in (("torn trace lines", torn), ("lost trace lines", lost), (WITHOUT_TRACE, len(untraced)))
            if count
        }
    )


def _look_at_leaders(events: Iterable[TraceEvent], findings: Findings) -> None:
    """Check ELECT, for the quorum and for every topic-partition."""
    leaders: dict[tuple[str, int, int], TraceEvent] = {}
    for one in events:
        if one.event == "state" and one.role == LEADER:
            key, place = ("", 0, one.epoch), QUORUM
        elif one.event == "leader" and one.topic_id:
            key, place = (one.topic_id, one.partition, one.epoch), f"{one.topic}-{one.partition}"
        else:
            continue
        findings.looked_at["leaders"] += key not in leaders
        first = leaders.setdefault(key, one)
        if first.node != one.node:
            findings.accuse(
                TWO_LEADERS,
                place,
                -1,
                (first.host, f"led in epoch {one.epoch}, says its trace"),
                (one.host, f"led in epoch {one.epoch} as well, says its trace"),
            )


def _look_at_votes(events: Iterable[TraceEvent], findings: Findings) -> None:
    """Check that a vote is kept for its epoch (QC-08). The events of a node are in their order."""
    votes: dict[int, dict[int, TraceEvent]] = {}
    for one in events:
        given = votes.setdefault(one.node, {})
        if one.event == "state":
            votes[one.node] = {epoch: vote for epoch, vote in given.items() if epoch <= one.epoch}
        elif one.event == VOTE:
            findings.looked_at["votes"] += one.epoch not in given
            first = given.setdefault(one.epoch, one)
            if first.members != one.members:
                findings.accuse(
                    TWO_VOTES,
                    QUORUM,
                    -1,
                    (first.host, f"voted for node {_candidate(first)} in epoch {one.epoch}, says its trace"),
                    (one.host, f"voted for node {_candidate(one)} in that epoch as well, says its trace"),
                )


def _candidate(vote: TraceEvent) -> str:
    return ", ".join(map(str, vote.members))


def _look_at_states(states: States, findings: Findings) -> None:
    """Check that committed records choose leaders from the ISR: from the ELR or uncleanly, they make it the ISR."""
    for (_, partition), by_epoch in states.by_partition_epoch.items():
        for state in by_epoch.values():
            if state.leader >= 0 and state.leader not in state.isr:
                findings.accuse(
                    LEADER_OUTSIDE_ISR,
                    f"{state.topic}-{partition}",
                    -1,
                    ("metadata", f"names node {state.leader} as the leader of epoch {state.leader_epoch}"),
                    ("metadata", f"{_isr(state.isr)} in that partition epoch, {state.partition_epoch}"),
                )


def _look_at_brokers(states: States, events: Iterable[TraceEvent], findings: Findings) -> None:
    """Check that brokers acted on what committed records say, as far as these are known."""
    for one in events:
        key, place = (one.topic_id, one.partition), f"{one.topic}-{one.partition}"
        if one.event == "leader":
            leader = states.leaders.get(key, {}).get(one.epoch)
            if leader is not None and leader != one.node:
                findings.accuse(
                    METADATA_MISMATCH,
                    place,
                    -1,
                    (one.host, f"led in leader epoch {one.epoch}, says its trace"),
                    ("metadata", f"names node {leader} as the leader of that epoch"),
                )
        elif one.event == "isr":
            state = states.by_partition_epoch.get(key, {}).get(one.partition_epoch)
            findings.looked_at["ISR changes"] += state is not None
            if state is not None and (set(state.isr), state.leader_epoch) != (set(one.members), one.epoch):
                findings.accuse(
                    METADATA_MISMATCH,
                    place,
                    -1,
                    (
                        one.host,
                        f"{_isr(one.members)} in partition epoch {one.partition_epoch}, leader epoch {one.epoch}",
                    ),
                    ("metadata", f"{_isr(state.isr)} in that partition epoch, leader epoch {state.leader_epoch}"),
                )


def _isr(members: Sequence[int]) -> str:
    return f"ISR {', '.join(map(str, members)) or 'empty'}"


def _look_at_progress(events: Iterable[TraceEvent], findings: Findings) -> None:
    """Check what never falls while a node runs: its metadata high watermark, and its epochs."""
    watermarks: dict[tuple[int, int], int] = {}
    epochs: dict[tuple[int, int, str, int], int] = {}
    for one in events:
        run = (one.node, one.incarnation)
        if one.event == "high_watermark" and not one.topic:
            if one.offset < watermarks.get(run, 0):
                _fell(
                    one, f"its high watermark of the metadata fell to {grouped(one.offset)}", watermarks[run], findings
                )
            watermarks[run] = max(one.offset, watermarks.get(run, 0))
        elif one.event == "truncate" and not one.topic and one.offset < watermarks.get(run, 0):
            _fell(one, f"cut its metadata log at {grouped(one.offset)}", watermarks[run], findings)
        elif one.event in ("state", "leader", "follower"):
            log = "" if one.event == "state" else one.topic_id
            if one.event != "state" and not log:
                continue
            key = (*run, log, one.partition)
            if one.epoch < epochs.get(key, -1):
                place = QUORUM if one.event == "state" else f"{one.topic}-{one.partition}"
                findings.accuse(
                    EPOCH_REGRESS,
                    place,
                    -1,
                    (one.host, f"went from epoch {epochs[key]} to epoch {one.epoch}, says its trace"),
                )
            epochs[key] = max(one.epoch, epochs.get(key, -1))


def _fell(one: TraceEvent, what: str, known: int, findings: Findings) -> None:
    findings.accuse(
        METADATA_REPLACED,
        QUORUM,
        one.offset,
        (one.host, what),
        (one.host, f"knew before, in the same process, that all below {grouped(known)} is committed"),
    )
