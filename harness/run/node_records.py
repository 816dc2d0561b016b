"""Collect a run's node records: digests of every replica's log, metadata logs, control traces (HX-05, HX-06).

After faults are healed and final reads are done, while nodes still run, each host describes its own logs with a program
of the node's bundle (`nodes/server/digest.py`), so that no log has to be transferred. Control traces are fetched with
the nodes' logs once the nodes have stopped. Both become tables beside the history, `replicas.parquet` and
`control-plane.parquet` (`node_tables.py`), which the checker judges like every other table
(`results/checkers/replicas`).

A host that does not respond, or a torn digest, is recorded as such: the checker then reports which replica was not
compared, and the verdict is unknown. If not even the quorum's leader responds there are no tables, and the manifest
states why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from squall.harness.deadlines import within
from squall.harness.errors import UsageError
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.ssh_access import SshError
from squall.harness.hosts.system import DIGEST_FILE, NodePlan
from squall.harness.run.testbed import Testbed
from squall.harness.scenario.cluster import ClusterNotReady, await_whole
from squall.harness.scenario.node_tables import (
    Asked,
    Described,
    TornDigest,
    committed_ends,
    parse_watermarks,
    read_digest,
    read_trace,
    tables_of,
)
from squall.harness.scenario.removal import damages_files, removal_allowed
from squall.harness.scenario.suite import Scenario
from squall.nemesis.core.ports import OperationRefused
from squall.results.checkers.common.text import several
from squall.results.checkers.replicas.control import NOT_TRACED, QuorumFacts, TraceEvent
from squall.results.history.operation_tables import CONTROL_PLANE, REPLICAS, write_kind

DIGEST_SECONDS = 300.0
"""How long a host may take to describe its logs."""
ASK_SECONDS = 20.0
RUNNING = "running"
HIGH_WATERMARKS = "replication-offset-checkpoint"

Answer = TypeVar("Answer")


@dataclass
class NodeRecords:
    """Collects from the hosts of one testbed.

    Call `describe` while nodes run, then `write` once their traces are there.
    """

    testbed: Testbed
    directory: Path
    """The run's directory, in which `nodes/HOST/` receives the fetched files."""
    problem: str = "the run ended before its nodes could be asked"
    """Why there is nothing to write; empty once there is."""
    _asked: Asked | None = None
    _described: list[Described] = field(default_factory=list)

    async def describe(self, scenario: Scenario, reads: Iterable[Mapping[str, Any]], settle: float) -> str:
        """Let every host describe its logs. Return the outcome in words.

        ISRs have `settle` seconds to be whole first: a replica outside its ISR then need not have what members must
        have.
        """
        began = time.monotonic()
        if settle > 0:
            with suppress(ClusterNotReady):
                await await_whole(self.testbed.admin, len(self.testbed.bootstrap()), scenario.topics, settle)
        before = await self.testbed.statuses()
        try:
            self._asked = await self._ask(committed_ends(reads, scenario), scenario)
        except OperationRefused as trouble:
            self.problem = f"the quorum could not be asked: {trouble}"
            return f"replicas not compared: {self.problem}"
        problems = await asyncio.to_thread(self._fetch_digests)
        after = await self.testbed.statuses()
        live = {name for name in before if before[name] == after.get(name) == RUNNING}
        self._described = [self._described_by(plan, problems.get(name, ""), name in live) for name, plan in self._plans]
        self.problem = ""
        unread = [one.host for one in self._described if one.problem]
        logs = sum(len(one.logs) for one in self._described)
        seconds = time.monotonic() - began
        said = f"{several(logs, 'log')} described on {several(len(self._described) - len(unread), 'host')}"
        return f"{said} in {seconds:.1f} s" + (f", none on {', '.join(unread)}" if unread else "")

    def write(self, run_id: str) -> None:
        """Write the tables. Raises OSError."""
        if self._asked is None or self.problem:
            return
        events = [one for name, plan in self._plans for one in self._trace_of(name, plan)]
        replicas, control = tables_of(self._asked, self._described, events)
        write_kind(self.directory, REPLICAS, replicas, run_id=run_id)
        write_kind(self.directory, CONTROL_PLANE, control, run_id=run_id)

    # -- asking ------------------------------------------------------------------------------------------------

    @property
    def _plans(self) -> Sequence[tuple[str, NodePlan]]:
        return list(self.testbed.plans.items())

    async def _ask(self, ends: Mapping[tuple[str, int], int], scenario: Scenario) -> Asked:
        """Query in the order that `node_tables.py` relies on. Raises OperationRefused."""
        first = await self._quorum()
        watermarks = await asyncio.to_thread(self._high_watermarks)
        quorums = (first, await self._quorum())
        return Asked(quorums, watermarks, ends, removal_allowed(scenario), damages_files(scenario))

    async def _quorum(self) -> QuorumFacts:
        """Return the quorum's state. Raises OperationRefused."""
        operator = self.testbed.operator()
        try:
            found = await within(ASK_SECONDS, operator.quorum())
        except TimeoutError:
            raise OperationRefused(f"no controller answered within {ASK_SECONDS:g} s") from None
        finally:
            await operator.close()
        voters = tuple(sorted(found.voters))
        return QuorumFacts(leader=found.leader, epoch=found.epoch, committed=found.committed, voters=voters)

    def _high_watermarks(self) -> dict[int, Mapping[tuple[str, int], int] | None]:
        """Return the high watermarks that brokers have checkpointed, by node; None where they cannot be read."""

        def read(remote: Remote, plan: NodePlan) -> Mapping[tuple[str, int], int]:
            path = f"{plan.process.data}/{HIGH_WATERMARKS}"
            return parse_watermarks(remote.run(["cat", "--", path], sudo=remote.spec.sudo).stdout)

        found = self._on_each(read, [name for name, plan in self._plans if plan.is_broker])
        return {self.testbed.plans[name].node_id: None if isinstance(one, str) else one for name, one in found.items()}

    def _fetch_digests(self) -> dict[str, str]:
        """Describe and fetch, on all hosts in parallel. Return why it failed, by host."""

        def fetch(remote: Remote, plan: NodePlan) -> None:
            remote.run(list(plan.digest), check=True, timeout=DIGEST_SECONDS, sudo=remote.spec.sudo)
            into = self.directory / "nodes" / plan.host
            into.mkdir(parents=True, exist_ok=True)
            remote.get(plan.digest[-1], into / DIGEST_FILE, sudo=remote.spec.sudo)

        found = self._on_each(fetch, [name for name, plan in self._plans if plan.digest])
        missing = {name: "its system does not describe its logs" for name, plan in self._plans if not plan.digest}
        return missing | {name: one for name, one in found.items() if isinstance(one, str)}

    def _on_each(self, work: Callable[[Remote, NodePlan], Answer], names: Iterable[str]) -> dict[str, Answer | str]:
        """Do `work` on all of these hosts. Return its result, or why it failed, by host."""

        def one(remote: Remote) -> Answer | str:
            try:
                return work(remote, self.testbed.plans[remote.name])
            except (SshError, UsageError, OSError) as trouble:
                return " ".join(str(trouble).split()) or type(trouble).__name__

        return on_all([self.testbed.remotes[name] for name in names], one)

    # -- reading -----------------------------------------------------------------------------------------------

    def _described_by(self, plan: NodePlan, problem: str, live: bool) -> Described:
        if not problem:
            try:
                logs, records = read_digest(self.directory / "nodes" / plan.host / DIGEST_FILE)
                return Described(plan.host, plan.node_id, live, "", logs, records)
            except (TornDigest, OSError) as trouble:
                problem = str(trouble)
        return Described(plan.host, plan.node_id, live, problem)

    def _trace_of(self, name: str, plan: NodePlan) -> list[TraceEvent]:
        if not plan.trace:
            return [TraceEvent(host=name, node=plan.node_id, incarnation=0, event=NOT_TRACED)]
        path = self.directory / "nodes" / name / Path(plan.trace).name
        return list(read_trace(path, name, plan.node_id)) if path.is_file() else []
