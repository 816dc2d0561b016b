"""`squall faults --verify`: run every trial of the catalogue in turn, on a cluster under light load.

It is a run like any other (`harness/run/run.py`), with history and manifest, but with another course: each trial has a
separate nemesis, and the next begins when the cluster is whole again. A trial that fails does not stop the others.
Ctrl-C heals all hosts.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from squall.harness.catalogue.trials import LONGEST_TRIAL_SECONDS, WINDOW_SECONDS, Result, Trial, judged
from squall.harness.run.run import ScenarioRun, cancelled
from squall.harness.run.run_hosts import Hosts
from squall.harness.scenario.admin import ClusterAdmin
from squall.harness.scenario.cluster import ClusterNotReady, await_whole
from squall.harness.scenario.faults import FaultLog
from squall.harness.scenario.plan import RunPlan
from squall.harness.scenario.suite import Scenario
from squall.harness.terminal.display import Display
from squall.nemesis.catalogue import CatalogueRow
from squall.nemesis.core.evidence import heal_all
from squall.nemesis.core.ports import NODE_PROCESS, HostUnreachable, OperationRefused, VerbFailed
from squall.nemesis.runner import Patience
from squall.nemesis.schedule import Schedule, ScheduledFault
from squall.results.history.segments import EventWriter

NAME = "verify-faults"
WHOLE_SECONDS = 30.0
AGAIN_SECONDS = 0.2
QUIET_SECONDS = 2.0
PATIENCE = Patience(hold=WINDOW_SECONDS, shown=0.5)
"""A trial waits up to its whole window for its fault to show an effect, and then keeps it only for a moment."""

SCENARIO: dict[str, Any] = {
    "scenario": NAME,
    "description": "every fault of the catalogue, one after the other",
    "cluster": {
        "topics": {"events": {"partitions": 3, "replication_factor": 3, "min_insync_replicas": 2}},
        "config": {
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 300,
            "replica.lag.time.max.ms": 1500,
            "log.flush.interval.messages": 20,  # for disk faults that affect fsync
        },
        "dynamic_voters": True,
    },
    "workload": {"name": "log", "producers": 1, "consumers": 1, "rate": "50/s", "acks": "all"},
    "min_acknowledged": 1,
}


def scenario_of(clients: bool) -> Scenario:
    """Return the cluster and the load of trials; with a client host if one of them needs it."""
    cluster = {**SCENARIO["cluster"], "clients": 1 if clients else 0}
    scenario = Scenario.model_validate({**SCENARIO, "cluster": cluster, "fault_free": True})
    return scenario.model_copy(update={"fault_free": False})  # it lists none: the trials are in the plan


def plan_of(
    trials: Sequence[Trial], seed: int, runs_directory: Path, *, clients: bool, idle_nemesis: bool = False
) -> RunPlan:
    """Return one run with the faults of all trials, one after the other."""
    started = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    faults: list[ScheduledFault] = []
    for trial in trials:
        began = max((fault.ends_at_s for fault in faults), default=0.0)
        faults += (replace(fault, at_s=began + fault.at_s) for fault in trial.schedule.faults)
    return RunPlan(
        suite=Path("the catalogue of faults"),
        scenario=scenario_of(clients),
        seed=seed,
        schedule=Schedule(seed, tuple(faults)),
        run_id=str(uuid.uuid4()),
        directory=runs_directory / NAME / started,
        idle_nemesis=idle_nemesis,
    )


class VerificationDisplay(Display):
    """Shows the stages of a run; the caller shows the progress of the trials."""

    def begin_load(self) -> None:
        self.blank()


class Verification(ScenarioRun):
    """Carries out trials on a new cluster. Calls `tell` with each result."""

    def __init__(
        self,
        plan: RunPlan,
        hosts: Hosts,
        display: Display,
        trials: Sequence[Trial],
        *,
        command: str,
        begin: Callable[[Trial], None],
        tell: Callable[[Result], None],
    ) -> None:
        super().__init__(plan, hosts, display, command=command)
        self.trials = trials
        self.begin = begin
        self.tell = tell
        self.operator: ClusterAdmin | None = None
        self.quiet: str | None = None
        """What disturbed the quiet period; None if the run did not reach it."""

    async def _load_under_faults(self) -> None:
        await self._begin_load()
        self.fault_log = FaultLog(EventWriter.faults(self.directory), lambda window: None)
        self.operator = self.testbed.operator()
        try:
            for trial in self.trials:
                self.begin(trial)
                self.tell(await self._tried(trial))
        finally:
            await self.operator.close()
        self.quiet = await self._quiet()
        self.facts.load_ended = self.testbed.now_ns()
        assert self.workers is not None
        await self.workers.stop()

    async def _quiet(self) -> str:
        """Wait for the quiet period. Return what disturbed it: an open fault on some host, or a cluster not whole."""
        disturbed = await self._disturbances()
        await asyncio.sleep(QUIET_SECONDS)
        return disturbed or await self._disturbances()

    async def _disturbances(self) -> str:
        agents = self.testbed.agents
        answers = await asyncio.gather(*(agent.call("journal") for agent in agents.values()), return_exceptions=True)
        for name, answer in zip(agents, answers, strict=True):
            if isinstance(answer, BaseException):
                return str(answer)
            if answer["entries"]:
                return f"{name} has open faults: {answer['entries']}"
        return await self._missing()

    def result_of_quiet(self, row: CatalogueRow) -> Result:
        """Return the result of the row that the run's end verifies: no disturbance any more, and all data readable."""
        reasons = [
            self.quiet or "",
            "" if self.facts.final_read == "complete" else f"final reads {self.facts.final_read}",
        ]
        if self.quiet is None:
            reasons = ["the run did not come to it"]
        reason = "; ".join(filter(None, reasons))
        return Result(
            number=row.number,
            row=row.name,
            faults="none",
            outcome="failed" if reason else "verified",
            reason=reason,
            targets="all",
            during=f"{QUIET_SECONDS:g} s without an open fault on {len(self.testbed.agents)} hosts, the cluster whole",
            after=f"final reads {self.facts.final_read}",
        )

    async def _tried(self, trial: Trial) -> Result:
        """Carry out one trial and wait until the cluster is whole again. When cancelled, heals all hosts first."""
        assert self.fault_log is not None
        assert self.operator is not None
        runner = self._runner(trial.schedule, self.operator, self.fault_log.note, PATIENCE)
        running = asyncio.create_task(runner.run())
        trouble = ""
        try:
            await asyncio.wait({running}, timeout=LONGEST_TRIAL_SECONDS)
            if not running.done():
                trouble = f"it did not end within {LONGEST_TRIAL_SECONDS:g} s"
        finally:
            await cancelled(running)
        if not trouble and running.exception() is not None:
            trouble = repr(running.exception())
        began = time.monotonic()
        not_whole = await self._until_whole()
        whole_s = None if not_whole else time.monotonic() - began
        return judged(trial, runner.records, whole_s, "; ".join(filter(None, (trouble, not_whole))))

    async def _until_whole(self) -> str:
        """Wait for every node to run, every replica to be in sync and every voter to vote. Return what is missing.

        Nodes that stay down are started, so that one trial does not spoil the next.
        """
        if not (missing := await self._missing_within(WHOLE_SECONDS)):
            return ""
        await heal_all(self.testbed.hosts)
        for name, state in (await self.testbed.statuses()).items():
            if state != "running":
                try:
                    await self.testbed.agents[name].call("proc.start", name=NODE_PROCESS)
                except (VerbFailed, HostUnreachable) as trouble:
                    missing += f"; {trouble}"
        await self._missing_within(WHOLE_SECONDS)
        return f"the cluster was not whole {WHOLE_SECONDS:g} s later: {missing}"

    async def _missing_within(self, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while missing := await self._missing():
            if time.monotonic() >= deadline:
                return missing
            await asyncio.sleep(AGAIN_SECONDS)
        return ""

    async def _missing(self) -> str:
        statuses = await self.testbed.statuses()
        if down := ", ".join(f"{name} {state}" for name, state in statuses.items() if state != "running"):
            return down
        try:
            await await_whole(
                self.testbed.admin, len(self.testbed.bootstrap()), self.scenario.topics, AGAIN_SECONDS, between=0.05
            )
        except ClusterNotReady as trouble:
            return str(trouble)
        return await self._missing_voters()

    async def _missing_voters(self) -> str:
        assert self.operator is not None
        try:
            voters = await self.operator.voters()
        except OperationRefused as refused:
            return str(refused)
        missing = [name for name in self.testbed.cluster.controllers if name not in voters]
        return f"{', '.join(missing)} do not vote" if missing else ""
