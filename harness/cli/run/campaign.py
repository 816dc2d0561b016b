"""`squall run`: run and judge every scenario of a suite in turn, with one exit status for all.

A suite exits 0 when every verdict and its anomalies are as the scenario expects, 1 on an unexpected violation or a
missed one, 254 if a scenario was refused, 2 on an unexpected unknown. The same holds for a scenario that runs alone. A
refused scenario (a fault that no host offers, a missing target, a host that cannot take part) is listed in the summary
with the reason, and the others run. If the suite is interrupted, the summary lists what has ended.

`suite.json` beside the runs says the same to programs. It is written anew with each outcome, so that it exists after an
interruption and after a `kill -9`; `--junit` writes JUnit XML at the same moments.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from squall.harness.cli.run.check import Judge
from squall.harness.errors import USAGE_EXIT_STATUS, UsageError, file_problem
from squall.harness.hosts.host_locks import HostLocks, HostsInUse
from squall.harness.hosts.ssh_access import SshError
from squall.harness.hosts.system import FetchedSystem, system_of
from squall.harness.lake.runs import add_to_lake
from squall.harness.nightly.results.suite_report import SUITE_JSON, SuiteReport, SuiteRun
from squall.harness.run.run import ScenarioRun
from squall.harness.run.run_hosts import hosts_of
from squall.harness.scenario.inventory import Inventory
from squall.harness.scenario.plan import Refused, RunPlan, planned
from squall.harness.scenario.suite import Suite
from squall.harness.scenario.targets import Anywhere, OwnLab, Place
from squall.harness.terminal.display import CHECK, CROSS, Display
from squall.harness.terminal.live_page import LiveDisplay
from squall.harness.terminal.paths import shown_path
from squall.harness.timeline.timeline import save_timeline
from squall.results.checkers.common.text import listed
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.store import claim_run
from squall.results.history.whole_file import write_whole
from squall.results.verdict.verdict import Verdict


@dataclass(frozen=True)
class Outcome:
    """One run of a suite: judged, or refused with the reason (`problem`)."""

    scenario: str
    seed: int
    expected: str
    verdict: Verdict | None = None
    problem: str = ""
    machine: bool = False
    """Whether it was refused because hosts are in use or cannot be reached."""
    directory: str = ""
    seconds: float = 0.0
    repeat: str = ""

    @classmethod
    def of(cls, plan: RunPlan, verdict: Verdict | None, problem: str = "") -> Outcome:
        return cls(plan.name, plan.seed, str(plan.scenario.expect), verdict, problem, repeat=plan.command())

    @property
    def as_expected(self) -> bool:
        return self.verdict is not None and self.verdict.as_expected

    def reported(self) -> SuiteRun:
        """Return it as `suite.json` has it."""
        judged = self.verdict
        found = (
            []
            if judged is None
            else [*(one.title for one in judged.witnesses), *(one.title for one in judged.further_witnesses)]
        )
        return SuiteRun(
            scenario=self.scenario,
            seed=self.seed,
            expected=self.expected,
            verdict=None if judged is None else judged.verdict,
            as_expected=self.as_expected,
            refused=judged is None,
            machine=self.machine,
            anomalies=() if judged is None else tuple(one.name for one in judged.anomalies),
            problem=self.problem if judged is None else "; ".join([*found[:1], *judged.reasons]),
            directory=self.directory,
            seconds=self.seconds,
            repeat=self.repeat,
        )

    def line(self) -> str:
        """Return its line of the summary."""
        line = f"{CHECK if self.as_expected else CROSS} {self.scenario:<44} seed {self.seed:<6} "
        if self.verdict is None:
            return f"{line}refused: {self.problem.splitlines()[0]}"
        line += self.verdict.verdict
        anomalies = ", ".join(anomaly.name for anomaly in self.verdict.anomalies)
        line += f" ({anomalies})" if anomalies else ""
        return line if self.as_expected else f"{line}   expected {self.expected}"

    def data(self) -> dict[str, Any]:
        """Return it for a JSON document."""
        return {
            "scenario": self.scenario,
            "seed": self.seed,
            "expected": self.expected,
            "as_expected": self.as_expected,
            "directory": self.directory or None,
            "verdict": None if self.verdict is None else self.verdict.data(),
            "problem": self.problem,
        }


def exit_status(outcomes: Sequence[Outcome]) -> int:
    """Return the status of the worst outcome: violations before refusals before unknowns."""
    verdicts = [one.verdict for one in outcomes if one.verdict is not None and not one.verdict.as_expected]
    if any(one.verdict != "unknown" for one in verdicts):
        return 1
    if any(one.verdict is None for one in outcomes):
        return USAGE_EXIT_STATUS
    return 2 if verdicts else 0


def _refused(run: Refused) -> Outcome:
    """Return the outcome of a run that was refused before it began."""
    return Outcome(run.scenario, run.seed, "", problem=run.problem)


def _not_ended(run: RunPlan | Refused) -> SuiteRun:
    """Return what is known of a run that has not ended."""
    if isinstance(run, Refused):
        return SuiteRun(run.scenario, run.seed, "", None, False, refused=True, problem=run.problem)
    return SuiteRun(run.name, run.seed, str(run.scenario.expect), None, False, repeat=run.command())


def not_run(suite: Suite) -> list[str]:
    """Name the scenarios of a suite that `--only` leaves out: the verdict does not cover them."""
    if not suite.left_out:
        return []
    return [f"{'not run':<11}{listed(list(suite.left_out))}: the verdict on the suite is unknown (--only)"]


@dataclass
class Campaign:
    """A suite about to be run."""

    suite: Suite
    inventory: Inventory | None
    inventory_path: Path | None
    lab: str | None
    seed: int
    runs_directory: Path
    idle_nemesis: bool
    capture: bool
    spark_master: str | None
    in_process: bool
    console: Console
    lake: Path | None = None
    """Where the rows about each run are added; None for nowhere."""
    live: bool = False
    """Whether each run keeps a page about itself while it is under way."""
    wait: float | None = None
    """How many seconds to wait for hosts in use; None means no waiting."""
    night: str = ""
    """The night that it is part of; see `squall nightly`."""
    junit: Path | None = None
    """Where JUnit XML is written as well."""
    report: Path | None = None
    """Where to write `suite.json`, if not beside the runs."""
    outcomes: list[Outcome] = field(default_factory=list)
    running: Path | None = None
    """The directory of the current run."""

    def run(self) -> int:
        """Run and judge everything. Return the exit status. Raises UsageError if the only run is refused."""
        directory = self.runs_directory.resolve()
        runs = list(
            planned(
                self.suite,
                self.seed,
                directory,
                idle_nemesis=self.idle_nemesis,
                capture=self.capture,
                place=self._place(),
            )
        )
        started = datetime.now(UTC).isoformat(timespec="seconds")
        if len(runs) == 1 and isinstance(runs[0], Refused):
            self.outcomes.append(_refused(runs[0]))
            self._report(runs, started)
            raise UsageError(runs[0].problem)
        self._report(runs, started)
        display = LiveDisplay(self.console) if self.live else Display(self.console)
        for one in runs:
            if isinstance(one, Refused):
                display.say(f"{'refused':<11}{one.scenario}, seed {one.seed}: {one.problem}", style="yellow")
        with (
            Judge(self.console, spark_master=self.spark_master, in_process=self.in_process) as judge,
            HostLocks(f"squall run {self.suite.path}", wait=self.wait, say=display.say) as locks,
        ):
            if any(isinstance(one, RunPlan) for one in runs):
                judge.prepare()
            try:
                for number, one in enumerate(runs, 1):
                    self.outcomes.append(self._timed(one, number, len(runs), display, judge, locks))
                    self._report(runs, started)
            except UsageError as refusal:  # of the only run
                failed = Outcome.of(runs[0], None, str(refusal))  # type: ignore[arg-type]
                self.outcomes.append(replace(failed, machine=isinstance(refusal, HostsInUse | SshError)))
                self._report(runs, started)
                raise
            finally:
                if len(runs) > 1:
                    self._sum_up(len(runs))
                for line in not_run(self.suite):
                    self.console.print(line, markup=False)
        return exit_status(self.outcomes)

    def _report(self, runs: Sequence[RunPlan | Refused], started: str) -> None:
        """Write `suite.json`, and JUnit XML if it is wanted."""
        ended = [one.reported() for one in self.outcomes]
        others = [_not_ended(one) for one in runs[len(ended) :]]
        status = None if others else exit_status(self.outcomes)
        report = SuiteReport(
            str(self.suite.said or self.suite.path), started, ended + others, status, self.suite.left_out
        )
        target = self.report or self.runs_directory / SUITE_JSON
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n"
        write_whole(target, text)
        if self.junit is not None:
            self.junit.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.junit, report.junit())

    def _timed(
        self, run: RunPlan | Refused, number: int, total: int, display: Display, judge: Judge, locks: HostLocks
    ) -> Outcome:
        """Carry out and judge one run, and note where it lies and how long it took."""
        began = time.monotonic()
        self.running = None
        outcome = self._outcome(run, number, total, display, judge, locks)
        directory = "" if self.running is None or not self.running.exists() else str(self.running)
        return replace(outcome, directory=directory, seconds=time.monotonic() - began)

    def _place(self) -> Place:
        """Return where scenarios would run; a running lab is examined only when it is used."""
        if self.lab is not None:
            return Anywhere()
        return OwnLab() if self.inventory is None else self.inventory

    def _outcome(
        self, run: RunPlan | Refused, number: int, total: int, display: Display, judge: Judge, locks: HostLocks
    ) -> Outcome:
        """Carry out and judge one run. Raises UsageError if it is refused and there is no other."""
        if isinstance(run, Refused):
            return _refused(run)
        if total > 1:
            self._head(number, total, run)
        try:
            directory = self._carry_out(run, display, locks)
            verdict = judge.judge([directory])[0]
            display.judged(verdict.verdict)
            with contextlib.suppress(IllFormedHistory):  # the verdict reports it
                save_timeline(directory)
            if self.lake is not None:
                add_to_lake(directory, self.lake, self.console, night=self.night)
        except (UsageError, OSError) as trouble:
            problem = str(trouble) if isinstance(trouble, UsageError) else file_problem(trouble)
            if total == 1 or problem is None:
                raise
            display.say(f"{'refused':<11}{problem}", style="yellow")
            return replace(Outcome.of(run, None, problem), machine=isinstance(trouble, HostsInUse | SshError))
        outcome = Outcome.of(run, verdict)
        if verdict.verdict != "valid" or not verdict.as_expected:
            said = "as" if verdict.as_expected else "but not as"
            display.say(f"{'':<10}{said} the scenario expects: {outcome.expected:<40} exit {exit_status([outcome])}")
        self.console.print()
        return outcome

    def _head(self, number: int, total: int, plan: RunPlan) -> None:
        self.console.rule(f"{plan.scenario.scenario}  {number} of {total}", align="left", style="dim")

    def _carry_out(self, plan: RunPlan, display: Display, locks: HostLocks) -> Path:
        """Run one plan. Return its directory; Ctrl-C and SIGTERM end it in order."""
        self.running = None
        try:
            return asyncio.run(self._run(plan, display, locks))
        except (KeyboardInterrupt, asyncio.CancelledError):
            kept = "" if self.running is None else f"; what was recorded can be judged: {self._check_command()}"
            display.say(f"interrupted{kept}")
            raise KeyboardInterrupt from None

    def _check_command(self) -> str:
        assert self.running is not None
        return f"squall check {shown_path(self.running)}"

    async def _run(self, plan: RunPlan, display: Display, locks: HostLocks) -> Path:
        task = asyncio.current_task()
        assert task is not None
        with contextlib.suppress(NotImplementedError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        system = system_of(plan.scenario.cluster.system, plan.scenario.cluster.metadata)
        if isinstance(system, FetchedSystem):
            await asyncio.to_thread(system.fetch, display.say)
        async with hosts_of(plan, self.inventory, display, locks, self.lab) as hosts:
            plan = replace(plan, directory=claim_run(plan.directory))
            self.running = plan.directory
            display.follow(plan.directory, f"{plan.scenario.scenario}, seed {plan.seed}")
            run = ScenarioRun(plan, hosts, display, command=self._command(plan), system=system)
            try:
                return await run.run()
            except (UsageError, OSError):
                run.discard_if_empty()
                raise

    def _command(self, plan: RunPlan) -> str:
        words = plan.command()
        words += f" --inventory {self.inventory_path}" if self.inventory_path is not None else ""
        return words + (f" --lab {self.lab}" if self.lab is not None else "")

    def _sum_up(self, total: int) -> None:
        self.console.rule("suite", align="left", style="dim")
        for one in self.outcomes:
            self.console.print(one.line(), markup=False)
        if len(self.outcomes) < total:
            self.console.print(f"{CROSS} {total - len(self.outcomes)} of {total} runs did not end", markup=False)
