"""Collecting from hosts that do not answer, or not whole (HX-05): what is missing is written down, not passed over."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from squall.harness.hosts.ssh import Result
from squall.harness.hosts.ssh_access import Unreachable
from squall.harness.hosts.system import DIGEST_FILE, NodePlan, ProcessDefinition
from squall.harness.run.node_records import NodeRecords
from squall.harness.scenario.inventory import HostSpec
from squall.harness.scenario.suite import Scenario
from squall.nemesis.core.ports import OperationRefused
from squall.results.checkers.further import check_further
from squall.results.history.operation_tables import CONTROL_PLANE, REPLICAS, read_kind
from squall.workloads.clients.native.operator import Quorum
from tests.harness.scenario.test_node_tables import CONTROLLER, VALUES, Host

READS = [{"topic": "events", "partition": 0, "marker_offset": 3, "complete": True}]
SCENARIO = Scenario.model_validate({"scenario": "one", "fault_free": True})


@dataclass
class FakeRemote:
    """A host whose files lie here; `broken` is what it does in place of an answer."""

    name: str
    digest: Path
    broken: str = ""
    spec: HostSpec = field(init=False)

    def __post_init__(self) -> None:
        self.spec = HostSpec(self.name, "127.0.0.1", ())

    def run(self, command: Any, **_: Any) -> Result:
        if self.broken == "silent":
            raise Unreachable(self.spec, "no answer within 30 s")
        return Result(0, "0\n1\nevents 0 4\n", "")

    def get(self, source: str, target: Path, **_: Any) -> None:
        shutil.copy(self.digest, target)
        if self.broken == "torn":
            target.write_bytes(target.read_bytes()[:-20])


@dataclass
class FakeOperator:
    fails: bool = False

    async def quorum(self) -> Quorum:
        if self.fails:
            raise OperationRefused("none of its controllers says that it leads")
        return Quorum(CONTROLLER, {CONTROLLER: b""}, {}, 1, 4)

    async def close(self) -> None:
        pass


@dataclass
class FakeTestbed:
    plans: dict[str, NodePlan]
    remotes: dict[str, FakeRemote]
    quorum_fails: bool = False

    def operator(self) -> FakeOperator:
        return FakeOperator(self.quorum_fails)

    async def statuses(self) -> dict[str, str]:
        return dict.fromkeys(self.plans, "running")


def bed_of(root: Path, **broken: str) -> FakeTestbed:
    plans, remotes = {}, {}
    for node in (1, 2, CONTROLLER):
        one = Host(root, node)
        if node != CONTROLLER:
            one.events(VALUES)
        one.described()
        name = f"n{node}"
        process = ProcessDefinition("node", (), {}, "", "", data=str(one.root / "data"))
        roles = ("controller",) if node == CONTROLLER else ("broker",)
        digest = ("digest", f"{root}/{name}/{DIGEST_FILE}")
        plans[name] = NodePlan(name, node, roles, "127.0.0.1", {}, (), process, (), digest=digest)
        remotes[name] = FakeRemote(name, one.root / "digest.gz", broken.get(name, ""))
    return FakeTestbed(plans, remotes)


def collected(bed: FakeTestbed, run: Path) -> tuple[NodeRecords, str]:
    run.mkdir()
    records = NodeRecords(bed, run)  # type: ignore[arg-type]
    said = asyncio.run(records.describe(SCENARIO, READS, settle=0.0))
    records.write("the-run")
    return records, said


def undecided(run: Path, kind: str) -> tuple[str, ...]:
    table = read_kind(run / f"{kind}.parquet", kind, "the-run")
    found = check_further(kind, table, {})
    assert found.anomalies == {}
    return found.undecided


def test_what_all_hosts_describe_is_compared(tmp_path: Path) -> None:
    records, said = collected(bed_of(tmp_path), tmp_path / "run")
    assert records.problem == ""
    assert said.startswith("5 logs described on 3 hosts in ")
    assert undecided(tmp_path / "run", REPLICAS) == ()


@pytest.mark.parametrize(
    ("broken", "why"), [("silent", "no answer within 30 s"), ("torn", f"{DIGEST_FILE}: is damaged")]
)
def test_a_broker_without_a_whole_answer_is_named(tmp_path: Path, broken: str, why: str) -> None:
    records, said = collected(bed_of(tmp_path, n2=broken), tmp_path / "run")
    assert records.problem == ""
    assert said.endswith("none on n2")
    (sentence,) = undecided(tmp_path / "run", REPLICAS)
    assert sentence.startswith("events-0: the in-sync replica on n2 could not be looked at: ")
    assert why in sentence


def test_without_the_quorum_leaders_log_nothing_is_known_of_isrs(tmp_path: Path) -> None:
    collected(bed_of(tmp_path, **{f"n{CONTROLLER}": "silent"}), tmp_path / "run")
    assert undecided(tmp_path / "run", REPLICAS) == ("no in-sync replica held a record: nothing was compared",)
    assert f"the metadata log of node {CONTROLLER}, which led the quorum, could not be read" in undecided(
        tmp_path / "run", CONTROL_PLANE
    )


def test_a_quorum_that_cannot_be_asked_leaves_no_tables_and_a_reason(tmp_path: Path) -> None:
    bed = bed_of(tmp_path)
    bed.quorum_fails = True
    records, said = collected(bed, tmp_path / "run")
    assert records.problem == "the quorum could not be asked: none of its controllers says that it leads"
    assert said == f"replicas not compared: {records.problem}"
    assert list((tmp_path / "run").glob("*.parquet")) == []


def test_a_run_that_ended_before_has_a_reason_too(tmp_path: Path) -> None:
    records = NodeRecords(bed_of(tmp_path), tmp_path)  # type: ignore[arg-type]
    records.write("the-run")
    assert records.problem == "the run ended before its nodes could be asked"
