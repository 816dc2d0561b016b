"""Run a night from its plan to its end: preflight, guard, provisioning, items, teardown, outputs.

    plan → preflight → guard → provision → items on clusters → teardown → outputs

A night is a directory. The command that began it goes on with it after an interruption: attempts that were under way
are ended and run again, hosts are torn down and provisioned anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from squall.harness.errors import UsageError
from squall.harness.lake.adding import add_entry
from squall.harness.nightly import guard as guards
from squall.harness.nightly.attempts import ProcessRunner, Settings
from squall.harness.nightly.conduct import Cluster, Conductor, Stopwatch
from squall.harness.nightly.hooks import Guard, rounds_of, run_hook, torn_down
from squall.harness.nightly.ledger.items import Item
from squall.harness.nightly.ledger.ledger import (
    LEDGER,
    Finished,
    Ledger,
    Note,
    Omission,
    Planned,
    Provisioned,
    read_ledger,
    session,
)
from squall.harness.nightly.ledger.night_state import NightState, fold
from squall.harness.nightly.lost_hosts import LostHosts, await_hosts
from squall.harness.nightly.night_row import night_entry
from squall.harness.nightly.outputs import SUMMARY, Outputs
from squall.harness.nightly.plan.night_file import Hooks, NightFile, World, items_of, load_night
from squall.harness.nightly.plan.past import known_runs, past_of
from squall.harness.nightly.plan.planning import Budget, Candidate, choose
from squall.harness.nightly.plan.sharding import distributed, fingerprint_of
from squall.harness.nightly.preflight import Needs, preflight
from squall.harness.nightly.provisioned import read_provisioned
from squall.harness.nightly.results.night_report import NightView
from squall.harness.nightly.results.trimming import trim
from squall.harness.scenario.inventory import load_inventory
from squall.harness.scenario.suite import Suite
from squall.results.checkers.common.text import several
from squall.results.history.whole_file import write_whole
from squall.results.trends.quarantine import Quarantine, quarantine_of

INVENTORY, FOREIGN = "inventory.yaml", "provisioned.json"
BOOT_SECONDS: Final = 300.0
HOOK_SHARE: Final = 60.0
"""How much of a budget is kept back for each hook of provisioning."""
LONGEST_S: Final = 86_400.0
SHARED_WAIT_S: Final = 600.0

OPTIONS: Final = {
    "budget_s": "--budget",
    "money": "--max-cost",
    "hook_timeout_s": "--hook-timeout",
    "deadline_s": "--deadline",
    "runs": "--runs-dir",
    "clusters": "--clusters or --inventory",
}
"""The options of the command line that have another name than the field of `NightOptions`."""

Say = Callable[[str], None]


class NightOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a night; what is not given here is as its file says."""

    suite: str
    command: str = ""
    directory: str = ""
    """The current directory, in which suites are named."""
    seed: int = 1
    world: World | None = None
    system: str | None = None
    """The system that scenarios test instead of the one that they name, as on a command line."""
    clusters: tuple[str, ...] = ()
    lab: str | None = None
    budget_s: float | None = None
    money: float | None = None
    price_per_hour: float | None = None
    provision: str | None = None
    teardown: str | None = None
    gone: str | None = None
    webhook: str | None = None
    hook_timeout_s: float | None = None
    deadline_s: float | None = None
    shard: str | None = None
    repeat: int | None = None
    retry: int | None = None
    fail_fast: bool = False
    keep_all: bool = False
    nights: str = "runs/nights"
    runs: str = "runs"
    lake: str | None = None
    junit: str | None = None
    wait: float | None = None
    in_process: bool = False
    spark_master: str | None = None
    processes: int | None = None

    @property
    def key(self) -> str:
        """Equal for nights of the same suite, world, system and shard, which go on with each other."""
        return json.dumps([self.directory, self.suite, self.world, self.system, self.shard])

    def load(self) -> tuple[NightFile, list[Suite]]:
        """Load the night's file and suites. Raises UsageError."""
        return load_night(self.suite, self.system)

    def hooks(self, file: NightFile) -> Hooks:
        """The hooks, those of the command line before those of the file."""
        own = file.commands()
        return Hooks(
            own.provision if self.provision is None else self.provision,
            own.teardown if self.teardown is None else self.teardown,
            own.gone if self.gone is None else self.gone,
            own.webhook if self.webhook is None else self.webhook,
            own.timeout_s if self.hook_timeout_s is None else self.hook_timeout_s,
        )

    def budget(self, file: NightFile, provisions: bool) -> Budget:
        """The budget, that of the command line before that of the file."""
        return Budget(
            seconds=file.budget.time if self.budget_s is None else self.budget_s,
            money=file.budget.money if self.money is None else self.money,
            price_per_hour=file.price_per_hour if self.price_per_hour is None else self.price_per_hour,
            reserve_s=2 * HOOK_SHARE if provisions else 0.0,
        )

    def places(self, file: NightFile) -> list[Cluster]:
        """The clusters. Raises UsageError."""
        if self.lab is not None:
            return [Cluster(f"lab {self.lab}", lab=self.lab)]
        return clusters_of(self.clusters or file.clusters, Path(self.directory))


def clusters_of(names: Sequence[str], directory: Path) -> list[Cluster]:
    """Return the clusters: inventories, `lab:NAME`, or a number of places without hosts of their own."""
    if len(names) == 1 and names[0].isdecimal() and int(names[0]) > 0:
        return [Cluster(f"place {number}") for number in range(1, int(names[0]) + 1)]
    found = []
    for name in names:
        if name.startswith("lab:"):
            found.append(Cluster(f"lab {name.removeprefix('lab:')}", lab=name.removeprefix("lab:")))
        else:
            path = directory / name
            load_inventory(path)
            found.append(Cluster(name, inventory=path))
    if len({one.name for one in found}) < len(found):
        raise UsageError(f"--clusters {','.join(names)}: names one twice", remedy="name each once")
    return found or [Cluster("this machine")]


# -- planning ---------------------------------------------------------------------------------------------------------


def plan_night(options: NightOptions, *, again: Sequence[Item] = (), today: date | None = None) -> Planned:
    """Return the plan of a new night, of all items or of those to run `again`. Raises UsageError."""
    today = today or datetime.now(UTC).date()
    file, suites = options.load()
    world = options.world or file.world
    repeat = options.repeat or file.repeat
    items, impossible = items_of(file, suites, seed=options.seed, world=world, repeat=repeat)
    if again:
        items, impossible = list(again), []
    runs = known_runs(None if options.lake is None else Path(options.lake), Path(options.nights), today)
    candidates = [Candidate(one, past_of(one, runs, today)) for one in items]
    shard = ""
    if options.shard is not None:
        number, total = map(int, options.shard.split("/"))
        shares = distributed({one.item.id: one.seconds for one in candidates}, total)
        candidates = [one for one in candidates if one.item.id in shares[number - 1]]
        shard = f"{options.shard} of distribution {fingerprint_of(shares)}"
    budget = options.budget(file, bool(options.hooks(file).provision))
    if budget.money is not None and not budget.price_per_hour and not options.hooks(file).provision:
        raise UsageError("--max-cost limits a night that has no price", remedy="--price-per-hour, or leave it out")
    plan = choose(candidates, budget, len(options.places(file)))
    omitted = tuple(
        Omission(item=Item(id=name, kind="scenario", name=name), seconds=0.0, value=0.0, why=why)
        for name, why in impossible
    )
    stamp = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    part = "" if options.shard is None else f"-shard-{options.shard.replace('/', '-of-')}"
    return Planned(
        night=f"{file.night}{part}-{stamp}",
        key=options.key,
        suite=options.suite,
        command=options.command,
        chosen=plan.chosen,
        left_out=(*plan.left_out, *omitted),
        shard=shard,
        budget_s=budget.limit_s,
        retries=file.retry if options.retry is None else options.retry,
        options=msgspec.to_builtins(options),
    )


def print_plan(options: NightOptions, plan: Planned, say: Say) -> None:
    """Print what would be run, in order, and what not, with time and cost."""
    file, _ = options.load()
    places = options.places(file)
    budget = options.budget(file, bool(options.hooks(file).provision))
    seconds = choose(
        [Candidate(msgspec.structs.replace(one.item, usual_s=one.seconds)) for one in plan.chosen],
        Budget(reserve_s=budget.reserve_s),
        len(places),
    ).seconds if plan.chosen else budget.reserve_s  # fmt: skip
    for one in plan.chosen:
        about = f"about {one.seconds:>5.0f} s   value {one.value:.1f}: {one.why}"
        say(f"{'run':<11}{one.item.id:<44} seed {one.item.seed:<6} {about}")
    for other in plan.left_out:
        say(f"{'left out':<11}{other.item.id:<44} {other.why}")
    limit = "" if plan.budget_s is None else f" of {plan.budget_s / 60:.0f} min"
    price = f", about {budget.cost(seconds):.2f} at {budget.price_per_hour:g} an hour" if budget.price_per_hour else ""
    where = ", ".join(one.name for one in places)
    say(f"{'plan':<11}{several(len(plan.chosen), 'item')} on {where}: about {seconds / 60:.1f} min{limit}{price}")


def night_to_resume(nights: Path, key: str | None) -> Path | None:
    """Return the newest night with this key, or of all, if it has not finished. Raises UsageError, OSError."""
    for ledger in sorted(nights.glob(f"*/{LEDGER}"), key=lambda path: path.stat().st_mtime, reverse=True):
        events = read_ledger(ledger.parent)
        if events and isinstance(events[0], Planned) and key in (None, events[0].key):
            return None if fold(events).finished is not None else ledger.parent
    return None


def options_that_differ(begun: NightOptions, given: NightOptions, *, seeded: bool) -> list[str]:
    """Return the command-line options of `given` that a night does not have that goes on as it was begun.

    Left out are options that were not given, the seed unless `seeded`, and what tells nights apart or may change.
    """
    here = Path(given.directory)
    unmoved = NightOptions(suite=given.suite, runs=str(here / "runs"), lake=str(here / "runs" / "lake"))
    may_change = {"suite", "command", "directory", "world", "system", "shard", "nights", "junit"}
    if not seeded:
        may_change.add("seed")
    return [
        OPTIONS.get(name, f"--{name.replace('_', '-')}")
        for name in NightOptions.__struct_fields__
        if name not in may_change and getattr(given, name) not in (getattr(begun, name), getattr(unmoved, name))
    ]


def items_that_failed(nights: Path, key: str) -> list[Item]:
    """Return the items of the newest night with this key that did not end as expected. Raises UsageError."""
    for ledger in sorted(nights.glob(f"*/{LEDGER}"), key=lambda path: path.stat().st_mtime, reverse=True):
        events = read_ledger(ledger.parent)
        if events and isinstance(events[0], Planned) and events[0].key == key:
            return [one.item for one in fold(events).items.values() if not one.as_expected and not one.over_budget]
    raise UsageError(f"--rerun-failed: no night of this suite is in {nights}", remedy="run one first")


# -- running ----------------------------------------------------------------------------------------------------------


class Night:
    """A night under way, in its directory."""

    def __init__(self, directory: Path, options: NightOptions, say: Say) -> None:
        self.directory = directory
        self.options = options
        self.say = say
        self.file, suites = options.load()
        items, impossible = items_of(self.file, suites, seed=options.seed, world=options.world or self.file.world)
        self.names = {one.name for one in items} | {name for name, _ in impossible}
        self.hooks = options.hooks(self.file)
        self.price = options.budget(self.file, False).price_per_hour
        self.outputs = Outputs(directory, self.hooks, None if options.junit is None else Path(options.junit))
        self.environment = {"SQUALL_NIGHT": directory.name, "SQUALL_NIGHT_DIR": str(directory.resolve())}
        self.trimmed: set[str] = set()

    @property
    def wait(self) -> float | None:
        """How long attempts wait for hosts in use. Places that share this machine may want one lab at once."""
        shared = len(self.options.places(self.file)) > 1
        return SHARED_WAIT_S if self.options.wait is None and shared else self.options.wait

    def run(self, plan: Planned | None) -> int:
        """Begin the night with a plan, or go on with it. Return the exit status. Raises UsageError."""
        with Ledger(self.directory, self.options.command) as ledger:
            if plan is not None:
                ledger.write(plan)
            state = fold(ledger.events)
            self._end_what_was_left(ledger, state)
            ledger.write(session())
            watch = Stopwatch.begun(state.plan.budget_s, state.spent_s)
            interrupted = True
            try:
                self._on_hosts(ledger, watch)
                interrupted = False
            except (KeyboardInterrupt, asyncio.CancelledError):
                raise KeyboardInterrupt from None
            except UsageError as trouble:
                ledger.write(Note(text=str(trouble)))
                raise
            finally:
                status = None if interrupted else self._status(fold(ledger.events))
                if status is not None:
                    ledger.write(Finished(status=status))
                view = self._view(fold(ledger.events), status)
                self._write(view)
                self.outputs.publish(view, self.say)
            return self._tell_end(view)

    def _write(self, view: NightView) -> None:
        """Write the outputs, and the night's row in the lake. Raises OSError."""
        self.outputs.write(view)
        if self.options.lake is not None:
            add_entry(night_entry(view), Path(self.options.lake), self.say)

    def _status(self, state: NightState) -> int:
        quarantine = self._quarantine()
        return state.status(lambda name, ending: quarantine.excuses(name, ending), quarantine.problems)  # type: ignore[arg-type]

    def _quarantine(self) -> Quarantine:
        """Return the quarantine of today. Items of other shards exist as well."""
        return quarantine_of(self.file.entries(), self.names, datetime.now(UTC).date())

    def _view(self, state: NightState, status: int | None) -> NightView:
        quarantine = self._quarantine()
        excused = frozenset(
            one.item.id
            for one in state.items.values()
            if one.last is not None
            and not one.as_expected
            and quarantine.excuses(one.item.name, one.last.outcome.ending)  # type: ignore[arg-type]
        )
        return NightView(
            state=state,
            now=time.time(),
            status=status,
            cost=round(state.spent_s * self.price / 3600, 2) if self.price else None,
            excused=excused,
            problems=quarantine.problems,
            classname=self.file.night,
        )

    def _tell_end(self, view: NightView) -> int:
        assert view.status is not None
        for omitted in view.state.left_out:
            self.say(f"{'left out':<11}{omitted.item.id}: {omitted.why}")
        for problem in view.problems:
            self.say(f"{'quarantine':<11}{problem}")
        summary = self.directory / SUMMARY
        self.say(f"{'night':<11}{summary.read_text().splitlines()[2]}   exit {view.status}   {self.directory}")
        return view.status

    # -- after an interruption ----------------------------------------------------------------------------------------

    def _end_what_was_left(self, ledger: Ledger, state: NightState) -> None:
        """End attempts of an earlier session, and tear down what it has provisioned."""
        for one in state.items.values():
            if one.open is not None:
                guards.end_process(one.open.pid, one.open.pid_started, group=True)
                self.say(f"{'again':<11}{one.item.id}: attempt {one.open.attempt} was interrupted")
        done = {one.round for one in state.torn_down}
        for folder in rounds_of(self.directory):
            if int(folder.name.partition("-")[2]) not in done:
                ended = torn_down(folder)
                ledger.write(ended)
                self.say(f"{'teardown':<11}of the interrupted session: {ended.problem or 'done'}")

    # -- hosts --------------------------------------------------------------------------------------------------------

    def _on_hosts(self, ledger: Ledger, watch: Stopwatch) -> None:
        """Provide hosts, run the items on them, and tear down."""
        if not fold(ledger.events).due:
            return
        if not self.hooks.teardown:
            self._conduct(ledger, self.options.places(self.file), watch)
            return
        number = len(rounds_of(self.directory)) + 1
        inventory = self.directory / f"round-{number}" / INVENTORY
        environment = {**self.environment, "SQUALL_INVENTORY": str(inventory.resolve())}
        guard = Guard.arm(self.directory, number, self.hooks, environment, self._deadline_s(watch))
        try:
            clusters = self._provision(ledger, number, environment, inventory)
            budget = Budget(money=self.options.budget(self.file, False).money, price_per_hour=self.price)
            self._conduct(ledger, clusters, watch.limited_to(budget.limit_s).without(HOOK_SHARE))
        finally:
            self.say(f"{'teardown':<11}{self.hooks.teardown}")
            ended = _undisturbed(guard.end)
            ledger.write(ended)
            if ended.problem:
                self.say(f"{'teardown':<11}{ended.problem}")

    def _deadline_s(self, watch: Stopwatch) -> float:
        """Return after how long the guard ends the night and tears down."""
        if self.options.deadline_s is not None:
            return self.options.deadline_s
        left = watch.left_s()
        return LONGEST_S if left is None else 2 * max(left, 0.0) + 1800 + 2 * self.hooks.timeout_s

    def _provision(self, ledger: Ledger, number: int, environment: dict[str, str], inventory: Path) -> list[Cluster]:
        """Run the provision hook. Return its cluster, or the night's own if it prints no inventory."""
        if not self.hooks.provision:
            return self.options.places(self.file)
        folder, began = inventory.parent, time.monotonic()
        self.say(f"{'provision':<11}{self.hooks.provision}")
        said = run_hook(
            "--provision", self.hooks.provision, environment=environment, timeout_s=self.hooks.timeout_s,
            log=folder / "provision.log", leader=folder / guards.PROVISION,
        )  # fmt: skip
        made = read_provisioned(said, "--provision")
        if made is None:
            ledger.write(Provisioned(round=number, seconds=round(time.monotonic() - began, 1)))
            return self.options.places(self.file)
        write_whole(inventory, json.dumps(made.document, indent=2))
        write_whole(folder / FOREIGN, json.dumps({"foreign": made.foreign, "notices": made.notices}, indent=2))
        hosts = load_inventory(inventory).hosts
        for notice in made.notices:
            self.say(f"{'notice':<11}{notice}")
        if made.price_per_hour is not None and self.options.price_per_hour is None:
            self.price = made.price_per_hour
        seconds = round(time.monotonic() - began, 1)
        ledger.write(Provisioned(round=number, seconds=seconds, hosts=len(hosts), notices=tuple(made.notices)))
        asyncio.run(await_hosts(inventory, BOOT_SECONDS))
        clusters = [Cluster("provisioned", inventory=inventory)]
        preflight(self.needs([one.item for one in fold(ledger.events).due], clusters), self.say)
        return clusters

    def needs(self, items: Sequence[Item], clusters: Sequence[Cluster]) -> Needs:
        """Return what the night needs for these items."""
        one = self.options
        return Needs(
            items=items, clusters=clusters, hooks=self.hooks, runs=Path(one.runs), night=self.directory.parent,
            lake=None if one.lake is None else Path(one.lake), in_process=one.in_process,
            spark_master=one.spark_master, waits=one.wait is not None,
        )  # fmt: skip

    # -- items --------------------------------------------------------------------------------------------------------

    def _conduct(self, ledger: Ledger, clusters: Sequence[Cluster], watch: Stopwatch) -> None:
        asyncio.run(self._conducted(ledger, clusters, watch))

    async def _conducted(self, ledger: Ledger, clusters: Sequence[Cluster], watch: Stopwatch) -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        one = self.options
        settings = Settings(
            directory=self.directory, night=self.directory.name, runs=Path(one.runs),
            lake=None if one.lake is None else Path(one.lake), environment=self.environment, wait=self.wait,
            in_process=one.in_process, spark_master=one.spark_master, processes=one.processes, cwd=one.directory,
        )  # fmt: skip
        conductor = Conductor(
            ledger,
            clusters,
            ProcessRunner(settings),
            LostHosts(self.directory, self.hooks, self.environment),
            watch.left_s,
            self.say,
            self._changed,
            fail_fast=one.fail_fast,
        )
        await conductor.run()

    def _changed(self, state: NightState) -> None:
        """After each attempt: write the outputs, and trim what passed."""
        self._write(self._view(state, None))
        if self.options.keep_all:
            return
        for one in state.items.values():
            if one.as_expected and one.item.id not in self.trimmed:
                self.trimmed.add(one.item.id)
                for ended in one.ended:
                    if ended.as_expected and ended.outcome.directory:
                        trim(Path(ended.outcome.directory), whole=one.item.kind == "simulation")


def _undisturbed(work: Callable[[], Any]) -> Any:
    """Do something without being interrupted by Ctrl-C or SIGTERM: a teardown is waited for."""
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return work()
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def describe_unfinished(night: Path) -> str:
    """Say what is left of a night that is resumed."""
    state = fold(read_ledger(night))
    ended = sum(bool(one.ended) for one in state.items.values())
    return f"{night}: {ended} of {len(state.items)} items had ended, {len(state.due)} are to be run"
