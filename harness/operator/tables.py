"""Render facts as tables: one row per broker, topic-partition, voter, move; wide rather than wrapped."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from squall.harness.operator.facts import ClusterFacts, OngoingMove, QuorumFacts, QuorumMember, TopicFacts
from squall.harness.operator.planning import Move
from squall.harness.terminal.display import LABEL_WIDTH, grouped

NOTHING = "-"


def labelled(out: Console, label: str, text: object) -> None:
    out.print(f"{label:<{LABEL_WIDTH}} {text}", markup=False)


def table(out: Console, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns of text, numbers right-aligned."""
    made = Table(box=None, pad_edge=False)
    shown = [[NOTHING if cell is None else str(cell) for cell in row] for row in rows]
    for column, heading in enumerate(headings):
        right = bool(shown) and all(row[column].replace(" ", "").lstrip("-").isdecimal() for row in shown)
        made.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for row in shown:
        made.add_row(*row)
    out.print(made)


def ids(replicas: Iterable[int] | None) -> str | None:
    """Format `1,2,3`; `-` for none; None if unknown."""
    return None if replicas is None else ",".join(str(one) for one in replicas) or NOTHING


def show_cluster(out: Console, facts: ClusterFacts) -> None:
    labelled(out, "cluster", facts.cluster_id)
    epoch = "" if facts.controller_epoch is None else f", epoch {facts.controller_epoch}"
    labelled(out, "controller", "none" if facts.controller is None else f"{facts.controller}{epoch}")
    labelled(out, "topics", f"{grouped(len(facts.topics))} of {grouped(len(facts.partitions))} topic-partitions")
    labelled(out, "health", health(facts))
    out.print()
    table(
        out,
        ("broker", "state", "address", "rack", "replicas", "out of sync", "leaders"),
        [
            (
                one.id,
                one.state,
                None if one.host is None else f"{one.host}:{one.port}",
                one.rack,
                one.partitions,
                one.out_of_sync,
                one.leaders,
            )
            for one in facts.brokers
        ],
    )


def health(facts: ClusterFacts) -> str:
    """Return `✔ all in sync`, or what is not."""
    behind, offline = len(facts.under_replicated), len(facts.offline)
    if not behind and not offline:
        return "✔ every topic-partition has a leader and all of its replicas in sync"
    return f"✘ {grouped(behind)} under-replicated, {grouped(offline)} offline"


def show_topics(out: Console, topics: Sequence[TopicFacts]) -> None:
    for number, topic in enumerate(topics):
        if number:
            out.print()
        labelled(out, "topic", f"{topic.name}  {topic.topic_id}")
        configs = " ".join(f"{name}={'(hidden)' if value is None else value}" for name, value in topic.configs.items())
        labelled(out, "configs", configs or NOTHING)
        moving = any(one.adding_replicas or one.removing_replicas for one in topic.partitions)
        headings = ["partition", "leader", "epoch", "replicas", "ISR", "ELR", "last known ELR"]
        headings += ["adding", "removing"] if moving else []
        rows: list[list[object]] = []
        for one in topic.partitions:
            row: list[object] = [one.partition, one.leader, one.leader_epoch, ids(one.replicas), ids(one.isr)]
            row += [ids(one.elr), ids(one.last_known_elr)]
            row += [ids(one.adding_replicas), ids(one.removing_replicas)] if moving else []
            rows.append([*row, one.start_offset, one.end_offset])
        table(out, [*headings, "start", "end"], rows)


def show_quorum(out: Console, facts: QuorumFacts) -> None:
    labelled(out, "leader", f"{facts.leader}, epoch {facts.leader_epoch}")
    labelled(out, "committed", f"up to offset {facts.high_watermark} (high watermark)")
    out.print()
    members = [("voter", one) for one in facts.voters] + [("observer", one) for one in facts.observers]
    headings = ("node", "is", "log end", "lag", "last fetch", "last caught up", "directory")
    table(out, headings, [_member(kind, one) for kind, one in members])


def _member(kind: str, one: QuorumMember) -> list[object]:
    times = (moment(one.last_fetch_timestamp), moment(one.last_caught_up_timestamp))
    return [one.id, kind, one.log_end_offset, one.lag, *times, one.directory_id]


def moment(milliseconds: int | None) -> str | None:
    """Format a time of day in UTC, `10:02:41.250`."""
    if milliseconds is None:
        return None
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).strftime("%H:%M:%S.%f")[:-3]


def show_plan(out: Console, moves: Sequence[Move], leaders: dict[int, int], replicas: dict[int, int]) -> None:
    """Print the moves, and what each broker will have of the topics concerned."""
    headings = ("topic-partition", "replicas now", "then", "copies to", "leaves")
    rows = [
        (f"{one.topic}-{one.partition}", ids(one.old), ids(one.new), ids(one.adding), ids(one.removing))
        for one in moves
    ]
    table(out, headings, rows)
    out.print()
    table(out, ("broker", "replicas", "preferred leaders"), [(b, replicas[b], leaders.get(b, 0)) for b in replicas])


def show_moves(out: Console, moves: Sequence[OngoingMove]) -> None:
    if not moves:
        out.print("no topic-partition is being moved")
        return
    headings = ("topic-partition", "replicas", "adding", "removing", "will be")
    table(
        out,
        headings,
        [
            (
                f"{one.topic}-{one.partition}",
                ids(one.replicas),
                ids(one.adding_replicas),
                ids(one.removing_replicas),
                ids(one.target),
            )
            for one in moves
        ],
    )
