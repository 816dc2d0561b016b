"""`squall run`: every scenario of a suite in turn, each run and then judged, and one exit status for all.

One scenario exits by its verdict. A suite exits 0 when every verdict and its anomalies are what the scenario
expects, 1 on an unexpected violation or one that was missed, 2 on an unexpected unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from squall.harness.display import CHECK, CROSS, Display
from squall.harness.errors import UsageError
from squall.harness.hosts.host_locks import HostLocks
from squall.harness.inventory import Inventory
from squall.harness.judging import Judge, shown_path
from squall.harness.plan import RunPlan, plan_suite
from squall.harness.run import ScenarioRun
from squall.harness.run_hosts import hosts_of
from squall.harness.suite import Suite
from squall.harness.timeline import save_timeline
from squall.results.history import IllFormedHistory
from squall.results.store import claim_run
from squall.results.text import listed
from squall.results.verdict import Verdict


@dataclass(frozen=True)
class Outcome:
    """One run of a suite, judged."""

    plan: RunPlan
    verdict: Verdict


def exit_status(outcomes: list[Outcome], single: bool) -> int:
    """The worst of what happened: violations before unknowns."""
    if single and len(outcomes) == 1:
        return outcomes[0].verdict.exit_code
    wrong = [one.verdict for one in outcomes if not one.verdict.as_expected]
    if not wrong:
        return 0
    return 2 if all(one.verdict == "unknown" for one in wrong) else 1


def not_run(suite: Suite) -> list[str]:
    """Which scenarios of a suite `--only` leaves out: the verdict says nothing about them."""
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
    wait: float | None = None
    """How many seconds to wait for hosts in use; None not at all."""
    outcomes: list[Outcome] = field(default_factory=list)
    running: Path | None = None
    """The directory of the run that is under way."""

    def run(self) -> int:
        """Run and judge everything; the exit status."""
        directory = self.runs_directory.resolve()
        plans = list(plan_suite(self.suite, self.seed, directory, idle_nemesis=self.idle_nemesis, capture=self.capture))
        display = Display(self.console)
        with (
            Judge(self.console, spark_master=self.spark_master, in_process=self.in_process) as judge,
            HostLocks(f"squall run {self.suite.path}", wait=self.wait, say=display.say) as locks,
        ):
            judge.prepare()
            for number, plan in enumerate(plans, 1):
                if len(plans) > 1:
                    self._head(number, len(plans), plan)
                run = self._carry_out(plan, display, locks)
                self.outcomes.append(Outcome(plan, judge.judge([run])[0]))
                with contextlib.suppress(IllFormedHistory):  # the verdict has told of it
                    save_timeline(run)
                self.console.print()
        if len(plans) > 1:
            self._sum_up()
        for line in not_run(self.suite):
            self.console.print(line, markup=False)
        return exit_status(self.outcomes, self.suite.single)

    def _head(self, number: int, total: int, plan: RunPlan) -> None:
        self.console.rule(f"{plan.scenario.scenario}  {number} of {total}", align="left", style="dim")

    def _carry_out(self, plan: RunPlan, display: Display, locks: HostLocks) -> Path:
        """Run one plan, and where; Ctrl-C and SIGTERM end it in order."""
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
        async with hosts_of(plan, self.inventory, display, locks, self.lab) as hosts:
            plan = replace(plan, directory=claim_run(plan.directory))
            self.running = plan.directory
            run = ScenarioRun(plan, hosts, display, command=self._command(plan))
            try:
                return await run.run()
            except UsageError:
                run.discard_if_empty()
                raise

    def _command(self, plan: RunPlan) -> str:
        words = plan.command(several=not self.suite.single)
        words += f" --inventory {self.inventory_path}" if self.inventory_path is not None else ""
        return words + (f" --lab {self.lab}" if self.lab is not None else "")

    def _sum_up(self) -> None:
        self.console.rule("suite", align="left", style="dim")
        for one in self.outcomes:
            verdict = one.verdict
            mark = CHECK if verdict.as_expected else CROSS
            anomalies = ", ".join(anomaly.name for anomaly in verdict.anomalies)
            line = f"{mark} {one.plan.scenario.scenario:<44} seed {one.plan.seed:<6} {verdict.verdict}"
            line += f" ({anomalies})" if anomalies else ""
            line += "" if verdict.as_expected else f"   expected {one.plan.scenario.expect}"
            self.console.print(line, markup=False)
