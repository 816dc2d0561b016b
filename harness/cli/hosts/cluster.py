"""The command line of the operator's tools, `squall cluster …`: arguments, calls, exit statuses.

    0    done; files are whole; moves have reached their target
    1    files have problems; moves did not reach their target within the wait
    254  bad usage, or the cluster refused or did not respond: one message says what and why

`--bootstrap host:port` names brokers of any cluster, Squall's or Kafka's; otherwise the commands use the brokers of
`--inventory` or `--lab`, of `./inventory.yaml`, or of the running lab, like other commands.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console

if TYPE_CHECKING:
    from rich.console import Console

    from squall.harness.load.tcp import TcpConnector
    from squall.harness.operator.admin_connection import AdminConnection
    from squall.harness.operator.planning import Move, Place
    from squall.harness.operator.reassigning import MoveProgress

FAILED = 1
Found = TypeVar("Found")

cluster_app = typer.Typer(
    help="Inspect a cluster (Squall's or any Kafka) and the files of its nodes; move topic-partitions.",
    epilog="Examples: squall cluster describe --bootstrap 127.0.0.1:9092 · squall cluster topics orders --lab default",
)
log_app = typer.Typer(help="Segments of topics.", epilog="Example: squall cluster log dump data/orders-0 --records")
metadata_app = typer.Typer(
    help="The metadata log.", epilog="Example: squall cluster metadata dump data/__cluster_metadata-0"
)
snapshot_app = typer.Typer(
    help="Snapshots of the metadata.",
    epilog="Example: squall cluster snapshot dump 00000000000000000042-0000000003.checkpoint",
)
cluster_app.add_typer(log_app, name="log")
cluster_app.add_typer(metadata_app, name="metadata")
cluster_app.add_typer(snapshot_app, name="snapshot")

BootstrapOption = Annotated[
    str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT,…", help="brokers to ask, of any Kafka cluster")
]
InventoryOption = Annotated[
    Path | None, typer.Option("--inventory", "-i", metavar="FILE", help="ask the brokers of this inventory")
]
LabOption = Annotated[str | None, typer.Option("--lab", metavar="NAME", help="ask the brokers of the lab of this name")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON, for programs")]
FirstOption = Annotated[int | None, typer.Option("--from", min=0, metavar="OFFSET", help="from this offset on")]
LastOption = Annotated[int | None, typer.Option("--to", min=0, metavar="OFFSET", help="up to this offset, included")]
ProblemsOption = Annotated[bool, typer.Option("--problems", help="print only problems")]


@dataclass(frozen=True)
class Target:
    """The cluster that the options name."""

    bootstrap: str | None
    inventory: Path | None
    lab: str | None

    def ask(self, work: Callable[[AdminConnection], Awaitable[Found]]) -> Found:
        """Do the work with connections to the cluster. Raises UsageError."""
        from squall.harness.operator.admin_connection import AdminConnection

        connector, addresses = self._place()

        async def run() -> Found:
            connection = AdminConnection(connector, addresses)
            try:
                return await work(connection)
            finally:
                connection.close()

        return asyncio.run(run())

    def _place(self) -> tuple[TcpConnector, tuple[tuple[str, int], ...]]:
        from squall.harness.load.tcp import TcpConnector

        if self.bootstrap is None:
            from squall.harness.hosts.ssh_access import resolve
            from squall.harness.hosts.system import BROKER_PORT
            from squall.harness.run.run_hosts import standing_hosts

            hosts = standing_hosts(self.inventory, self.lab)
            addresses = tuple((resolve(host), BROKER_PORT) for host in hosts.inventory.brokers)
            return TcpConnector(hosts.network), addresses
        if self.inventory is not None or self.lab is not None:
            other = "--inventory" if self.inventory is not None else "--lab"
            raise UsageError(f"--bootstrap and {other} name two different places", remedy="leave one of them out")
        from squall.harness.hosts.network import MachineNetwork
        from squall.harness.operator.admin_connection import parse_bootstrap

        return TcpConnector(MachineNetwork()), parse_bootstrap(self.bootstrap)


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))


# --- looking --------------------------------------------------------------------------------------------------------


@cluster_app.command(
    epilog="Examples: squall cluster describe --bootstrap 127.0.0.1:9092 · squall cluster describe --lab default --json"
)
def describe(
    bootstrap: BootstrapOption = None,
    inventory: InventoryOption = None,
    lab: LabOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a cluster's id, active controller, brokers with their replicas, and problems."""
    from squall.harness.operator.describe import describe_cluster
    from squall.harness.operator.tables import show_cluster

    facts = Target(bootstrap, inventory, lab).ask(describe_cluster)
    if as_json:
        print_json(facts.as_json())
    else:
        show_cluster(console(), facts)


@cluster_app.command(
    epilog="Examples: squall cluster topics --bootstrap 127.0.0.1:9092 · squall cluster topics orders payments --json"
)
def topics(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC…]", help="all topics by default")] = None,
    bootstrap: BootstrapOption = None,
    inventory: InventoryOption = None,
    lab: LabOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print leader, epoch, replicas, ISR, ELR, moves and offsets of every topic-partition, and its topic's configs."""
    from squall.harness.operator.describe import describe_topics
    from squall.harness.operator.facts import topic_as_json
    from squall.harness.operator.tables import show_topics

    found = Target(bootstrap, inventory, lab).ask(lambda connection: describe_topics(connection, names or ()))
    if as_json:
        print_json([topic_as_json(one) for one in found])
    elif found:
        show_topics(console(), found)
    else:
        console().print("there are no topics")


@cluster_app.command(epilog="Example: squall cluster quorum --bootstrap 127.0.0.1:9092")
def quorum(
    bootstrap: BootstrapOption = None,
    inventory: InventoryOption = None,
    lab: LabOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the metadata quorum: leader, epoch, high watermark, voters and observers with their lag."""
    from squall.harness.operator.describe import describe_quorum
    from squall.harness.operator.tables import show_quorum

    facts = Target(bootstrap, inventory, lab).ask(describe_quorum)
    if as_json:
        print_json(facts.as_json())
    else:
        show_quorum(console(), facts)


# --- moving ---------------------------------------------------------------------------------------------------------


@cluster_app.command(
    epilog="Examples: squall cluster reassign --topics orders --brokers 1,2,3 · "
    "squall cluster reassign --topics orders --brokers 1,2,3 --save plan.json · "
    "squall cluster reassign plan.json --yes --wait · squall cluster reassign --list · "
    "squall cluster reassign --cancel --topics orders"
)
def reassign(
    file: Annotated[
        Path | None, typer.Argument(metavar="[PLAN]", help="a JSON file in the format of kafka-reassign-partitions")
    ] = None,
    topics: Annotated[str | None, typer.Option(metavar="TOPIC,…", help="topics to plan for, or to cancel")] = None,
    brokers: Annotated[str | None, typer.Option(metavar="ID,…", help="brokers to plan for")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="give topic-partitions this many replicas")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the plan to this file, and do no more")
    ] = None,
    list_moves: Annotated[bool, typer.Option("--list", help="list the moves under way")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="cancel moves under way")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask for confirmation")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="wait until the moves are complete")] = False,
    seconds: Annotated[float, typer.Option("--timeout", min=1, help="wait at most this many seconds")] = 600.0,
    bootstrap: BootstrapOption = None,
    inventory: InventoryOption = None,
    lab: LabOption = None,
    as_json: JsonOption = False,
) -> int:
    """Move topic-partitions to other brokers by a new or given plan; list, cancel or wait for moves."""
    refuse_mixture(file, topics, brokers, list_moves, cancel)

    target = Target(bootstrap, inventory, lab)
    if list_moves:
        return _list(target, as_json)
    if cancel:
        return _cancel(target, file, names_of(topics), yes)
    if file is not None:
        moves, replicas = target.ask(lambda connection: _moves_of_file(connection, file))
    else:
        chosen = names_of(topics)
        moves, replicas = target.ask(
            lambda connection: _planned(connection, chosen, ids_of(brokers or ""), replication_factor)
        )
    if save is not None:
        return _save(save, replicas)
    return _carry_out(target, moves, replicas, yes=yes, wait=wait, seconds=seconds, as_json=as_json)


def refuse_mixture(file: Path | None, topics: str | None, brokers: str | None, listing: bool, cancel: bool) -> None:
    """Raise UsageError unless the options ask for exactly one action."""
    if listing and (cancel or file or topics or brokers):
        raise UsageError("--list stands alone", remedy="leave the other options out")
    if listing or cancel:
        if brokers:
            raise UsageError("--brokers has no meaning with --cancel", remedy="leave it out")
        if file and topics:
            raise UsageError(f"--cancel with {file} and --topics", remedy="give one of them, or neither to cancel all")
        return
    if file and (topics or brokers):
        raise UsageError(f"{file} is a plan; --topics and --brokers ask for another", remedy="give one or the other")
    if not file and not (topics and brokers):
        remedy = "give --topics and --brokers, a plan file, --list or --cancel; see squall cluster reassign --help"
        raise UsageError("it is not said what shall move, and to where", remedy=remedy)


def names_of(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def ids_of(text: str) -> list[int]:
    """Parse broker ids. Raises UsageError."""
    found = []
    for part in names_of(text):
        if not part.isdecimal():
            raise UsageError(f"--brokers {text}: {part!r} is not a broker id", remedy="give ids such as 1,2,3")
        found.append(int(part))
    return found


Planned = tuple[tuple["Move", ...], dict["Place", tuple[int, ...]]]
"""The moves, and the replicas that every topic-partition of the plan will have, moved or not."""


async def _planned(connection: AdminConnection, topics: list[str], brokers: list[int], factor: int | None) -> Planned:
    from squall.harness.operator.describe import chosen_topics, describe_cluster
    from squall.harness.operator.planning import plan

    facts = await describe_cluster(connection)
    racks = {one.id: one.rack for one in facts.brokers if one.host is not None}
    for broker in brokers:
        if broker not in racks:
            running = ", ".join(str(one) for one in racks)
            raise UsageError(f"--brokers: broker {broker} is not running", remedy=f"running are {running}")
    partitions = [part for topic in chosen_topics(facts.topics, topics) for part in topic.partitions]
    moves = plan(partitions, {broker: racks[broker] for broker in brokers}, replication_factor=factor)
    replicas = {(one.topic, one.partition): one.replicas for one in partitions}
    return moves, replicas | {(one.topic, one.partition): one.new for one in moves}


async def _moves_of_file(connection: AdminConnection, file: Path) -> Planned:
    from squall.harness.operator.describe import chosen_topics, describe_cluster
    from squall.harness.operator.planning import Move, load_plan

    targets = load_plan(file)
    facts = await describe_cluster(connection)
    known: dict[tuple[str, int], tuple[int, ...]] = {
        (part.topic, part.partition): part.replicas
        for topic in chosen_topics(facts.topics, [topic for topic, _ in targets])
        for part in topic.partitions
    }
    for topic, partition in targets:
        if (topic, partition) not in known:
            count = sum(name == topic for name, _ in known)
            said = f"{file}: {topic} has no topic-partition {partition}"
            raise UsageError(said, remedy=f"it has {count}, from 0")
    moves = [Move(*place, known[place], new) for place, new in sorted(targets.items()) if known[place] != new]
    return tuple(moves), targets


def _save(file: Path, replicas: dict[Place, tuple[int, ...]]) -> int:
    from squall.harness.operator.planning import plan_as_json
    from squall.harness.operator.tables import labelled

    try:
        file.write_text(plan_as_json(replicas), encoding="utf-8")
    except OSError as trouble:
        raise UsageError(f"--save {file}: {trouble.strerror or trouble}") from trouble
    labelled(console(), "plan", f"kept in {file}; carry it out: squall cluster reassign {file}")
    return 0


def _carry_out(
    target: Target,
    moves: tuple[Move, ...],
    replicas: dict[Place, tuple[int, ...]],
    *,
    yes: bool,
    wait: bool,
    seconds: float,
    as_json: bool,
) -> int:
    from squall.harness.operator.reassigning import begin
    from squall.harness.operator.tables import labelled, show_plan

    out = console()
    if as_json:
        print_json([{"topic": m.topic, "partition": m.partition, "old": m.old, "new": m.new} for m in moves])
    elif not moves:
        labelled(out, "plan", "nothing to move: every topic-partition is where it shall be")
    else:
        leaders = Counter(chosen[0] for chosen in replicas.values())
        hosted = Counter(broker for chosen in replicas.values() for broker in chosen)
        show_plan(out, moves, dict(leaders), dict(sorted(hosted.items())))
    if not moves:
        return 0
    confirm(f"move {len(moves)} topic-partitions", yes)
    targets = {(one.topic, one.partition): one.new for one in moves}
    target.ask(lambda connection: begin(connection, targets))
    if not as_json:
        labelled(out, "reassign", f"{len(moves)} moves have begun" + ("" if wait else "; see them: --list"))
    return _wait(target, targets, seconds, quiet=as_json) if wait else 0


def confirm(what: str, yes: bool) -> None:
    """Ask a person for confirmation. Raises UsageError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"no terminal to confirm on: {what}", remedy="give --yes")
    typer.confirm(f"{what}?", abort=True)


def _wait(target: Target, targets: dict[Place, tuple[int, ...]], seconds: float, *, quiet: bool) -> int:
    from squall.harness.operator.reassigning import missed, wait
    from squall.harness.operator.tables import ids, labelled

    out = console()

    async def look_on(connection: AdminConnection) -> tuple[bool, dict[Place, tuple[int, ...]]]:
        with ProgressLine(out, quiet) as line:
            over = await wait(connection, targets, seconds, line.tell)
        return over, (await missed(connection, targets) if over else {})

    over, wrong = target.ask(look_on)
    if not over:
        labelled(out, "reassign", f"✘ not over after {seconds:g} s; it goes on: squall cluster reassign --list")
        return FAILED
    for (topic, partition), replicas in wrong.items():
        aim = ids(targets[(topic, partition)])
        labelled(out, "reassign", f"✘ {topic}-{partition} has replicas {ids(replicas)}, not {aim}: cancelled?")
    if not wrong and not quiet:
        labelled(out, "reassign", f"✔ {len(targets)} topic-partitions are where they shall be")
    return FAILED if wrong else 0


class ProgressLine:
    """A bar on a terminal; elsewhere a line for every change."""

    def __init__(self, out: Console, quiet: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar

        self.out = out
        self.quiet = quiet
        self.told: MoveProgress | None = None
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.bar = Bar(*columns, console=out) if out.is_terminal and not quiet else None
        self.task = self.bar.add_task("reassign", total=None) if self.bar is not None else None

    def __enter__(self) -> ProgressLine:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def tell(self, now: MoveProgress) -> None:
        from squall.harness.operator.tables import labelled

        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, total=now.total, completed=now.done)
        elif not self.quiet and now != self.told:
            catching_up = f", {now.replicas_to_add} replicas catch up" if now.replicas_to_add else ""
            labelled(self.out, "reassign", f"{now.done} of {now.total} moves are over{catching_up}")
        self.told = now


def _list(target: Target, as_json: bool) -> int:
    from dataclasses import asdict

    from squall.harness.operator.describe import ongoing_moves
    from squall.harness.operator.tables import show_moves

    moves = target.ask(lambda connection: ongoing_moves(connection, required=True))
    if as_json:
        print_json([asdict(one) for one in moves])
    else:
        show_moves(console(), moves)
    return 0


def _cancel(target: Target, file: Path | None, topics: list[str], yes: bool) -> int:
    from squall.harness.operator.describe import ongoing_moves
    from squall.harness.operator.planning import load_plan
    from squall.harness.operator.reassigning import cancel
    from squall.harness.operator.tables import labelled, show_moves

    places = set(load_plan(file)) if file is not None else None
    moves = target.ask(lambda connection: ongoing_moves(connection, required=True))
    chosen = [
        one
        for one in moves
        if (places is None or (one.topic, one.partition) in places) and (not topics or one.topic in topics)
    ]
    out = console()
    show_moves(out, chosen)
    if not chosen:
        return 0
    confirm(f"cancel {len(chosen)} moves", yes)
    count = target.ask(lambda connection: cancel(connection, [(one.topic, one.partition) for one in chosen]))
    labelled(out, "reassign", f"{count} moves are cancelled")
    return 0


# --- files ----------------------------------------------------------------------------------------------------------


@log_app.command(
    "dump",
    epilog="Examples: squall cluster log dump data/orders-0 · "
    "squall cluster log dump data/orders-0/00000000000000000000.log --records --from 120 --to 140 · "
    "squall cluster log dump data --problems. Exit status: 0 no problems, 1 problems found.",
)
def log_dump(
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="a segment, a log's directory, a data directory")],
    records: Annotated[bool, typer.Option("--records", help="print records, too")] = False,
    first: FirstOption = None,
    last: LastOption = None,
    problems: ProblemsOption = False,
    as_json: JsonOption = False,
) -> int:
    """Print and verify the batches of segments: checksums, offsets, epochs, indexes. Needs no running node."""
    from squall.harness.operator.dump import DumpOptions, dump_log

    options = DumpOptions(records=records, as_json=as_json, only_problems=problems, first=first, last=last)
    return dump_log(path, options, typer.echo)


@metadata_app.command(
    "dump",
    epilog="Examples: squall cluster metadata dump data/__cluster_metadata-0 · "
    "squall cluster metadata dump data --type PartitionChangeRecord --from 100. "
    "Exit status: 0 no problems, 1 problems found.",
)
def metadata_dump(
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="a segment, or the directory of the metadata log")],
    names: Annotated[
        list[str] | None, typer.Option("--type", metavar="NAME", help="only records of this name; may be given again")
    ] = None,
    first: FirstOption = None,
    last: LastOption = None,
    problems: ProblemsOption = False,
    as_json: JsonOption = False,
) -> int:
    """Print and verify the records of the metadata log, by name and fields. Needs no running node."""
    from squall.harness.operator.dump import DumpOptions, dump_metadata

    chosen = known_names(names)
    options = DumpOptions(as_json=as_json, only_problems=problems, first=first, last=last, names=chosen)
    return dump_metadata(path, options, typer.echo)


@snapshot_app.command(
    "dump",
    epilog="Example: squall cluster snapshot dump data/__cluster_metadata-0 --type TopicRecord. "
    "Exit status: 0 no problems, 1 problems found.",
)
def snapshot_dump(
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="a *.checkpoint file, or a directory of them")],
    names: Annotated[
        list[str] | None, typer.Option("--type", metavar="NAME", help="only records of this name; may be given again")
    ] = None,
    problems: ProblemsOption = False,
    as_json: JsonOption = False,
) -> int:
    """Print and verify the records of snapshots, from header to footer. Needs no running node."""
    from squall.harness.operator.dump import DumpOptions, dump_snapshot

    options = DumpOptions(as_json=as_json, only_problems=problems, names=known_names(names))
    return dump_snapshot(path, options, typer.echo)


def known_names(names: list[str] | None) -> tuple[str, ...]:
    """Return the names. Raises UsageError for a name that no record has."""
    from squall.harness.operator.metadata_content import record_names
    from squall.harness.yaml_source import suggestion

    known = record_names()
    for name in names or ():
        if name not in known:
            raise UsageError(f"--type {name}: there is no such record{suggestion(name, known)}")
    return tuple(names or ())
